"""A records field on its own: bytes in, the field and the message that carries it out."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from kshark.model import Message
from kshark.records import Record, RecordsField, RecordsReader

NEVER = 1 << 60
NOW = 1_795_231_172_000


def message(*, produced: bool = False) -> Message:
    """A message as the exchange stage makes it, without weirds: the answer to a Fetch, or a Produce request."""
    if produced:
        return Message(1, UNSET, 0, 0, "c", "b", "request", 0, "Produce", 7, 1, None, UNSET, UNSET, 0, None)
    return Message(1, UNSET, 0, 0, "c", "b", "response", 1, "Fetch", 4, 1, None, UNSET, UNSET, 0, None)


def opened(
    data: bytes, *, aligned: bool = True, produced: bool = False, **options: Any
) -> tuple[RecordsField, Message]:
    """The field whose bytes are `data`, standing between other bytes, filled in; and its message."""
    reader = RecordsReader(**options)
    field = reader(b"before" + data + b"behind", 6, 6 + len(data), aligned)
    carrier = message(produced=produced)
    reader.claim(carrier)
    reader.fill()
    return field, carrier


def codes(data: bytes, **options: Any) -> list[str]:
    """The catalogue codes that the field puts on its message, sorted."""
    weird = opened(data, **options)[1].weird
    return [] if weird is UNSET else sorted(weird)


def plain(field: RecordsField) -> Any:
    """The field as a reader of the JSON line sees it."""
    return msgspec.json.decode(msgspec.json.encode(field))


def people(count: int, first: int = 0) -> list[Record]:
    """Ordinary records, a few milliseconds apart."""
    return [Record(first + i, NOW + 3 * i, b"key%d" % i, b'{"n":%d}' % i, ()) for i in range(count)]
