"""Structures inside bytes of real brokers and clients: each witness knew them without us.

Eager consumers printed what they were assigned, Connect's leader is a worker, the broker's telemetry plugin got the
metrics decompressed, and the share coordinator's log holds what the partition leaders asked it to write."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from struct import unpack_from
from typing import Any

import pytest

from kshark.codec import compile_writer
from kshark.embedded.companions import Companion, companions
from kshark.embedded.otlp import read_metrics
from kshark.face import pages
from kshark.model import Exchange
from kshark.schema import Layout
from kshark_dissectors.embedded import places
from kshark_dissectors.embedded.places import PLACES
from kshark_dissectors.topics import TOPIC_NAMES
from tests.shared import shared
from tests.witness import snake
from tools.sync.ours import our_layouts


def logged(capture: str, api: str) -> Iterator[dict[str, Any]]:
    """What the broker logged of an API."""
    with gzip.open(shared("captures", "kafka-4", f"{capture}.requests.jsonl.gz"), "rt") as lines:
        for line in lines:
            if f'"{api}"' in line:
                found = json.loads(line)
                if found["requestHeader"]["requestApiKeyName"] == api:
                    yield found


def truth(capture: str) -> Any:
    with gzip.open(shared("captures", "kafka-4", f"{capture}.truth.json.gz"), "rt") as file:
        return json.load(file)


def plain_bytes(value: Any) -> Any:
    """A logged body with our names, and bytes where the log has base64."""
    if isinstance(value, dict):
        return {
            snake(name): base64.b64decode(found)
            if name in ("metadata", "assignment", "metrics")
            else plain_bytes(found)
            for name, found in value.items()
        }
    return [plain_bytes(each) for each in value] if isinstance(value, list) else value


def decoded(line: dict[str, Any], key: int, kind: str) -> list[Companion]:
    return list(companions(PLACES[key, kind], plain_bytes(line[kind]), request=plain_bytes(line["request"])))


# -- group protocols, from the log


def test_eager_consumers_were_assigned_what_the_answers_say() -> None:
    answered: dict[str, list[list[str]]] = {}
    for line in logged("groups-classic", "SYNC_GROUP"):
        for one in decoded(line, 14, "response"):
            topics = one.value["data"]["assigned_partitions"]
            found = sorted(f"{each['topic']}-{partition}" for each in topics for partition in each["partitions"])
            answered.setdefault(line["requestHeader"]["clientId"], []).append(found)
    told = truth("groups-classic")
    for events in (*told["range"], *told["static"]):
        assigned = [
            (event["client"], re.findall(r"[\w.]+-\d+", event["assigned"])) for event in events if "assigned" in event
        ]
        for client in {client for client, _ in assigned}:
            printed = [sorted(partitions) for name, partitions in assigned if name == client]
            assert printed == answered[client][-len(printed) :], client  # a member that was killed printed nothing


@pytest.mark.parametrize(("capture", "members"), [("groups-classic", 50), ("groups-connect", 6)])
def test_group_protocols_are_written_back_to_the_same_bytes(capture: str, members: int) -> None:
    count = 0
    for api, key in (("JOIN_GROUP", 11), ("SYNC_GROUP", 14)):
        for line in logged(capture, api):
            for kind in ("request", "response"):
                for one in decoded(line, key, kind):
                    assert one.code is None
                    assert rewritten(one.value) == one.owner[one.name.removesuffix("_decoded")][2:]
                    count += 1
    assert count >= members


def test_connects_workers_are_told_their_leader() -> None:
    leaders = set()
    for line in logged("groups-connect", "SYNC_GROUP"):
        for one in decoded(line, 14, "response"):
            assert (one.value["name"], one.value["version"]) == ("ConnectAssignment", 2)
            leaders.add((one.value["data"]["leader"].partition("-")[0], one.value["data"]["leader_url"]))
    urls = {
        one.value["data"]["url"]
        for line in logged("groups-connect", "JOIN_GROUP")
        for one in decoded(line, 11, "request")
    }
    assert {url for _, url in leaders} <= urls


@pytest.mark.sweep
def test_metrics_are_what_the_brokers_plugin_received() -> None:
    sent = [
        one.value["data"] for line in logged("admin-tools", "PUSH_TELEMETRY") for one in decoded(line, 72, "request")
    ]
    received = [read_metrics(base64.b64decode(each["data"]))[0] for each in truth("admin-tools")["telemetry"]]
    assert len(received) > 10
    assert [str(each) for each in received if str(each) not in [str(one) for one in sent]] == []


# -- records, from the packets


@cache
def layouts() -> dict[str, Layout]:
    return {name: ours.layout for name, ours in our_layouts().items()}


def rewritten(value: dict[str, Any]) -> bytes:
    """The bytes behind a decoded structure, without the numbers before it."""
    return compile_writer(layouts()[value["name"]], value.get("version", 0))(undecoded(value["data"]))


def undecoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: undecoded(found) for name, found in value.items() if not name.endswith("_decoded")}
    return [undecoded(each) for each in value] if isinstance(value, list) else value


@cache
def stored(capture: str) -> tuple[Companion, ...]:
    """All that Fetch and FetchSnapshot answers carry of internal topics, in the order of the capture."""
    names = dict(TOPIC_NAMES)
    answers = []
    for page in pages((shared("captures", "kafka-4", f"{capture}.pcap"),)):
        for event in page:
            if isinstance(event, Exchange) and event.request is not None and event.response is not None:
                if event.request.api_key == 3:
                    names |= {
                        topic.topic_id: topic.name for topic in event.response.body.topics if hasattr(topic, "topic_id")
                    }
                elif event.request.api_key in (1, 59):
                    answers.append((event.request.api_key, event.response.body))
    return tuple(one for key, body in answers for one in companions(PLACES[key, "response"], body, names=names))


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    ("capture", "names"),
    [
        (
            "cluster-start",
            {"RegisterBrokerRecord", "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "LeaderChangeMessage"},
        ),
        (
            "groups-share",
            {
                "ShareUpdateValue",
                "ShareSnapshotValue",
                "ShareGroupMetadataValue",
                "ShareGroupStatePartitionMetadataValue",
            },
        ),
        (
            "admin-tools",
            {
                "GroupMetadataValue",
                "OffsetCommitValue",
                "TransactionLogValue",
                "AccessControlEntryRecord",
                "EndTxnMarker",
            },
        ),
        (
            "quorum-dynamic",
            {
                "VotersRecord",
                "KRaftVersionRecord",
                "SnapshotHeaderRecord",
                "SnapshotFooterRecord",
                "LeaderChangeMessage",
            },
        ),
    ],
)
def test_stored_records_are_read_to_their_last_byte_and_written_back(capture: str, names: set[str]) -> None:
    found = stored(capture)
    assert {one.value["name"] for one in found} >= names
    for one in found:
        assert (one.code, one.detail) == (None, "")
        data = one.owner.key if one.name == "key_decoded" else one.owner.value
        assert data.endswith(rewritten(one.value))


def test_the_share_coordinator_stored_what_partition_leaders_asked_for() -> None:
    asked: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for api in ("WRITE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE"):
        for line in logged("groups-share", api):
            request = plain_bytes(line["request"])
            for topic in request["topics"]:
                for each in topic["partitions"]:  # a new leader's first read writes its epoch
                    each = {"start_offset": -1, "state_batches": [], **each}
                    asked.setdefault((request["group_id"], topic["topic_id"], each["partition"]), []).append(each)
    keys = {
        id(one.owner): tuple(one.value["data"].values())
        for one in stored("groups-share")
        if one.value["name"] == "ShareUpdateKey"
    }
    updates = [one for one in stored("groups-share") if one.value["name"] == "ShareUpdateValue"]
    assert len(updates) > 500
    for one in updates:
        update = one.value["data"]
        requests = asked[keys[id(one.owner)]]
        assert any(
            request["leader_epoch"] == update["leader_epoch"]
            and request["start_offset"] in (-1, update["start_offset"])
            and offsets(request, update["start_offset"]) == offsets(update, update["start_offset"])
            for request in requests
        ), update


def offsets(of: dict[str, Any], start: int) -> set[tuple[int, int, int]]:
    """Offset, state and delivery count of each record from `start` on: the coordinator joins batches, and drops what
    lies before."""
    return {
        (offset, batch["delivery_state"], batch["delivery_count"])
        for batch in of["state_batches"]
        for offset in range(max(start, batch["first_offset"]), batch["last_offset"] + 1)
    }


def test_topics_have_the_ids_that_metadata_answers_give_them() -> None:
    told = {}
    for line in logged("cluster-start", "METADATA"):
        told |= {topic["name"]: topic["topicId"] for topic in line["response"]["topics"] if not topic["errorCode"]}
    created = {
        one.value["data"]["name"]: one.value["data"]["topic_id"]
        for one in stored("cluster-start")
        if one.value["name"] == "TopicRecord"
    }
    assert told.items() <= created.items()


def test_markers_end_transactions_with_the_epoch_of_their_coordinator() -> None:
    for one in stored("admin-tools"):
        if one.value["name"] == "EndTxnMarker":
            assert one.owner.control.type == ("abort", "commit")[one.value["type"]]
            assert (
                one.value["data"]["coordinator_epoch"]
                == unpack_from(">i", one.owner.value, 2)[0]
                == one.owner.control.coordinator_epoch
            )


def test_every_log_that_kafka_keeps_has_a_place() -> None:
    assert set(places.LOGS) == {
        *(
            "__consumer_offsets",
            "__transaction_state",
            "__share_group_state",
            "__cluster_metadata",
            "__remote_log_metadata",
        ),
    }
