"""Records of the coordinators' logs as rows: what brokers store about groups, offsets, share states, transactions.

Kafka: CoordinatorRecordType, ShareCoordinatorShard, TransactionLog.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark.embedded.decoded import decoded_fields, decoded_name
from kshark.records import AnyRecord
from kshark.tables.blocks import Row
from kshark.tables.columns import API, CORRELATION, GROUP, MEMBER, PARTITION, TOPIC_ID, Column, table
from kshark.tables.readers import Reader, its, made, optional

#: The logs of group, share and transaction coordinators.
LOGS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
#: Fields that are an epoch of the group, its member or the producer, the most exact first.
_EPOCHS: Final = ("member_epoch", "epoch", "assignment_epoch", "generation", "producer_epoch")


def _of(part: str, *names: str) -> Reader:
    """Read the first of these fields that a record's key or value has."""

    def read(record: AnyRecord) -> Any:
        data = decoded_fields(record, part)
        return next((data[name] for name in names if data.get(name) is not None), None)

    return made(read, "record")


def _type(record: AnyRecord) -> str | None:
    """Return Kafka's name of the record's type; null for one that no release has."""
    return decoded_name(record, "key").removesuffix("Key") or None


def _topic_id(record: AnyRecord) -> Any:
    """Return the topic id: a share partition's key has it, newer commits have it in the value."""
    return decoded_fields(record, "key").get("topic_id") or decoded_fields(record, "value").get("topic_id")


def _is_tombstone(record: AnyRecord) -> bool:
    return getattr(record, "value", UNSET) is None


def _json(part: str) -> Reader:
    """Read a decoded key or value as JSON; bytes are base64."""

    def read(record: AnyRecord) -> str | None:
        data = decoded_fields(record, part)
        return msgspec.json.encode(data).decode() if data else None

    return made(read, "record")


COORDINATOR_RECORDS: Final = table(
    "coordinator_records",
    "record of __consumer_offsets, __share_group_state or __transaction_state (with --records)",
    "message log log_partition record",
    CORRELATION.read(optional("message.correlation_id")),
    API.read(optional("message.api")),
    Column("log", "string", "topic that holds the record", its("log")),
    Column("log_partition", "int", "partition of that topic; its leader is the coordinator", its("log_partition")),
    Column("offset", "bigint", "offset of the record in the log", its("record.offset")),
    Column("timestamp", "bigint", "milliseconds since 1970", its("record.timestamp")),
    Column("record_type", "string", "as in ShareSnapshot, OffsetCommit; null: unknown", made(_type, "record")),
    GROUP.read(_of("key", "group_id", "group")),
    MEMBER.read(_of("key", "member_id")),
    TOPIC_ID.read(made(_topic_id, "record")),
    Column("topic", "string", "name of the topic of a committed offset", _of("key", "topic")),
    PARTITION.read(_of("key", "partition")),
    Column("transactional_id", "string", "transactional id of the producer", _of("key", "transactional_id")),
    Column("producer_id", "bigint", "id of the transactional producer", _of("value", "producer_id")),
    Column("tombstone", "boolean", "true if there is no value: its key is deleted", made(_is_tombstone, "record")),
    Column("epoch", "int", "epoch of the member, group or producer; generation", _of("value", *_EPOCHS)),
    Column("snapshot_epoch", "int", "number of the share partition's snapshot", _of("value", "snapshot_epoch")),
    Column("state_epoch", "int", "epoch of the group that initialized the share state", _of("value", "state_epoch")),
    Column("leader_epoch", "int", "epoch of the partition's leader", _of("value", "leader_epoch")),
    Column("start_offset", "bigint", "start offset of the share partition; -1: none", _of("value", "start_offset")),
    Column("committed_offset", "bigint", "offset that the group committed", _of("value", "offset")),
    Column("key_json", "string", "the whole decoded key; null: not decoded", _json("key")),
    Column("value_json", "string", "the whole decoded value; null: a tombstone, or not decoded", _json("value")),
)  # fmt: skip

_row: Final = COORDINATOR_RECORDS.row_maker()


def coordinator_rows(common: Row, log: str | None, partition: Any, batches: Any) -> list[Row]:
    """Return a row for each record of batches of a coordinator's log, none for other topics.

    `common`: where, packet, time_ns, exchange and message, of which a log segment has only the first. Control records,
    which end transactions, have no row.
    """
    if log not in LOGS:
        return []
    return [
        _row(*common, log, partition, record)
        for batch in batches
        if not getattr(batch, "control", False)
        for record in batch.records
    ]
