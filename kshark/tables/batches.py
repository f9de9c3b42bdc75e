"""Record batches and records as rows, from every API that carries them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UnsetType

from kshark.api_keys import FETCH, FETCH_SNAPSHOT, PRODUCE, SHARE_FETCH
from kshark.model import Exchange, Message
from kshark.records import AnyRecord, Batch, RecordsField, RecordSizes, produced_of, spans_of
from kshark.tables.columns import API, CORRELATION, TOPIC, Column, table
from kshark.tables.connections import OpenConnection
from kshark.tables.coordinators import coordinator_rows
from kshark.tables.fields import value
from kshark.tables.names import Names
from kshark.tables.pending import PendingRows
from kshark.tables.readers import field, its, made


class _RecordFields(NamedTuple):
    """The names of the fields that hold records in a body: topics, partitions, topic name, partition, records."""

    topics: str
    partitions: str
    topic: str
    partition: str
    records: str


_PRODUCED: Final = _RecordFields("topic_data", "partition_data", "name", "index", "records")
_FETCHED: Final = _RecordFields("responses", "partitions", "topic", "partition_index", "records")
_SNAPSHOT: Final = _RecordFields("topics", "partitions", "name", "index", "unaligned_records")
#: Requests, and responses, that carry records, by API key.
IN_REQUESTS: Final[dict[Any, _RecordFields]] = {PRODUCE: _PRODUCED}
IN_RESPONSES: Final[dict[Any, _RecordFields]] = {FETCH: _FETCHED, FETCH_SNAPSHOT: _SNAPSHOT, SHARE_FETCH: _FETCHED}


def _count(batch: Any) -> int:
    """Return the number of records of a batch; a message set (magic 0, 1) has no count field."""
    count: int = batch.count if type(batch) is Batch else len(batch.records)
    return count


RECORD_BATCHES: Final = table(
    "record_batches",
    "record batch that was produced or fetched",
    "message topic_id topic partition batch",
    CORRELATION,
    API,
    *TOPIC,
    Column("base_offset", "bigint", "offset of the first record", field("batch", "base_offset")),
    Column(
        "last_offset_delta", "int", "offset of the last record minus base_offset", field("batch", "last_offset_delta")
    ),
    Column("count", "int", "number of records", made(_count, "batch")),
    Column(
        "magic", "int", "version of the format: 0 and 1 are message sets, 2 is a record batch", field("batch", "magic")
    ),
    Column("codec", "string", "compression codec", field("batch", "codec")),
    Column("size_bytes", "int", "size on the wire", field("batch", "size")),
    Column(
        "crc_ok",
        "boolean",
        "true if the checksum matches the bytes; null: the magic is unknown",
        field("batch", "crc_ok"),
    ),
    Column("producer_id", "bigint", "-1: the producer is not idempotent", field("batch", "producer_id")),
    Column("producer_epoch", "smallint", "-1: the producer is not idempotent", field("batch", "producer_epoch")),
    Column(
        "base_sequence",
        "int",
        "sequence number of the first record at its producer; -1: not idempotent",
        field("batch", "base_sequence"),
    ),
    Column("transactional", "boolean", "part of a transaction", field("batch", "transactional")),
    Column("control", "boolean", "holds transaction markers instead of application records", field("batch", "control")),
    Column("timestamp_type", "string", "how the times were set", field("batch", "timestamp_type")),
    Column("base_timestamp", "bigint", "milliseconds since 1970", field("batch", "base_timestamp")),
    Column("max_timestamp", "bigint", "milliseconds since 1970", field("batch", "max_timestamp")),
)


def _key_size(record: AnyRecord) -> int | None:
    if isinstance(record, RecordSizes):
        return record.key_size
    return None if record.key is None else len(record.key)


def _value_size(record: AnyRecord) -> int | None:
    if isinstance(record, RecordSizes):
        return record.value_size
    return None if record.value is None else len(record.value)


def _headers(record: AnyRecord) -> Any:
    if record.headers and isinstance(record, RecordSizes):
        return tuple([(name, None) for name, _ in record.headers])
    return record.headers


RECORDS: Final = table(
    "records",
    "record (with --records)",
    "message topic_id topic partition record",
    CORRELATION,
    *TOPIC,
    Column("offset", "bigint", "offset of the record; in a Produce request counted from 0", its("record.offset")),
    Column("timestamp", "bigint", "milliseconds since 1970", its("record.timestamp")),
    Column("key", "binary", "bytes; null: no key, or left out (--no-payload)", field("record", "key")),
    Column("value", "binary", "bytes; null: no value (a tombstone), or left out", field("record", "value")),
    Column(
        "headers",
        "array<struct<key: string, value: binary>>",
        "names and values, in wire order; values may be left out",
        made(_headers, "record"),
    ),
    Column("key_size", "int", "bytes; null: no key", made(_key_size, "record")),
    Column("value_size", "int", "bytes; null: no value (a tombstone)", made(_value_size, "record")),
)

_batch_row: Final = RECORD_BATCHES.row_maker()
_record_row: Final = RECORDS.row_maker()


def add_produced(
    held: PendingRows, names: Names, connection: OpenConnection, request: Message, exchange: Exchange
) -> None:
    """Add the batches of a request to `record_batches`, and to `records` if requested."""
    _add(held, names, connection, request, exchange, IN_REQUESTS[request.api_key])


def add_fetched(
    held: PendingRows, names: Names, connection: OpenConnection, response: Message, exchange: Exchange
) -> None:
    """Add the batches of a response in the same way."""
    _add(held, names, connection, response, exchange, IN_RESPONSES[response.api_key])


def _add(
    held: PendingRows,
    names: Names,
    connection: OpenConnection,
    message: Message,
    exchange: Exchange,
    field_names: _RecordFields,
) -> None:
    where, exchange_packet = connection.named(message), (exchange.request or message).packet
    here = (where, message.packet, message.time_ns, exchange_packet, message)
    batches = held.rows["record_batches"]
    for topic in getattr(message.body, field_names.topics, None) or ():
        topic_id = getattr(topic, "topic_id", None)
        name = value(topic, field_names.topic) or names.topic(topic_id)
        for partition in getattr(topic, field_names.partitions, None) or ():
            opened = getattr(partition, field_names.records, None)
            if not isinstance(opened, RecordsField) or isinstance(opened.batches, UnsetType):
                continue
            if message.api_key in (FETCH, SHARE_FETCH):
                opened.spans = spans_of(opened)
            if message.api_key in (FETCH, PRODUCE):
                opened.produced = produced_of(opened)
            held.opened.append(opened)
            index = getattr(partition, field_names.partition, None)
            of_partition = (*here, topic_id, name, index)
            batches += [_batch_row(*of_partition, batch) for batch in opened.batches]
            if held.with_records:
                held.rows["records"] += [
                    _record_row(*of_partition, record) for batch in opened.batches for record in batch.records
                ]
                held.rows["coordinator_records"] += coordinator_rows(here, name, index, opened.batches)
