"""Record batches, and records, as rows: wherever an API carries them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from kshark.model import Message
from kshark.records import Batch, Record, RecordsField
from kshark.tables.fields import Held, Row, value
from kshark.tables.names import Names


class _Place(NamedTuple):
    """Where a body holds records: arrays of topics and partitions, the topic's name, the partition's number, the field."""

    topics: str
    partitions: str
    topic: str
    partition: str
    records: str


_REQUESTS: Final = {0: _Place("topic_data", "partition_data", "name", "index", "records")}
_RESPONSES: Final = {
    1: _Place("responses", "partitions", "topic", "partition_index", "records"),
    59: _Place("topics", "partitions", "name", "index", "unaligned_records"),
    78: _Place("responses", "partitions", "topic", "partition_index", "records"),
}
#: APIs whose requests, and whose responses, carry records.
PRODUCE: Final = frozenset(_REQUESTS)
FETCH: Final = frozenset(_RESPONSES)

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
_IN_A_RECORD: Final = ("offset", "timestamp", "key", "value", "headers")

_batch: Final[Callable[[Batch], Row]] = attrgetter(*_IN_A_BATCH)


def add(held: Held, common: Row, message: Message, names: Names, *, records: bool) -> list[RecordsField]:
    """Adds to `record_batches` what one message carries, and to `records` where asked for; gives the fields that were opened."""
    key: Any = message.api_key
    place = (_REQUESTS if message.kind == "request" else _RESPONSES).get(key)
    if place is None:
        return []
    opened = []
    here = (*common, message.correlation_id)
    batches = held["record_batches"]
    for topic in getattr(message.body, place.topics, None) or ():
        topic_id = value(topic, "topic_id")
        name = value(topic, place.topic) or names.topic(topic_id)
        for partition in getattr(topic, place.partitions, None) or ():
            field = getattr(partition, place.records, None)
            if not isinstance(field, RecordsField) or isinstance(field.batches, UnsetType):
                continue
            opened.append(field)
            where = (topic_id, name, value(partition, place.partition))
            place_of_batch = (*here, message.api, *where)
            for batch in field.batches:
                batches.append(place_of_batch + (_batch(batch) if type(batch) is Batch else _other_batch(batch)))
                if records:
                    held["records"] += [(*here, *where, *_record(record)) for record in batch.records]
    return opened


def _other_batch(batch: Any) -> Row:
    """A batch of another magic than 2, which has not all of the fields."""
    count = len(value(batch, "records") or ())
    return tuple([count if name == "count" else value(batch, name) for name in _IN_A_BATCH])


def _record(record: Any) -> Row:
    if isinstance(record, Record):
        timestamp, headers = record.timestamp, record.headers
        return (record.offset, None if timestamp is UNSET else timestamp, record.key, record.value, None if headers is UNSET else headers)
    return tuple([value(record, name) for name in _IN_A_RECORD])
