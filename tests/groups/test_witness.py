"""What members did, against what coordinators told administrators, what brokers logged, and what applications say they
did."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshark.api_keys import (
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
)
from kshark.capture import open_captures
from kshark.groups import APIS, AcknowledgementStyle, Groups, ListedGroup, ListedMember
from kshark.model import Event, Exchange
from kshark.pipeline import Engine, Options
from kshark_dissectors.topics import NAMING_APIS
from tests.conversation import registry
from tests.groups.talks import assignment, tasks
from tests.shared import CAPTURES, shared
from tests.witness.compare import log_of

_TOLD = frozenset({DESCRIBE_GROUPS, LIST_GROUPS, CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE})
READ = Options(records=False, bodies=APIS | NAMING_APIS | {API_VERSIONS}, embedded=True)


#: A recording of Kafka 4.4.0 with session timeouts of 6 s (group.share.session.timeout.ms and its siblings, which
#: DescribeConfigs shows): members of share, consumer and classic groups are killed at 07:32:30.9, others leave, and an
#: administrator describes all groups every 2.5 s. Each kind has a group whose only member is killed.
KILLED = Path(__file__).parent / "killed.pcap.gz"


class Capture:
    """Its events; `names` as far as they are known."""

    def __init__(self, path: Path) -> None:
        self._engine = Engine(READ, registry())
        self._path = path

    def __iter__(self) -> Iterator[Event]:
        for page in self._engine.pages(open_captures([self._path])):
            yield from page

    @property
    def names(self) -> dict[str, str]:
        assert self._engine.back.names is not None
        return self._engine.back.names.by_id


def listed(path: Path) -> list[ListedGroup]:
    groups, capture = Groups(), Capture(path)
    for event in capture:
        groups.feed(event)
    groups.close()
    return groups.listed(capture.names)


def captured(name: str) -> Path:
    if name == "killed":
        return KILLED
    return shared("captures", *name.split("/")) if "/" in name else CAPTURES / name


def _members(group: ListedGroup, *, told: bool) -> list[Any]:
    """Who is in it: with epochs where there are any."""
    return sorted(
        (
            one.member_id,
            one.client_id,
            one.address,
            None if group.type == "classic" else one.epoch,
            assignment(one),
            tasks(one),
        )
        for one in group.members
        if told or one.present
    )


@pytest.mark.parametrize(
    ("name", "descriptions"),
    [
        ("kafka-4/groups-share.pcap", 25),
        ("kafka-4/groups-classic.pcap", 11),
        ("kafka-4/groups-connect.pcap", 1),
        ("kafka-4/ver-4.1.2.pcap", 10),
        ("share-java-explicit.pcap", 7),
        ("share-java-explicit-4.1.2.pcap", 3),
        ("streams-groups.pcap", 7),
        ("killed", 132),
    ],
)
def test_what_members_did_gives_what_coordinators_tell(name: str, descriptions: int) -> None:
    """State, epoch, assignor, members and their assignments as they follow from members' messages alone, at each answer
    that tells them."""
    ours, capture = Groups(), Capture(captured(name))
    compared = 0
    for event in capture:
        if not isinstance(event, Exchange) or event.request is None or event.request.api_key not in _TOLD:
            ours.feed(event)
            continue
        theirs = Groups()
        theirs.feed(event)
        mine = {group.group_id: group for group in ours.listed(capture.names)}
        for told in theirs.listed(capture.names):
            if told.group_id == "g-static" and told.state == "Empty":
                continue  # its static members were killed: of their end there is no message
            own = mine[told.group_id]
            assert (own.type, own.state) == (told.type, told.state)
            if event.request.api_key != LIST_GROUPS:
                if told.members:  # of an epoch that no member received there is no message
                    assert own.assignment_epoch == told.assignment_epoch
                assert _members(own, told=False) == _members(told, told=True)
            if told.type == "classic" and told.assignor:
                assert own.assignor == told.assignor
            compared += 1
    assert compared == descriptions


@pytest.mark.parametrize(
    "name",
    [
        "clients/franz-group848.pcap",
        "clients/platformatic-group848.pcap",
        "clients/fzst431-churn.pcap",
        "kafka-4/groups-share.pcap",
    ],
)
def test_members_are_as_the_broker_logged_them(name: str) -> None:
    path = captured(name)
    logged: dict[tuple[str, str], dict[str, Any]] = {}
    for line in log_of(path):
        if line["requestHeader"]["requestApiKeyName"] not in ("SHARE_GROUP_HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT"):
            continue
        asked, answer = line["request"], line["response"]
        one = logged.setdefault(
            (asked["groupId"], asked["memberId"]), {"client": line["requestHeader"]["clientId"], "assignment": None}
        )
        one["software"] = tuple(line["clientInformation"].values())
        if answer["errorCode"] == 0 and answer["memberEpoch"] > 0:
            one["epoch"] = answer["memberEpoch"]
        if answer["errorCode"] == 0 and answer["assignment"] is not None:
            one["assignment"] = {
                topic["topicId"]: topic["partitions"] for topic in answer["assignment"]["topicPartitions"]
            }
    assert {
        (group.group_id, one.member_id): _as_logged(one) for group in listed(path) for one in group.members
    } == logged


def _as_logged(one: ListedMember) -> dict[str, Any]:
    told = None if one.assignment is None else {topic.topic_id: topic.partitions for topic in one.assignment}
    return {
        "client": one.client_id,
        "assignment": told,
        "software": (one.software, one.software_version),
        "epoch": one.epoch,
    }


@pytest.mark.parametrize(
    "name",
    [
        "share-java-explicit",
        "share-java-explicit-4.0.0",
        "share-java-explicit-4.1.2",
        "share-java-implicit-4.2.1",
        "share-java-renew",
        "share-librdkafka",
        "share-restart",
        "share-loss",
    ],
)
def test_styles_are_those_of_the_applications(name: str) -> None:
    """Whoever acknowledges implicitly is told so; of those who choose, whoever did more than to accept all it got."""
    with gzip.open(CAPTURES / f"{name}.truth.json.gz") as file:
        steps = json.load(file)["events"]
    said: dict[str, set[str]] = {}
    for step in steps:
        if "ack" in step:
            said.setdefault(step["client"], set()).add(step["ack"])
    found = {
        one.client_id or "": one.acknowledges.style
        for group in listed(CAPTURES / f"{name}.pcap")
        for one in group.members
        if one.acknowledges is not None
    }
    for client, acks in said.items():
        if "ACCEPT(implicit)" in acks:
            assert found[client] == "implicit"
        elif len(acks) > 1:
            assert found[client] == "explicit"
    assert said


def test_sessions_of_killed_members_expire_as_the_coordinator_says() -> None:
    """What shows it; a static member leaves for a while and does not come back."""
    ends = {
        one.client_id: (one.ended.how, one.ended.because)
        for group in listed(KILLED)
        for one in group.members
        if one.ended is not None and one.ended.how != "left"
    }
    assert ends == {
        "c2": ("expired", "assigned_to_others"),
        "c3": ("expired", "epoch"),
        "s2": ("expired", "epoch"),
        "l2": ("expired", "not_listed"),
        **dict.fromkeys(("c9", "s9", "l9"), ("expired", "not_listed")),
    }


def test_a_recorded_group_is_deleted_after_its_topic() -> None:
    """Topic ea was deleted and made again in between."""
    (group,) = [
        one for one in listed(shared("captures", "field", "real-groups-delete-unfinished.pcap")) if one.operations
    ]
    (deletion,) = group.operations
    assert (group.group_id, group.type, group.state) == ("g2", "share", "Dead")
    assert (deletion.outcome, deletion.because, deletion.in_sight) == ("done", None, True)
    assert [(row.topic, row.partition, row.lacking) for row in deletion.partitions] == [
        *(("eb", number, False) for number in (0, 1)),
        *(("ea", number, False) for number in (0, 1, 2)),
    ]


def test_a_recorded_member_that_was_killed() -> None:
    """Its session timeout of 6 s is not in the capture; another member gets its partitions. A static one is away."""
    (group,) = [
        one for one in listed(shared("captures", "field", "real-groups-848-killed.pcap.gz")) if one.group_id == "ck"
    ]
    ends = {one.client_id: one.ended for one in group.members}
    assert {client: (end.how, end.because) for client, end in ends.items() if end is not None} == {
        "k1": ("left", None),
        "k2": ("expired", "assigned_to_others"),
        "k3": ("expired", "assigned_to_others"),
    }
    killed = next(one for one in group.members if one.client_id == "k3")
    assert killed.last is not None
    assert killed.ended is not None
    assert 6e9 < killed.ended.time_ns - killed.last.time_ns < 7e9


def test_recorded_groups_without_the_right_to_read() -> None:
    """Kafka refuses a member's join with 30, or its acknowledgements with 29 and 30."""
    g3, g4 = listed(shared("captures", "field", "real-share-acls-4.4.0.pcap"))
    assert (g3.group_id, g3.not_captured, [one.present for one in g3.members]) == ("G3", [], [False])
    (member,) = g4.members
    assert (member.present, member.acknowledges) == (True, AcknowledgementStyle(None, "10 refused"))


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("classic-static-id-twice", ["replaced"] * 5 + [None]),
        ("kip848-static-leave", [None] + ["left"] * 4),
        ("kip848-unreleased-instance", ["expired", None, None]),
    ],
)
def test_static_members_of_field_reports(name: str, ends: list[str | None]) -> None:
    (group,) = listed(shared("captures", "field", f"{name}.pcap"))
    assert [None if one.ended is None else one.ended.how for one in group.members] == ends
