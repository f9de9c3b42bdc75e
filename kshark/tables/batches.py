"""Record batches and records as rows, of every API that carries them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from kshark.api_keys import FETCH, FETCH_SNAPSHOT, PRODUCE, SHARE_FETCH
from kshark.model import Exchange, Message
from kshark.records import AnyRecord, Batch, RecordsField, RecordSizes, spans_of
from kshark.tables.blocks import Row
from kshark.tables.connections import Connection
from kshark.tables.fields import value
from kshark.tables.held import Held
from kshark.tables.names import Names


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

_IN_A_BATCH: Final = (
    "base_offset",
    "last_offset_delta",
    "count",
    "magic",
    "codec",
    "size",
    "crc_ok",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "transactional",
    "control",
    "timestamp_type",
    "base_timestamp",
    "max_timestamp",
)

_batch: Final[Callable[[Batch], Row]] = attrgetter(*_IN_A_BATCH)


def add_produced(held: Held, names: Names, connection: Connection, request: Message, exchange: Exchange) -> None:
    """Adds the batches of a request to `record_batches`, and to `records` where asked for."""
    _add(held, names, connection, request, exchange, IN_REQUESTS[request.api_key])


def add_fetched(held: Held, names: Names, connection: Connection, response: Message, exchange: Exchange) -> None:
    """The same for the batches of a response."""
    _add(held, names, connection, response, exchange, IN_RESPONSES[response.api_key])


def _add(held: Held, names: Names, connection: Connection, message: Message, exchange: Exchange, place: _Place) -> None:
    here = (
        connection.named(message),
        message.packet,
        message.time_ns,
        (exchange.request or message).packet,
        message.correlation_id,
    )
    batches = held.rows["record_batches"]
    for topic in getattr(message.body, place.topics, None) or ():
        topic_id = getattr(topic, "topic_id", None)
        name = value(topic, place.topic) or names.topic(topic_id)
        for partition in getattr(topic, place.partitions, None) or ():
            field = getattr(partition, place.records, None)
            if not isinstance(field, RecordsField) or isinstance(field.batches, UnsetType):
                continue
            if message.api_key == SHARE_FETCH:
                field.spans = spans_of(field)
            held.opened.append(field)
            index = getattr(partition, place.partition, None)
            of_batch = (*here, message.api, topic_id, name, index)
            for batch in field.batches:
                batches.append(of_batch + (_batch(batch) if type(batch) is Batch else _other_batch(batch)))
                if held.with_records:
                    held.rows["records"] += [
                        (*here, topic_id, name, index, *_record(record)) for record in batch.records
                    ]


def _other_batch(batch: Any) -> Row:
    """A batch of another magic than 2, which lacks some of the fields."""
    count = len(value(batch, "records") or ())
    return tuple([count if name == "count" else value(batch, name) for name in _IN_A_BATCH])


def _record(record: AnyRecord) -> Row:
    timestamp = None if record.timestamp is UNSET else record.timestamp
    headers = None if record.headers is UNSET else record.headers
    if isinstance(record, RecordSizes):
        names = None if headers is None else tuple((name, None) for name, _ in headers)
        return (record.offset, timestamp, None, None, names, record.key_size, record.value_size)
    key, value = record.key, record.value
    return (
        record.offset,
        timestamp,
        key,
        value,
        headers,
        None if key is None else len(key),
        None if value is None else len(value),
    )
