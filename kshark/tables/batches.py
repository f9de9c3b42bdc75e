"""Record batches and records as rows, of every API that carries them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UnsetType

from kshark.api_keys import FETCH, FETCH_SNAPSHOT, PRODUCE, SHARE_FETCH
from kshark.model import Exchange, Message
from kshark.records import AnyRecord, Batch, RecordsField, RecordSizes, spans_of
from kshark.tables.columns import API, CORRELATION, TOPIC, Column, table
from kshark.tables.connections import Connection
from kshark.tables.fields import value
from kshark.tables.held import Held
from kshark.tables.names import Names
from kshark.tables.readers import field, its, made


class _Place(NamedTuple):
    """Where a body holds records: the arrays of topics and partitions, the topic's name, the partition's number, the
    records field."""

    topics: str
    partitions: str
    topic: str
    partition: str
    records: str


_PRODUCED: Final = _Place("topic_data", "partition_data", "name", "index", "records")
_FETCHED: Final = _Place("responses", "partitions", "topic", "partition_index", "records")
_SNAPSHOT: Final = _Place("topics", "partitions", "name", "index", "unaligned_records")
#: Requests, and responses, that carry records, by API key.
IN_REQUESTS: Final[dict[Any, _Place]] = {PRODUCE: _PRODUCED}
IN_RESPONSES: Final[dict[Any, _Place]] = {FETCH: _FETCHED, FETCH_SNAPSHOT: _SNAPSHOT, SHARE_FETCH: _FETCHED}


def _count(batch: Any) -> int:
    """Return how many records a batch has; one of another magic than 2 does not say it."""
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
        "last_offset_delta", "int", "offset of the last record less base_offset", field("batch", "last_offset_delta")
    ),
    Column("count", "int", "records", made(_count, "batch")),
    Column(
        "magic", "int", "version of the format: 0 and 1 are message sets, 2 is a record batch", field("batch", "magic")
    ),
    Column("codec", "string", "of the compression", field("batch", "codec")),
    Column("size_bytes", "int", "on the wire", field("batch", "size")),
    Column(
        "crc_ok",
        "boolean",
        "the checksum is that of the bytes; null: the batch cannot be read so far",
        field("batch", "crc_ok"),
    ),
    Column("producer_id", "bigint", "-1: the producer is not idempotent", field("batch", "producer_id")),
    Column("producer_epoch", "smallint", "-1: the producer is not idempotent", field("batch", "producer_epoch")),
    Column(
        "base_sequence",
        "int",
        "of the first record, by its producer's count; -1: not idempotent",
        field("batch", "base_sequence"),
    ),
    Column("transactional", "boolean", "part of a transaction", field("batch", "transactional")),
    Column(
        "control", "boolean", "holds markers of transactions and no records of applications", field("batch", "control")
    ),
    Column("timestamp_type", "string", "who set the times", field("batch", "timestamp_type")),
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
    Column("offset", "bigint", "of the record; in a Produce request counted from 0", its("record.offset")),
    Column("timestamp", "bigint", "milliseconds since 1970", its("record.timestamp")),
    Column("key", "binary", "bytes; null: none, or left out (--no-payload)", field("record", "key")),
    Column("value", "binary", "bytes; null: none (a tombstone), or left out", field("record", "value")),
    Column(
        "headers",
        "array<struct<key: string, value: binary>>",
        "names and values, in their order; values may be left out",
        made(_headers, "record"),
    ),
    Column("key_size", "int", "bytes; null: no key", made(_key_size, "record")),
    Column("value_size", "int", "bytes; null: no value (a tombstone)", made(_value_size, "record")),
)

_batch_row: Final = RECORD_BATCHES.row_maker()
_record_row: Final = RECORDS.row_maker()


def add_produced(held: Held, names: Names, connection: Connection, request: Message, exchange: Exchange) -> None:
    """Adds the batches of a request to `record_batches`, and to `records` where asked for."""
    _add(held, names, connection, request, exchange, IN_REQUESTS[request.api_key])


def add_fetched(held: Held, names: Names, connection: Connection, response: Message, exchange: Exchange) -> None:
    """The same for the batches of a response."""
    _add(held, names, connection, response, exchange, IN_RESPONSES[response.api_key])


def _add(held: Held, names: Names, connection: Connection, message: Message, exchange: Exchange, place: _Place) -> None:
    where, exchange_packet = connection.named(message), (exchange.request or message).packet
    here = (where, message.packet, message.time_ns, exchange_packet, message)
    batches = held.rows["record_batches"]
    for topic in getattr(message.body, place.topics, None) or ():
        topic_id = getattr(topic, "topic_id", None)
        name = value(topic, place.topic) or names.topic(topic_id)
        for partition in getattr(topic, place.partitions, None) or ():
            opened = getattr(partition, place.records, None)
            if not isinstance(opened, RecordsField) or isinstance(opened.batches, UnsetType):
                continue
            if message.api_key == SHARE_FETCH:
                opened.spans = spans_of(opened)
            held.opened.append(opened)
            index = getattr(partition, place.partition, None)
            of_partition = (*here, topic_id, name, index)
            batches += [_batch_row(*of_partition, batch) for batch in opened.batches]
            if held.with_records:
                held.rows["records"] += [
                    _record_row(*of_partition, record) for batch in opened.batches for record in batch.records
                ]
