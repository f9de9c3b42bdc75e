"""What bytes hold stands beside them in the messages of a capture, and ids get the names that any message told
before."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark import limits
from kshark.anomaly import CATALOGUE
from kshark.codec import compile_writer, plain
from kshark.embedded.companions import companions
from kshark.model import Message
from kshark.names import TopicNames
from kshark.records import OpenedRecord, Record
from kshark.registry import Registry
from kshark.tables import TABLES, Rows
from kshark_dissectors.embedded import cluster_topics, consumer_offsets
from kshark_dissectors.embedded.consumer_protocol import SUBSCRIPTION
from kshark_dissectors.embedded.places import PLACES
from kshark_dissectors.embedded.principal import PRINCIPAL
from tests.embedding import (
    REGISTRY,
    batch_of,
    events,
    exchange,
    messages,
    numbered,
    prefixed,
    request_frame,
    response_frame,
)
from tests.examples import as_many
from tests.packets import Tcp, Wire

ORDERS = "5LAc5cvmTxGiXZ9i-6xc0A"
OFFSETS = "PppEeXGayIjpDmW913WfeQ"


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def tcp(wire: Wire) -> Tcp:
    return Tcp(wire).open()


def fetched(tcp: Tcp, topic: dict[str, Any], records: bytes, *, version: int = 13) -> None:
    """A Fetch and its answer with one partition of one topic."""
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
    exchange(tcp, 1, version, {"max_wait_ms": 1}, {"responses": [{**topic, "partitions": [partition]}]})


def committed(group: str = "g") -> tuple[bytes, bytes]:
    """A record of `__consumer_offsets`."""
    key = pack(">h", 1) + compile_writer(consumer_offsets.OFFSET_COMMIT_KEY, 0)(
        {"group": group, "topic": "t", "partition": 3}
    )
    return key, prefixed(consumer_offsets.OFFSET_COMMIT_VALUE, 3, offset=70)


def metadata(tcp: Tcp, **names: str) -> None:
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in names.items()]
    exchange(tcp, 3, 12, {"topics": None}, {"topics": topics})


def records_of(message: Message) -> list[Record]:
    return message.body.responses[0].partitions[0].records.batches[0].records


# -- beside the bytes


def test_a_subscription_stands_beside_its_bytes_whoever_looks(wire: Wire, tcp: Tcp) -> None:
    offer = prefixed(SUBSCRIPTION, 1, topics=["orders"])
    asked = {
        "group_id": "g",
        "member_id": "m",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": offer}],
    }
    exchange(tcp, 11, 9, asked, {"member_id": "m"})
    request, _ = messages(wire)
    (protocol,) = request.body.protocols
    assert protocol.metadata == offer
    assert protocol.metadata_decoded["data"]["topics"] == ["orders"]
    assert list(plain(request.body)["protocols"][0]) == ["name", "metadata", "metadata_decoded"]
    assert request.weird is UNSET


def test_who_does_not_ask_gets_bytes_alone(wire: Wire, tcp: Tcp) -> None:
    offer = prefixed(SUBSCRIPTION, 1, topics=["orders"])
    exchange(
        tcp,
        11,
        9,
        {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": offer}]},
        {"member_id": "m"},
    )
    request, _ = messages(wire, embedded=False)
    assert list(plain(request.body)["protocols"][0]) == ["name", "metadata"]


def test_what_does_not_fit_is_told_on_the_message(wire: Wire, tcp: Tcp) -> None:
    exchange(
        tcp,
        11,
        9,
        {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"\0\1\0"}]},
        {"member_id": "m"},
    )
    request, _ = messages(wire)
    assert request.weird == ["EMBEDDED_INVALID"]
    assert isinstance(request.detail, str)
    assert request.detail.startswith("EMBEDDED_INVALID: ConsumerProtocolSubscription")


def test_stored_records_have_room_for_what_they_hold_and_users_records_do_not(wire: Wire, tcp: Tcp) -> None:
    fetched(tcp, {"topic": "__consumer_offsets"}, batch_of(committed()), version=12)
    fetched(tcp, {"topic": "orders"}, batch_of(committed()), version=12)
    _, stored, _, users = messages(wire)
    (record,) = records_of(stored)
    assert isinstance(record, OpenedRecord)
    assert (record.key_decoded["data"]["group"], record.value_decoded["data"]["offset"]) == ("g", 70)
    assert [type(each) for each in records_of(users)] == [Record]


def test_ends_of_transactions_are_told_in_users_topics(wire: Wire, tcp: Tcp) -> None:
    fetched(tcp, {"topic": "orders"}, batch_of((pack(">hh", 0, 1), pack(">hi", 0, 12)), control=True), version=12)
    _, answer = messages(wire)
    (record,) = records_of(answer)
    assert isinstance(record, OpenedRecord)
    assert record.value_decoded["data"] == {"coordinator_epoch": 12}


@pytest.mark.parametrize(
    ("first", "last", "batches"), [(0, None, 2), (0, -5, 1), (30, None, 0), (30, -5, 0), (7, 20, 0)]
)
def test_a_piece_of_a_snapshot_shows_its_whole_batches_and_is_never_wrong(
    wire: Wire, tcp: Tcp, first: int, last: int | None, batches: int
) -> None:
    snapshot = b"".join(
        batch_of((None, numbered(2, cluster_topics.TOPIC, name=name, topic_id=ORDERS))) for name in ("a", "b")
    )
    piece = {"index": 0, "position": first, "size": len(snapshot), "unaligned_records": snapshot[first:last]}
    exchange(tcp, 59, 1, {"topics": []}, {"topics": [{"name": "__cluster_metadata", "partitions": [piece]}]})
    _, answer = messages(wire)
    field = answer.body.topics[0].partitions[0].unaligned_records
    assert answer.weird is UNSET
    assert len(field.batches) == batches
    assert field.size == field.partial_bytes + sum(batch.size for batch in field.batches)
    assert [batch.records[0].value_decoded["data"]["name"] for batch in field.batches] == ["a", "b"][:batches]


@pytest.mark.parametrize("options", [{"records": False}, {"payload": False}])
def test_records_that_are_not_read_hold_nothing(wire: Wire, tcp: Tcp, options: dict[str, bool]) -> None:
    fetched(tcp, {"topic": "__consumer_offsets"}, batch_of(committed()), version=12)
    assert [message.weird for message in messages(wire, **options)] == [UNSET, UNSET]


def test_structures_of_one_message_are_limited(wire: Wire, tcp: Tcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRUCTURES_PER_MESSAGE", 3)
    fetched(tcp, {"topic": "__consumer_offsets"}, batch_of(*[committed(f"g{i}") for i in range(4)]), version=12)
    _, answer = messages(wire)
    assert answer.weird == ["EMBEDDED_LIMIT"]
    assert [getattr(record, "value_decoded", UNSET) is not UNSET for record in records_of(answer)] == [
        True,
        False,
        False,
        False,
    ]


# -- a message inside a message


def enveloped(tcp: Tcp, request: bytes, response: bytes | None) -> None:
    asked = {
        "request_data": request,
        "request_principal": prefixed(PRINCIPAL, 0, type="User", name="a"),
        "client_host_address": b"\x7f\0\0\1",
    }
    exchange(tcp, 58, 0, asked, {"response_data": response})


def test_an_envelope_shows_the_request_and_the_answer_inside(wire: Wire, tcp: Tcp) -> None:
    inner = request_frame(
        19, 7, {"topics": [{"name": "orders", "num_partitions": 3}]}, correlation_id=-7, client_id="adm"
    )
    answer = response_frame(19, 7, {"topics": [{"name": "orders", "topic_id": ORDERS}]}, correlation_id=-7)
    enveloped(tcp, inner, answer)
    asked, answered = (message.body for message in messages(wire))
    assert asked.request_data_decoded["api"] == "CreateTopics"
    assert asked.request_data_decoded["version"] == 7
    assert asked.request_data_decoded["header"] == {
        "request_api_key": 19,
        "request_api_version": 7,
        "correlation_id": -7,
        "client_id": "adm",
    }
    assert asked.request_data_decoded["body"]["topics"][0]["num_partitions"] == 3
    assert asked.request_principal_decoded["data"]["name"] == "a"
    assert answered.response_data_decoded["header"] == {"correlation_id": -7}
    assert answered.response_data_decoded["body"]["topics"][0]["topic_id"] == ORDERS


@pytest.mark.parametrize(
    ("request_data", "code"),
    [
        (b"\0", "EMBEDDED_INVALID"),
        (pack(">hhih", 99, 0, 1, -1), "EMBEDDED_INVALID"),
        (pack(">hhih", 19, 99, 1, -1) + b"\0", "VERSION_UNKNOWN"),
    ],
)
def test_an_envelope_with_something_else_inside_says_so(wire: Wire, tcp: Tcp, request_data: bytes, code: str) -> None:
    enveloped(tcp, request_data, None)
    request, _ = messages(wire)
    assert request.weird == [code]


HEADS = st.builds(pack, st.just(">hhi"), st.integers(-5, 100), st.integers(-3, 20), st.integers(-9, 9))


@given(HEADS | st.binary(max_size=12), st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=as_many(150))
def test_whatever_an_envelope_holds_gives_a_value_or_a_code(head: bytes, rest: bytes, answer: bytes) -> None:
    asked = {"request_data": head + rest}
    found = [
        *companions(PLACES[58, "request"], asked, registry=REGISTRY),
        *companions(PLACES[58, "response"], {"response_data": answer}, request=asked, registry=REGISTRY),
    ]
    for one in found:
        assert one.code is None or one.code in CATALOGUE
        assert one.code is not None or one.value["body"] is not None


# -- names


def test_a_topic_is_known_by_its_id_once_any_connection_told_its_name(wire: Wire, tcp: Tcp) -> None:
    fetched(tcp, {"topic_id": OFFSETS}, batch_of(committed()))
    metadata(Tcp(wire, source="10.0.0.2:50000").open(), __consumer_offsets=OFFSETS)
    fetched(tcp, {"topic_id": OFFSETS}, batch_of(committed()))
    before, after = (
        records_of(message)[0] for message in messages(wire) if message.api == "Fetch" and message.kind == "response"
    )
    assert (type(before), type(after)) == (Record, OpenedRecord)


SHARE_ASSIGNMENT = {"topic_partitions": [{"topic_id": ORDERS, "topic_name": "orders", "partitions": [0]}]}
TOLD = {
    "Metadata": (3, 12, {"topics": None}, {"topics": [{"name": "orders", "topic_id": ORDERS}]}),
    "CreateTopics": (19, 7, {"topics": []}, {"topics": [{"name": "orders", "topic_id": ORDERS}]}),
    "DeleteTopics": (20, 6, {"topics": []}, {"responses": [{"name": "orders", "topic_id": ORDERS}]}),
    "DescribeTopicPartitions": (75, 0, {"topics": []}, {"topics": [{"name": "orders", "topic_id": ORDERS}]}),
    "ConsumerGroupDescribe": (
        69,
        1,
        {},
        {"groups": [{"members": [{"assignment": SHARE_ASSIGNMENT, "target_assignment": {}}]}]},
    ),
    "ShareGroupDescribe": (77, 1, {}, {"groups": [{"members": [{"assignment": SHARE_ASSIGNMENT}]}]}),
    "DescribeShareGroupOffsets": (
        90,
        1,
        {"groups": []},
        {"groups": [{"topics": [{"topic_name": "orders", "topic_id": ORDERS}]}]},
    ),
    "UpdateMetadata": (6, 8, {"topic_states": [{"topic_name": "orders", "topic_id": ORDERS}]}, {}),
}


@pytest.mark.parametrize("api", TOLD)
def test_whatever_pairs_an_id_with_a_name_is_learnt(wire: Wire, tcp: Tcp, api: str) -> None:
    key, version, asked, answer = TOLD[api]
    exchange(tcp, key, version, asked, answer)
    assert learnt(messages(wire)).by_id.get(ORDERS) == "orders"


def learnt(told: list[Message]) -> TopicNames:
    names = TopicNames(Registry(installed=False))
    for message in told:
        names.learn(message)
    return names


def test_records_of_the_metadata_log_name_topics_too(wire: Wire, tcp: Tcp) -> None:
    value = numbered(2, cluster_topics.TOPIC, name="__consumer_offsets", topic_id=OFFSETS)
    fetched(tcp, {"topic": "__cluster_metadata"}, batch_of((None, value)), version=12)
    fetched(tcp, {"topic_id": OFFSETS}, batch_of(committed()))
    *_, last = messages(wire)
    assert isinstance(records_of(last)[0], OpenedRecord)


def test_an_answer_inside_an_envelope_names_topics_too(wire: Wire, tcp: Tcp) -> None:
    answer = response_frame(19, 7, {"topics": [{"name": "__consumer_offsets", "topic_id": OFFSETS}]})
    enveloped(tcp, request_frame(19, 7, {"topics": []}), answer)
    fetched(tcp, {"topic_id": OFFSETS}, batch_of(committed()))
    *_, last = messages(wire)
    assert isinstance(records_of(last)[0], OpenedRecord)


def test_a_name_counts_from_the_next_packet_on(wire: Wire, tcp: Tcp) -> None:
    metadata(tcp, orders=ORDERS)
    told = messages(wire)
    names = learnt(told)
    assert names.at(ORDERS, told[-1].packet) is None
    assert names.at(ORDERS, told[-1].packet + 1) == "orders"
    assert names.at("AAAAAAAAAAAAAAAAAAAAAQ", 1) == "__cluster_metadata"


def test_a_name_that_is_known_late_counts_from_then_on(wire: Wire, tcp: Tcp) -> None:
    metadata(tcp, orders=ORDERS)
    *_, told = messages(wire)
    names = TopicNames(Registry(installed=False))
    names.reach(20)
    names.learn(told)
    assert [names.at(ORDERS, packet) for packet in (told.packet + 1, 20, 21)] == [None, None, "orders"]


def test_ids_without_a_name_and_names_without_an_id_are_no_names(wire: Wire, tcp: Tcp) -> None:
    topics = [{"name": None, "topic_id": ORDERS}, {"name": "orders", "topic_id": "A" * 22}]
    exchange(tcp, 3, 12, {"topics": None}, {"topics": topics})
    assert learnt(messages(wire)).by_id == {"AAAAAAAAAAAAAAAAAAAAAQ": "__cluster_metadata"}


def test_the_names_of_a_capture_are_limited(wire: Wire, tcp: Tcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS", 2)
    metadata(tcp, orders=ORDERS, stock=OFFSETS)
    names = learnt(messages(wire))
    assert names.full
    assert list(names.by_id.values()) == ["__cluster_metadata", "orders"]


def test_tables_have_the_names_too(wire: Wire, tcp: Tcp) -> None:
    assignment = {"topic_partitions": [{"topic_id": ORDERS, "topic_name": "orders", "partitions": [0]}]}
    acquired = [{"first_offset": 1, "last_offset": 2, "delivery_count": 1}]
    answer = {"responses": [{"topic_id": ORDERS, "partitions": [{"partition_index": 0, "acquired_records": acquired}]}]}
    exchange(tcp, 78, 1, {"group_id": "g", "share_session_epoch": 1}, answer)
    exchange(
        Tcp(wire, source="10.0.0.2:50000").open(), 77, 1, {}, {"groups": [{"members": [{"assignment": assignment}]}]}
    )
    exchange(tcp, 78, 1, {"group_id": "g", "share_session_epoch": 2}, answer)
    rows = Rows("a.pcap")
    found = [row for event in events(wire) for name, row in rows.feed(event) if name == "acquired"]
    topic = [column.name for column in TABLES["acquired"].columns].index("topic")
    assert [row[topic] for row in found] == [None, "orders"]


def test_tables_show_what_bytes_hold(wire: Wire, tcp: Tcp) -> None:
    offer = prefixed(SUBSCRIPTION, 1, topics=["orders"])
    exchange(
        tcp,
        11,
        9,
        {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": offer}]},
        {"member_id": "m"},
    )
    rows = Rows("a.pcap")
    (exchanged,) = [row for event in events(wire) for name, row in rows.feed(event) if name == "exchanges"]
    (asked,) = [cell for cell in exchanged if isinstance(cell, str) and '"metadata"' in cell]
    assert json.loads(asked)["protocols"][0]["metadata_decoded"]["data"]["topics"] == ["orders"]
