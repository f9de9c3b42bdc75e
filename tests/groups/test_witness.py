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
from kshark.groups import APIS, Groups, ListedGroup, ListedMember
from kshark.model import Exchange
from kshark.pipeline import Engine, Options
from kshark_dissectors.topics import NAMING_APIS
from tests.conversation import registry
from tests.groups.talks import assignment, tasks
from tests.shared import CAPTURES, shared
from tests.witness.compare import log_of

_TOLD = frozenset({DESCRIBE_GROUPS, LIST_GROUPS, CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE})
_READ = Options(records=False, bodies=APIS | NAMING_APIS | {API_VERSIONS}, embedded=True)


class Capture:
    """Its exchanges; `names` as far as they are known."""

    def __init__(self, path: Path) -> None:
        self._engine = Engine(_READ, registry())
        self._path = path

    def __iter__(self) -> Iterator[Exchange]:
        for page in self._engine.pages(open_captures([self._path])):
            yield from (event for event in page if isinstance(event, Exchange))

    @property
    def names(self) -> dict[str, str]:
        assert self._engine.back.names is not None
        return self._engine.back.names.by_id


def listed(path: Path) -> list[ListedGroup]:
    groups, capture = Groups(), Capture(path)
    for exchange in capture:
        groups.feed(exchange)
    groups.close()
    return groups.listed(capture.names)


def captured(name: str) -> Path:
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
    ],
)
def test_what_members_did_gives_what_coordinators_tell(name: str, descriptions: int) -> None:
    """State, epoch, assignor, members and their assignments as they follow from members' messages alone, at each answer
    that tells them."""
    ours, capture = Groups(), Capture(captured(name))
    compared = 0
    for exchange in capture:
        if exchange.request is None or exchange.request.api_key not in _TOLD:
            ours.feed(exchange)
            continue
        theirs = Groups()
        theirs.feed(exchange)
        mine = {group.group_id: group for group in ours.listed(capture.names)}
        for told in theirs.listed(capture.names):
            if told.group_id == "g-static" and told.state == "Empty":
                continue  # its static members were killed: of their end there is no message
            own = mine[told.group_id]
            assert (own.type, own.state) == (told.type, told.state)
            if exchange.request.api_key != LIST_GROUPS:
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
