"""Where a record went that its share group gave up: the Produce exchange that put it into a dead-letter queue.

Source: KIP-1191; since Kafka 4.4 a broker writes such records itself, and says in their headers which ones they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from kshark.records.batch import Record
from kshark.report.produced import Appended

_PREFIX: Final = "__dlq.errors."
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class DeadLetter(msgspec.Struct, gc=False):
    """A record in a dead-letter queue; its fields, in this order, are the JSON line.

    Group, topic, partition and offset are the record's own, as the queue's headers give them, like `delivery_count` and
    `reason`;
    `queue_offset` is what the broker answered.
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


def dead_letters_in(appended: Appended, offset: int) -> Iterator[DeadLetter]:
    """The records of a batch that were given up and had that offset, in whatever partition."""
    _, response, topic_id, topic, partition, base, batch = appended
    for record in batch.records:
        told = _headers(record) if isinstance(record, Record) else {}
        of = _number(told, "partition")
        if of is not None and _number(told, "offset") == offset:
            what = (told.get("group"), told.get("topic"), of, offset, response.packet, response.time_ns)
            where = (topic_id, topic, partition, base + record.offset - batch.base_offset)
            yield DeadLetter("dead_letter", *what, *where, _number(told, "delivery.count"), told.get("message"))


def _headers(record: Record) -> dict[str, str]:
    headers = () if record.headers is UNSET else record.headers
    return {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in headers
        if name.startswith(_PREFIX) and value is not None
    }


def _number(told: dict[str, str], name: str) -> int | None:
    text = told.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None
