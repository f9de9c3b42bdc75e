"""Record batches: what nearly breaks a rule, and what cannot be decided."""

from __future__ import annotations

import kshark
from kshark.records import Record
from kshark.records.writer import write_batch, write_message
from tests.analysis.rules.promises.record_batches import LIES, RECORDS, fetched
from tests.analysis.talks import accepted, produced, sent
from tests.conversation import Conversation, everything, unknown, violation


def test_batches_that_are_what_they_say() -> None:
    talk = Conversation()
    connection = talk.connection()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produced(connection, write_batch(RECORDS, codec=codec))
        accepted(connection)
        fetched(connection, write_batch(RECORDS, codec=codec))
    assert everything(talk) == []


def test_old_messages_where_they_belong() -> None:
    """Produce before version 3, and what is stored may be of any age."""
    talk = Conversation()
    connection = talk.connection()
    for magic in (0, 1):
        produced(connection, write_message(0, b"k", b"v", magic=magic), version=2)
        accepted(connection, version=2)
        fetched(connection, write_message(0, b"k", b"v", magic=magic))
    assert everything(talk) == []


def test_a_compacted_batch_has_less_records_than_offsets() -> None:
    talk = Conversation()
    connection = talk.connection()
    stored = write_batch([RECORDS[0], Record(7, 1_000, None, b"w", ())], last_offset_delta=9)
    fetched(connection, stored)
    assert everything(talk) == []
    wrong = produced(connection, stored)
    assert everything(talk) == [violation("BATCH_COUNT_MISMATCH", wrong, blame="client")]


def test_an_answer_may_end_within_a_batch() -> None:
    """Kafka cuts what it sends at the size that was asked for."""
    talk = Conversation()
    fetched(talk.connection(), write_batch(RECORDS) + write_batch(RECORDS, base_offset=2)[:40])
    assert everything(talk) == []


def test_a_batch_in_a_body_that_does_not_fit() -> None:
    """It announces two topics and has one: where the records begin is not certain then."""
    talk = Conversation()
    connection = talk.connection()
    data = [{"name": "t", "partition_data": [{"index": 0, "records": LIES["BATCH_CRC"]}]}]
    body = kshark.encode(0, 7, "request", {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": data})
    wrong = sent(connection, 0, 7, body.replace(b"\0\0\0\x01\0\x01t", b"\0\0\0\x02\0\x01t"))
    assert everything(talk) == [unknown("BATCH_CRC", wrong, because="cut"), violation("UNDECODABLE_BODY", wrong)]
