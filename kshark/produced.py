"""Find the Produce exchange that a record came from, and the one that put it into a dead-letter queue.

A record came with the batch that has its offset. When a share group gives up a record, it may be written to a
dead-letter queue, by the broker itself since Kafka 4.4, with headers that name the record. Source: KIP-1191.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from kshark.model import Exchange, Message
from kshark.records import Batch, RecordsField
from kshark.records.batch import Record

_PREFIX: Final = "__dlq.errors."
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class Produced(msgspec.Struct, gc=False):
    """An appended batch; its fields, in this order, are the JSON line.

    `base_offset` is the offset that the broker assigned to its first record, `producer_id` is -1 without idempotence.
    `cluster_id`: null if no Metadata response names the cluster.
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
    cluster_id: str | None = None


class DeadLetter(msgspec.Struct, gc=False):
    """A record in a dead-letter queue; its fields, in this order, are the JSON line.

    Group, topic, partition and offset are the record's own, as the queue's headers give them, like `delivery_count` and
    `reason`; `queue_offset` is from the broker's answer, `cluster_id` is the cluster of the queue.
    """

    event: str
    group_id: str | None
    topic: str | None
    partition: int
    offset: int
    packet: int
    time_ns: int
    queue_id: str | None
    queue: str | None
    queue_partition: int
    queue_offset: int
    delivery_count: int | None
    reason: str | None
    cluster_id: str | None = None


class Appended(NamedTuple):
    """A batch that a broker appended in that exchange; `base_offset` is the offset assigned to its first record."""

    request: Message
    response: Message
    topic_id: str | None
    topic: str | None
    partition: int
    base_offset: int
    batch: Batch


def appended_by(exchange: Exchange) -> Iterator[Appended]:
    """Yield the batches of a Produce exchange that the broker accepted.

    Batches of old magic are left out: their offsets are the client's.
    """
    request, response = exchange.request, exchange.response
    if request is None or response is None or request.body is None or response.body is None:
        return
    base_offsets = {
        (_topic(topic), partition.index): partition.base_offset
        for topic in getattr(response.body, "responses", None) or ()
        for partition in topic.partition_responses or ()
        if partition.error_code == 0
    }
    for topic in getattr(request.body, "topic_data", None) or ():
        for partition in topic.partition_data or ():
            base = base_offsets.get((_topic(topic), partition.index))
            records = partition.records
            if base is None or not isinstance(records, RecordsField):
                continue
            for batch in () if isinstance(records.batches, UnsetType) else records.batches:
                if isinstance(batch, Batch):
                    yield Appended(
                        request, response, _text(topic, "topic_id"), _text(topic, "name"), partition.index, base, batch
                    )
                    base += batch.last_offset_delta + 1


def produced_as(appended: Appended, offset: int) -> Iterator[Produced]:
    """Yield the batch if it contains that offset."""
    request, response, topic_id, topic, partition, base, batch = appended
    last = base + batch.last_offset_delta
    if base <= offset <= last:
        client_id = request.client_id if isinstance(request.client_id, str) else None
        fields = (topic_id, topic, partition, response.packet, response.time_ns, client_id, request.client)
        yield Produced("produced", *fields, base, last, batch.producer_id, batch.producer_epoch, batch.base_sequence)


def dead_letters_in(appended: Appended, offset: int) -> Iterator[DeadLetter]:
    """Yield the records of a batch that were given up and had that offset, in any partition."""
    _, response, topic_id, topic, partition, base, batch = appended
    for record in batch.records:
        headers = _headers(record) if isinstance(record, Record) else {}
        source = _number(headers, "partition")
        if source is not None and _number(headers, "offset") == offset:
            origin = (headers.get("group"), headers.get("topic"), source, offset, response.packet, response.time_ns)
            queue = (topic_id, topic, partition, base + record.offset - batch.base_offset)
            yield DeadLetter("dead_letter", *origin, *queue, _number(headers, "delivery.count"), headers.get("message"))


def _topic(topic: Any) -> str | None:
    return _text(topic, "topic_id") or _text(topic, "name")


def _text(topic: Any, field: str) -> str | None:
    value = getattr(topic, field, None)
    return value if isinstance(value, str) else None


def _headers(record: Record) -> dict[str, str]:
    headers = () if record.headers is UNSET else record.headers
    return {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in headers
        if name.startswith(_PREFIX) and value is not None
    }


def _number(headers: dict[str, str], name: str) -> int | None:
    text = headers.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None
