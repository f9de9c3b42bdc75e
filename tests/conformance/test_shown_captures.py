"""What the engine shows of real clusters: every structure inside bytes whole, forwarded requests as logged, topics by
their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from msgspec import UNSET

from kshark.capture import open_captures
from kshark.codec import DECODED, plain
from kshark.model import Message
from kshark.names import TopicNames
from kshark.pipeline import Engine, Options
from tests.shared import shared
from tests.witness import log_of
from tests.witness.values import as_java_reads, jsonable, unlike

#: Captures, and structures that must be in them.
HELD = {
    "groups-classic": {
        "ConsumerProtocolSubscription",
        "CooperativeStickyAssignorUserData",
        "GroupMetadataValue",
        "OffsetCommitKey",
    },
    "groups-connect": {"ConnectMetadata", "ConnectAssignment", "CreateTopics"},
    "txn": {"TransactionLogValue", "EndTxnMarker", "ConsumerGroupMemberMetadataValue", "DefaultPrincipalData"},
    "groups-share": {
        "ShareUpdateValue",
        "ShareSnapshotValue",
        "ShareGroupStatePartitionMetadataValue",
        "AlterPartitionReassignments",
    },
    "cluster-start": {"RegisterBrokerRecord", "LeaderChangeMessage", "ClearElrRecord", "DescribeQuorum"},
    "quorum-dynamic": {
        "VotersRecord",
        "KRaftVersionRecord",
        "SnapshotFooterRecord",
        "AddRaftVoter",
        "AlterUserScramCredentials",
    },
    "admin-tools": {
        "otlp",
        "AccessControlEntryRecord",
        "IncrementalAlterConfigs",
        "RemoveTopicRecord",
        "ShareSnapshotValue",
    },
}
EACH = pytest.mark.parametrize("capture", HELD)


@dataclass(frozen=True)
class Told:
    messages: list[Message]
    names: TopicNames


@cache
def told(capture: str) -> Told:
    engine = Engine(Options(embedded=True, secrets=True))
    pages = engine.pages(open_captures([shared("captures", "kafka-4", f"{capture}.pcap")]))
    assert engine.back.names is not None
    return Told([event for page in pages for event in page if isinstance(event, Message)], engine.back.names)


def opened(value: Any) -> Iterator[dict[str, Any]]:
    """Everything that stands beside bytes, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith(DECODED):
                yield inner
            yield from opened(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from opened(inner)


@pytest.mark.sweep(quick=1)
@EACH
def test_whatever_bytes_hold_is_read_to_their_end(capture: str) -> None:
    found = [one for message in told(capture).messages for one in opened(plain(message.body))]
    assert {one.get("name") or one["api"] for one in found} >= HELD[capture]
    odd = {code for message in told(capture).messages if isinstance(message.weird, list) for code in message.weird}
    assert odd <= {"RESYNC"}


@pytest.mark.sweep(quick=1)
@EACH
def test_forwarded_requests_are_what_the_controller_logged(capture: str) -> None:
    logged = defaultdict(list)
    for line in log_of(shared("captures", "kafka-4", f"{capture}.pcap")):
        if line["isForwarded"]:
            head = line["requestHeader"]
            logged[head["requestApiKey"], head["requestApiVersion"], head["correlationId"], head["clientId"]].append(
                line
            )
    asked = [message for message in told(capture).messages if message.api == "Envelope" and message.kind == "request"]
    answers = {message.request_packet: message for message in told(capture).messages if message.api == "Envelope"}
    seen = set()
    for message in asked:
        inner = message.body.request_data_decoded
        head = inner["header"]
        key = (inner["api_key"], inner["version"], head["correlation_id"], as_java_reads(head["client_id"]))
        seen.add(key)
        answer = answers[message.packet].body
        if answer.response_data is None:
            assert answer.error_code == 41  # no controller any more: it asks again
            continue
        answer = answer.response_data_decoded
        assert answer["header"] == {"correlation_id": head["correlation_id"]}
        differences = [
            [*unlike(line["request"], jsonable(inner["body"])), *unlike(line["response"], jsonable(answer["body"]))]
            for line in logged[key]
        ]
        assert [] in differences, differences
    assert logged.keys() <= seen


@pytest.mark.sweep(quick=1)
@EACH
def test_topics_have_the_names_that_the_brokers_gave_them(capture: str) -> None:
    names = told(capture).names
    created = {
        (topic["topicId"], topic["name"])
        for line in log_of(shared("captures", "kafka-4", f"{capture}.pcap"))
        if line["requestHeader"]["requestApiKeyName"] == "METADATA"
        for topic in line["response"]["topics"]
        if topic.get("topicId", UNSET) not in (UNSET, "A" * 22) and topic["name"]
    }
    assert created <= names.by_id.items()


@pytest.mark.parametrize("capture", ["cluster-start", "quorum-dynamic"])
def test_from_the_first_packet_on_every_fetched_topic_has_a_name(capture: str) -> None:
    """Followers fetch what the metadata log told them of, the controllers of it first."""
    names = told(capture).names
    ids = [
        topic.topic_id
        for message in told(capture).messages
        if message.api == "Fetch" and message.kind == "response" and message.body.responses
        for topic in message.body.responses
    ]
    assert len(ids) > 50
    assert all(names.at(topic_id, 1 << 62) for topic_id in ids)
