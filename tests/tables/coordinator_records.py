"""What coordinators store, as a follower fetches it: one record of each log, a member's, and tombstones."""

from __future__ import annotations

from struct import pack
from typing import Any

from kshark.codec import compile_writer
from kshark.records import Record
from kshark.records.writer import write_batch
from kshark.schema import Layout
from kshark_dissectors.embedded import consumer_group_records as consumer
from kshark_dissectors.embedded import consumer_offsets as offsets
from kshark_dissectors.embedded import share_group_state as share
from kshark_dissectors.embedded import transaction_state as transactions
from tests.tables.story import TOPIC, Cells, Chapter, Story, row


def bytes_of(number: int, layout: Layout, version: int = 0, **fields: Any) -> bytes:
    """A key after its type, or a value after its version."""
    return pack(">h", number) + compile_writer(layout, version)(fields)


SHARED = bytes_of(0, share.SHARE_SNAPSHOT_KEY, group_id="g", topic_id=TOPIC, partition=3)
SNAPSHOT = bytes_of(
    0, share.SHARE_SNAPSHOT_VALUE, snapshot_epoch=4, state_epoch=2, leader_epoch=6, start_offset=50,
    create_timestamp=1, write_timestamp=2,
    state_batches=[{"first_offset": 50, "last_offset": 59, "delivery_state": 2, "delivery_count": 1}],
)  # fmt: skip
COMMITTED = bytes_of(1, offsets.OFFSET_COMMIT_KEY, group="h", topic="orders", partition=5)
COMMIT = bytes_of(3, offsets.OFFSET_COMMIT_VALUE, 3, offset=70, leader_epoch=7, metadata="", commit_timestamp=3)
MEMBER = bytes_of(8, consumer.CURRENT_ASSIGNMENT_KEY, group_id="h", member_id="m")
ASSIGNED = bytes_of(
    0, consumer.CURRENT_ASSIGNMENT_VALUE, member_epoch=9, previous_member_epoch=8, state=0,
    assigned_partitions=[], partitions_pending_revocation=[],
)  # fmt: skip
PRODUCER = bytes_of(0, transactions.TRANSACTION_LOG_KEY, transactional_id="pay-1")
BEGUN = bytes_of(
    0, transactions.TRANSACTION_LOG_VALUE, producer_id=77, producer_epoch=2, transaction_timeout_ms=60_000,
    transaction_status=0, transaction_partitions=None, transaction_last_update_timestamp_ms=4,
    transaction_start_timestamp_ms=5,
)  # fmt: skip


def told() -> Story:
    """Three logs in one answer; then the topic of a user, whose records are no rows."""
    story = Story()
    story.ask(1, 12)
    logs = {
        ("__share_group_state", 1): (20, (SHARED, SNAPSHOT), (SHARED, None)),
        ("__consumer_offsets", 2): (30, (COMMITTED, COMMIT), (MEMBER, ASSIGNED)),
        ("__transaction_state", 4): (40, (PRODUCER, BEGUN)),
        ("orders", 0): (50, (SHARED, SNAPSHOT)),
    }
    story.answer(
        1,
        12,
        responses=[
            {"topic": topic, "partitions": [{"partition_index": partition, "records": stored(first, *records)}]}
            for (topic, partition), (first, *records) in logs.items()
        ],
    )
    return story


def stored(first: int, *records: tuple[bytes, bytes | None]) -> bytes:
    return write_batch([Record(first + at, 1_000 + at, *record, ()) for at, record in enumerate(records)])


def record(log: str, log_partition: int, offset: int, timestamp: int, type: str, **cells: Any) -> Cells:
    place = {"api": "Fetch", "log": log, "log_partition": log_partition, "offset": offset, "timestamp": timestamp}
    return row(5, exchange=4, correlation_id=1, **place, record_type=type, **{"tombstone": False, **cells})


CHAPTER = Chapter(
    told,
    {
        "coordinator_records": [
            record(
                "__share_group_state", 1, 20, 1_000, "ShareSnapshot", group_id="g", topic_id=TOPIC, partition=3,
                snapshot_epoch=4, state_epoch=2, leader_epoch=6, start_offset=50,
                key_json=f'{{"group_id":"g","topic_id":"{TOPIC}","partition":3}}',
                value_json='{"snapshot_epoch":4,"state_epoch":2,"leader_epoch":6,"start_offset":50,'
                '"create_timestamp":1,"write_timestamp":2,"state_batches":[{"first_offset":50,"last_offset":59,'
                '"delivery_state":2,"delivery_count":1}]}',
            ),
            record(
                "__share_group_state", 1, 21, 1_001, "ShareSnapshot", group_id="g", topic_id=TOPIC, partition=3,
                tombstone=True, key_json=f'{{"group_id":"g","topic_id":"{TOPIC}","partition":3}}',
            ),
            record(
                "__consumer_offsets", 2, 30, 1_000, "OffsetCommit", group_id="h", topic="orders", partition=5,
                leader_epoch=7, committed_offset=70, key_json='{"group":"h","topic":"orders","partition":5}',
                value_json='{"offset":70,"leader_epoch":7,"metadata":"","commit_timestamp":3}',
            ),
            record(
                "__consumer_offsets", 2, 31, 1_001, "ConsumerGroupCurrentMemberAssignment", group_id="h",
                member_id="m", epoch=9, key_json='{"group_id":"h","member_id":"m"}',
                value_json='{"member_epoch":9,"previous_member_epoch":8,"state":0,"assigned_partitions":[],'
                '"partitions_pending_revocation":[]}',
            ),
            record(
                "__transaction_state", 4, 40, 1_000, "TransactionLog", transactional_id="pay-1", producer_id=77,
                epoch=2, key_json='{"transactional_id":"pay-1"}',
                value_json='{"producer_id":77,"producer_epoch":2,"transaction_timeout_ms":60000,'
                '"transaction_status":0,"transaction_partitions":null,"transaction_last_update_timestamp_ms":4,'
                '"transaction_start_timestamp_ms":5}',
            ),
        ],
    },
)  # fmt: skip
