"""Records that are produced and fetched, wherever an API carries them: what each table says of them."""

from __future__ import annotations

from typing import Any

from kshark.records import Record
from kshark.records.writer import write_batch, write_message
from tests.tables.story import TOPIC, Cells, Chapter, Story, row

PRODUCER = {"producer_id": 77, "producer_epoch": 2, "base_sequence": 10}
NOBODY = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
SENT = write_batch(
    [Record(0, 1_000, b"k", b"v", (("h", b"1"), ("i", None))), Record(1, 1_007, None, b"", ())],
    codec="gzip", transactional=True, **PRODUCER,
)  # fmt: skip


def told() -> Story:
    """A transaction produced and fetched, its marker, a message of old, a batch whose CRC is wrong, a snapshot's
    records."""
    story = Story()
    story.ask(0, 9, acks=1, topic_data=[{"name": "orders", "partition_data": [{"index": 4, "records": SENT}]}])
    story.answer(0, 9)
    story.ask(3, 12, topics=None)
    story.answer(3, 12, topics=[{"name": "orders", "topic_id": TOPIC, "partitions": []}])
    story.ask(1, 13)
    marker = Record(22, 2_000, b"\0\0\0\1", b"\0\0\0\0\0\5", ())
    stored = write_batch(
        [marker], control=True, timestamp_type="log_append", max_timestamp=2_001, transactional=True, **PRODUCER
    )
    wrong = write_batch([Record(23, 3_000, b"x", None, ())], crc=0)
    story.answer(
        1, 13, responses=[{"topic_id": TOPIC, "partitions": [{"partition_index": 4, "records": stored + wrong}]}]
    )
    story.ask(1, 3)
    old = write_message(30, b"a", b"b", magic=1, timestamp=4_000)
    story.answer(1, 3, responses=[{"topic": "old", "partitions": [{"partition_index": 1, "records": old}]}])
    story.ask(59, 1)
    kept = write_batch([Record(0, 5_000, None, b"s", ())])
    story.answer(59, 1, topics=[{"name": "snapped", "partitions": [{"index": 2, "unaligned_records": kept}]}])
    return story


def of_batch(packet: int, correlation_id: int, topic: str, partition: int, **cells: Any) -> Cells:
    """A row of a batch, or of a record in it."""
    return row(packet, correlation_id=correlation_id, topic=topic, partition=partition, **cells)


CHAPTER = Chapter(
    told,
    {
        "record_batches": [
            of_batch(
                4, 1, "orders", 4, api="Produce", base_offset=0, last_offset_delta=1, count=2, magic=2, codec="gzip",
                size_bytes=len(SENT), crc_ok=True, **PRODUCER, transactional=True, control=False,
                timestamp_type="create",
                base_timestamp=1_000, max_timestamp=1_007,
            ),
            of_batch(
                9, 3, "orders", 4, exchange=8, topic_id=TOPIC, api="Fetch", base_offset=22, last_offset_delta=0,
                count=1, magic=2,
                codec="none",
                size_bytes=78, crc_ok=True, **PRODUCER, transactional=True, control=True, timestamp_type="log_append",
                base_timestamp=2_000, max_timestamp=2_001,
            ),
            of_batch(
                9, 3, "orders", 4, exchange=8, topic_id=TOPIC, api="Fetch", base_offset=23, last_offset_delta=0,
                count=1, magic=2,
                codec="none",
                size_bytes=69, crc_ok=False, **NOBODY, transactional=False, control=False, timestamp_type="create",
                base_timestamp=3_000, max_timestamp=3_000,
            ),
            of_batch(
                11, 4, "old", 1, exchange=10, api="Fetch", base_offset=30, count=1, magic=1, codec="none",
                size_bytes=36, crc_ok=True,
                timestamp_type="create",
            ),
            of_batch(
                13, 5, "snapped", 2, exchange=12, api="FetchSnapshot", base_offset=0, last_offset_delta=0, count=1,
                magic=2, codec="none",
                size_bytes=69, crc_ok=True, **NOBODY, transactional=False, control=False, timestamp_type="create",
                base_timestamp=5_000, max_timestamp=5_000,
            ),
        ],
        "records": [
            of_batch(
                4, 1, "orders", 4, offset=0, timestamp=1_000, key=b"k", value=b"v", headers=[("h", b"1"), ("i", None)],
                key_size=1,
                value_size=1,
            ),
            of_batch(4, 1, "orders", 4, offset=1, timestamp=1_007, value=b"", headers=[], value_size=0),
            of_batch(
                9, 3, "orders", 4, exchange=8, topic_id=TOPIC, offset=22, timestamp=2_001, key=b"\0\0\0\1",
                value=b"\0\0\0\0\0\5",
                headers=[], key_size=4, value_size=6,
            ),
            of_batch(9, 3, "orders", 4, exchange=8, topic_id=TOPIC, offset=23, timestamp=3_000, key=b"x", headers=[], key_size=1),
            of_batch(11, 4, "old", 1, exchange=10, offset=30, timestamp=4_000, key=b"a", value=b"b", key_size=1, value_size=1),
            of_batch(13, 5, "snapped", 2, exchange=12, offset=0, timestamp=5_000, value=b"s", headers=[], value_size=1),
        ],
        "weirds": [
            row(
                9, exchange=8, stage="records", code="BATCH_CRC", detail="BATCH_CRC: batch at offset "
                    "23", kind="message", times=1,
                direction="broker",
                size_bytes=220, correlation_id=3,
            ),
            row(
                11, exchange=10, stage="records", code="LEGACY_MAGIC", detail="LEGACY_MAGIC: batch at offset 30: "
                    "magic 1", kind="message",
                times=1,
                direction="broker", size_bytes=75, correlation_id=4,
            ),
        ],
    },
)  # fmt: skip
