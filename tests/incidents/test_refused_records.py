"""Refused records and offsets, as conversations: rules 162 to 164."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode as E
from tests.conversation import Asked, Connection, Conversation, Thinned, note, violation
from tests.incidents.talks import incidents
from tests.incidents.test_retries import client, produce, refuse

CODES = {"ACKS_INVALID", "NOT_ENOUGH_REPLICAS", "OFFSET_OUT_OF_RANGE", "MESSAGE_TOO_LARGE"}


def told(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code in CODES]


def fetch(connection: Connection, offset: int | None, session: int = 0, epoch: int = -1) -> Asked:
    rows = [] if offset is None else [{"partition": 3, "fetch_offset": offset, "partition_max_bytes": 1000}]
    body = {
        "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "session_id": session, "session_epoch": epoch,
        "topics": [{"topic": "orders", "partitions": rows}] if rows else [], "forgotten_topics_data": [],
    }  # fmt: skip
    return connection.ask(1, "Fetch", 11, {**body, "rack_id": ""})


def out_of_range(asked: Asked, start: int = -1, end: int = -1) -> Asked:
    row = {
        "partition_index": 3, "error_code": 1, "high_watermark": end, "log_start_offset": start, "records": b"",
        "aborted_transactions": None,
    }  # fmt: skip
    return asked.answered(session_id=0, responses=[{"topic": "orders", "partitions": [row]}])


@pytest.mark.parametrize("error", [E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_partition_has_too_few_replicas_in_sync(error: E) -> None:
    talk = Conversation()
    a = client(talk)
    first = refuse(produce(a), error)
    last = refuse(produce(a), error)
    found = told(talk)
    assert found == [note("NOT_ENOUGH_REPLICAS", first)]
    assert (found[0].until_packet, found[0].partition) == (last.packet, 0)
    assert "client p1 (10.0.0.3) sent Produce with acks=all to orders[0]" in found[0].argument
    assert f"{error.name} ({int(error)}); 2 times" in found[0].argument


def test_two_partitions_are_two_findings() -> None:
    talk = Conversation()
    a = client(talk)
    first = refuse(produce(a), E.NOT_ENOUGH_REPLICAS)
    other = refuse(produce(a, partition=1), E.NOT_ENOUGH_REPLICAS, partition=1)
    assert told(talk) == [note("NOT_ENOUGH_REPLICAS", first), note("NOT_ENOUGH_REPLICAS", other)]


@pytest.mark.parametrize("error", [E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE])
def test_records_are_too_large(error: E) -> None:
    talk = Conversation()
    first = refuse(produce(client(talk)), error)
    found = told(talk)
    assert found == [note("MESSAGE_TOO_LARGE", first)]
    assert "in a Produce of " in found[0].argument


@pytest.mark.parametrize(
    ("asked", "start", "end", "words"),
    [
        (5, 100, 200, "asked for offset 5 (the log's start 100 and end 200) of orders[3]"),
        (5, 100, -1, "asked for offset 5 (the log's start 100) of orders[3]"),
        (500, -1, -1, "asked for offset 500 of orders[3]"),
        (None, -1, -1, "asked for an offset of orders[3]"),
    ],
)
def test_an_offset_is_out_of_range(asked: int | None, start: int, end: int, words: str) -> None:
    talk = Conversation()
    wrong = out_of_range(fetch(client(talk), asked), start, end)
    found = told(talk)
    assert found == [note("OFFSET_OUT_OF_RANGE", wrong)]
    assert words in found[0].argument


def test_records_are_deleted_before_an_offset_that_there_is_not() -> None:
    talk = Conversation()
    topics = [{"name": "orders", "partitions": [{"partition_index": 3, "offset": 5000}]}]
    asked = client(talk).ask(21, "DeleteRecords", 1, {"topics": topics, "timeout_ms": 1000})
    row = {"partition_index": 3, "low_watermark": -1, "error_code": 1}
    wrong = asked.answered(None, topics=[{"name": "orders", "partitions": [row]}])
    found = told(talk)
    assert found == [note("OFFSET_OUT_OF_RANGE", wrong)]
    assert "asked to delete the records before offset 5,000 of orders[3]" in found[0].argument


def test_other_errors_are_left_alone() -> None:
    talk = Conversation()
    refuse(produce(client(talk)), E.NOT_LEADER_OR_FOLLOWER)
    assert told(talk) == []


@pytest.mark.parametrize("acks", [2, -2, 3])
def test_acks_that_do_not_exist_are_the_clients_fault(acks: int) -> None:
    talk = Conversation()
    a = client(talk)
    wrong = refuse(produce(a, acks=acks), E.INVALID_REQUIRED_ACKS)
    last = refuse(produce(a, partition=1, acks=acks), E.INVALID_REQUIRED_ACKS, partition=1)
    (found,) = told(talk)
    assert found == violation("ACKS_INVALID", wrong, "client")
    assert found.until_packet == last.packet
    assert f"sent Produce with acks={acks}, which broker" in found.argument


def test_a_broker_that_refuses_acks_that_exist_accuses_nobody() -> None:
    talk = Conversation()
    refuse(produce(client(talk), acks=1), E.INVALID_REQUIRED_ACKS)
    assert told(talk) == []
