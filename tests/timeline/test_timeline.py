"""The timeline: what happened, in the order of time."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest

from kshark import limits
from kshark.cli.events import entry_lines
from kshark.pipeline import JUDGED
from kshark.timeline import Entry, Timeline
from tests.analysis.talks import broker_refuses
from tests.conversation import Conversation, Thinned, events, registry
from tests.groups.test_rebalances import goes_by, killed_and_left


def timeline(talk: Conversation | Thinned, *, one_by_one: bool = False) -> list[Entry]:
    stage, every = Timeline(registry()), events(talk, JUDGED)
    for page in [[event] for event in every] if one_by_one else [every]:
        stage.page(page)
    return stage.close()


def texts(talk: Conversation | Thinned, kind: str) -> list[str]:
    return [entry.text for entry in timeline(talk) if entry.kind == kind]


def created(talk: Conversation, name: str, partitions: int = 2, error: int = 0) -> None:
    topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}]
    asked = talk.connection().ask(19, "CreateTopics", 5, {"topics": topics, "timeout_ms": 1000, "validate_only": False})
    answer = {"name": name, "error_code": error, "error_message": None, "num_partitions": partitions}
    asked.answered(None, topics=[{**answer, "replication_factor": 1, "configs": []}])


def metadata(talk: Conversation, leader: int, epoch: int = 1, error: int = 0) -> None:
    partition: dict[str, Any] = {
        "error_code": 0, "partition_index": 0, "leader_id": leader, "leader_epoch": epoch, "replica_nodes": [1, 2],
        "isr_nodes": [1, 2], "offline_replicas": [],
    }  # fmt: skip
    topic = {"error_code": error, "name": "t", "is_internal": False, "partitions": [partition]}
    brokers = [{"node_id": node, "host": f"10.0.0.{node}", "port": 9092} for node in (1, 2)]
    asked = talk.connection().ask(3, "Metadata", 7, {"topics": [{"name": "t"}], "allow_auto_topic_creation": False})
    asked.answered(None, brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def test_topics_that_are_made_and_those_that_are_not() -> None:
    talk = Conversation()
    created(talk, "orders")
    created(talk, "orders", error=36)
    assert texts(talk, "topic") == [
        "topic orders was created with 2 partitions by c1",
        "c1 could not create topic orders: TOPIC_ALREADY_EXISTS",
    ]


def test_a_leader_that_moves() -> None:
    talk = Conversation()
    metadata(talk, 1)
    metadata(talk, 2, epoch=2)
    (moved,) = [entry for entry in timeline(talk) if entry.kind == "leader"]
    assert moved.text == "leader of t[0] moved from broker 1 to 2 (10.0.0.2:9092)"
    assert (moved.topic, moved.partition, moved.broker) == ("t", 0, "10.0.0.2:9092")


@pytest.mark.parametrize(("leader", "epoch", "error"), [(1, 5, 0), (2, 0, 0), (-1, 2, 0), (2, 2, 3)])
def test_an_answer_that_is_the_same_older_or_failed_moves_no_leader(leader: int, epoch: int, error: int) -> None:
    talk = Conversation()
    metadata(talk, 1)
    metadata(talk, leader, epoch, error)
    assert texts(talk, "leader") == []


def test_members_and_the_state_of_their_group() -> None:
    talk = Conversation()
    member = talk.member("a")
    member.heartbeat(-1).given(-1)
    assert texts(talk, "member") == ["c1 joined group g", "c1 left, group g"]
    assert texts(talk, "group")[-1].startswith("share group g is Empty")


def test_a_session_that_expired_stands_at_its_time_and_names_no_packet() -> None:
    """The capture shows it only later."""
    talk = Conversation()
    killed_and_left(talk)
    goes_by(talk, 20)
    entries = timeline(talk)
    assert [entry.time_ns for entry in entries] == sorted(entry.time_ns for entry in entries)
    inferred = {entry.text: entry for entry in entries if entry.about}
    assert [entry.kind for entry in inferred.values()] == ["group", "member"]
    assert all(re.search(r" about \d\d:\d\d:\d\d\b", text) for text in inferred)
    assert [line for entry in inferred.values() for line in spoken(entry) if "packet" in line] == []


def spoken(entry: Entry) -> list[str]:
    return ["".join(text for text, _ in line) for line in entry_lines(entry, None)]


def test_refused_connections_that_follow_each_other_are_one_entry() -> None:
    talk = Conversation()
    talk.member("a")
    for _ in range(3):
        broker_refuses(talk)
        talk.pause(1)
    (entry,) = [entry for entry in timeline(talk) if entry.kind == "connection"]
    assert (entry.text, entry.count) == ("10.0.0.9:9092 refused connections of 10.0.0.1", 3)
    assert entry.until_ns is not None


def test_missing_packets_are_said() -> None:
    talk = Conversation()
    member = talk.member("a")
    lost = member.share_fetch(0).answered()
    member.share_fetch(1).answered()
    (gap,) = texts(talk.without_packets(lost.answer_packets), "capture")
    assert gap == "bytes from 10.0.0.9:9092 to 10.0.0.1:50001 are missing"


def test_the_size_of_pages_changes_nothing() -> None:
    talk = Conversation()
    created(talk, "orders")
    metadata(talk, 1)
    talk.member("a").share_fetch(0).answered()
    metadata(talk, 2, epoch=2)
    assert timeline(talk, one_by_one=True) == timeline(talk)


def test_entries_beyond_the_limit_are_counted() -> None:
    talk = Conversation()
    for number in range(4):
        created(talk, f"t{number}")
    stage = Timeline(registry())
    with patch.object(limits, "TIMELINE_ENTRIES", 3):
        stage.page(events(talk, JUDGED))
    assert stage.left_out == 1
