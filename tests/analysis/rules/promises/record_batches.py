"""Promises of kshark.analysis.rules.record_batches: record batches whose header does not match their content."""

from __future__ import annotations

from typing import Any, Final

import kshark
from kshark.records import Record
from kshark.records.writer import write_batch, write_message
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import METADATA, NO_METADATA, NO_TOPICS, accepted, produced, replied, sent
from tests.conversation import Connection, Conversation, unknown, violation

FETCH = 1
RECORDS: Final = [Record(0, 1_000, b"k", b"v", ()), Record(1, 1_000, None, b"w", ())]
#: Wrong batches, by the code of their finding.
LIES: Final[dict[str, bytes]] = {
    "BATCH_CRC": write_batch(RECORDS, crc=1),
    "BATCH_COUNT_MISMATCH": write_batch(RECORDS, count=3, last_offset_delta=2),
    "BATCH_OFFSETS": write_batch([RECORDS[0], Record(9, 1_000, None, None, ())], last_offset_delta=1),
    "CODEC_INVALID": write_batch(RECORDS, attributes=6),
}


def fetched(connection: Connection, records: bytes) -> int:
    """Answer a Fetch with these records, and return the packet of the answer."""
    sent(
        connection,
        FETCH,
        4,
        kshark.encode(FETCH, 4, "request", {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "topics": []}),
    )
    partition: dict[str, Any] = {"partition_index": 0, "error_code": 0, "high_watermark": 2, "records": records}
    body = {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": [partition]}]}
    return replied(connection, kshark.encode(FETCH, 4, "response", body))


@promise
def produced_batches_are_wrong() -> Said:
    talk = Conversation()
    connection, findings = talk.connection(), []
    for code, lie in LIES.items():
        findings.append(violation(code, produced(connection, lie), blame="client"))
        accepted(connection, 87)
    return talk, findings


@promise
def fetched_batches_are_wrong() -> Said:
    talk = Conversation()
    connection = talk.connection()
    findings = [
        violation(code, fetched(connection, lie), blame="broker")
        for code, lie in LIES.items()
        if code != "CODEC_INVALID"
    ]
    findings.append(unknown("CODEC_INVALID", fetched(connection, LIES["CODEC_INVALID"]), because="hidden_traffic"))
    return talk, findings


def first_of_its_connection(lie: bytes) -> tuple[Conversation, int]:
    """Send a Produce request near the beginning of a capture: its boundary is likely, not certain."""
    talk = Conversation()
    connection = talk.connection(from_syn=False, introduced=False)
    sent(connection, METADATA, 0, NO_TOPICS)
    replied(connection, NO_METADATA)
    wrong = produced(connection, lie)
    accepted(connection, 87)
    return talk, wrong


@promise
def a_checksum_may_be_wrong() -> Said:
    talk, wrong = first_of_its_connection(LIES["BATCH_CRC"])
    return talk, [unknown("BATCH_CRC", wrong, because="resync")]


@promise
def a_count_may_be_wrong() -> Said:
    talk, wrong = first_of_its_connection(LIES["BATCH_COUNT_MISMATCH"])
    return talk, [unknown("BATCH_COUNT_MISMATCH", wrong, because="resync")]


@promise
def offsets_may_be_wrong() -> Said:
    talk, wrong = first_of_its_connection(LIES["BATCH_OFFSETS"])
    return talk, [unknown("BATCH_OFFSETS", wrong, because="resync")]


@promise
def an_old_message_is_produced() -> Said:
    talk = Conversation()
    wrong = produced(talk.connection(), write_message(0, b"k", b"v", magic=1))
    return talk, [violation("LEGACY_MAGIC", wrong, blame="client")]


@promise
def an_old_message_may_be_produced() -> Said:
    talk, wrong = first_of_its_connection(write_message(0, b"k", b"v", magic=0))
    return talk, [unknown("LEGACY_MAGIC", wrong, because="resync")]
