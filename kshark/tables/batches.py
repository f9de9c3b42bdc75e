"""Record batches, and records, as rows: wherever an API carries them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.model import Message
from kshark.tables.fields import each, value
from kshark.tables.names import Names

Common = Callable[[Message], tuple[Any, ...]]


class _Place(NamedTuple):
    """Where a body holds records: arrays of topics and partitions, the topic's name, the partition's number, the field."""

    topics: str
    partitions: str
    topic: str
    partition: str
    records: str


PRODUCE: Final = (0,)
FETCH: Final = (1, 59, 78)
_PLACES: Final = {
    (0, "request"): _Place("topic_data", "partition_data", "name", "index", "records"),
    (1, "response"): _Place("responses", "partitions", "topic", "partition_index", "records"),
    (59, "response"): _Place("topics", "partitions", "name", "index", "unaligned_records"),
    (78, "response"): _Place("responses", "partitions", "topic", "partition_index", "records"),
}

_BATCH: Final = ("magic", "codec", "size", "crc_ok", "producer_id", "producer_epoch", "base_sequence", "transactional", "control")
_TIMES: Final = ("timestamp_type", "base_timestamp", "max_timestamp")


def rows(common: Common, message: Message, names: Names, records: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """`record_batches` of one message, and its `records` where asked for."""
    key: Any = (message.api_key, message.kind)
    place = _PLACES.get(key)
    if place is None:
        return
    here = (*common(message), message.correlation_id)
    for topic in each(message.body, place.topics):
        topic_id = value(topic, "topic_id")
        name = value(topic, place.topic) or names.topic(topic_id)
        for partition in each(topic, place.partitions):
            where = (topic_id, name, value(partition, place.partition))
            for batch in each(value(partition, place.records), "batches"):
                yield "record_batches", (*here, message.api, *where, *_batch(batch))
                if records:
                    for record in each(batch, "records"):
                        yield "records", (*here, *where, *_record(record))


def _batch(batch: Any) -> tuple[Any, ...]:
    count = value(batch, "count")
    return (
        value(batch, "base_offset"),
        value(batch, "last_offset_delta"),
        len(value(batch, "records") or ()) if count is None else count,
        *(value(batch, name) for name in _BATCH),
        *(value(batch, name) for name in _TIMES),
    )


def _record(record: Any) -> tuple[Any, ...]:
    return (
        value(record, "offset"),
        value(record, "timestamp"),
        value(record, "key"),
        value(record, "value"),
        value(record, "headers"),
    )


@contextmanager
def closed(message: Message) -> Iterator[None]:
    """Within, the message's records fields hold nothing but their size."""
    key: Any = (message.api_key, message.kind)
    place = _PLACES.get(key)
    opened = []
    if place is not None:
        for partition in each(message.body, place.topics, place.partitions):
            field = value(partition, place.records)
            if value(field, "batches") is not None:
                opened.append((field, field.batches, field.partial_bytes))
                field.batches = field.partial_bytes = UNSET
    try:
        yield
    finally:
        for field, batches, partial in opened:
            field.batches, field.partial_bytes = batches, partial
