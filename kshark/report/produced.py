"""Where a record came from: the Produce exchange whose batch has its offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import UnsetType

from kshark.model import Exchange, Message
from kshark.records import Batch, RecordsField


class Produced(msgspec.Struct, gc=False):
    """A batch that was appended; its fields, in this order, are the JSON line.

    `base_offset` is what the broker gave its first record, `producer_id` -1 without idempotence.
    """

    event: str
    topic_id: str | None
    topic: str | None
    partition: int
    packet: int
    time_ns: int
    client_id: str | None
    client: str
    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class Appended(NamedTuple):
    """A batch that a broker has appended by that exchange; `base_offset` is what it gave its first record."""

    request: Message
    response: Message
    topic_id: str | None
    topic: str | None
    partition: int
    base_offset: int
    batch: Batch


def appended_by(exchange: Exchange) -> Iterator[Appended]:
    """The batches of a Produce exchange that the broker took; without those of old magic, whose offsets are the
    client's."""
    request, response = exchange.request, exchange.response
    if request is None or response is None or request.body is None or response.body is None:
        return
    given = {
        (_topic(topic), one.index): one.base_offset
        for topic in getattr(response.body, "responses", None) or ()
        for one in topic.partition_responses or ()
        if one.error_code == 0
    }
    for topic in getattr(request.body, "topic_data", None) or ():
        for one in topic.partition_data or ():
            base = given.get((_topic(topic), one.index))
            records = one.records
            if base is None or not isinstance(records, RecordsField):
                continue
            for batch in () if isinstance(records.batches, UnsetType) else records.batches:
                if isinstance(batch, Batch):
                    yield Appended(
                        request, response, _text(topic, "topic_id"), _text(topic, "name"), one.index, base, batch
                    )
                    base += batch.last_offset_delta + 1


def produced_as(appended: Appended, offset: int) -> Iterator[Produced]:
    """The batch, where it has that offset."""
    request, response, topic_id, topic, partition, base, batch = appended
    last = base + batch.last_offset_delta
    if base <= offset <= last:
        client_id = request.client_id if isinstance(request.client_id, str) else None
        told = (topic_id, topic, partition, response.packet, response.time_ns, client_id, request.client)
        yield Produced("produced", *told, base, last, batch.producer_id, batch.producer_epoch, batch.base_sequence)


def _topic(topic: Any) -> str | None:
    return _text(topic, "topic_id") or _text(topic, "name")


def _text(topic: Any, field: str) -> str | None:
    found = getattr(topic, field, None)
    return found if isinstance(found, str) else None
