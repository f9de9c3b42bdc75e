"""Requests with their responses as columns of `exchanges`: the table with the most rows, so its columns are made
without making rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec import UNSET

from kshark.analysis.results.error_codes import ErrorCodes
from kshark.model import Exchange, Message
from kshark.records import RecordsField
from kshark.tables.blocks import Block, Cells, Texts, Where

#: A complete exchange, its connection, and the columns that are not in its messages: request_position, position,
#: after_request_packet.
Complete = tuple[Exchange, Where, int | None, int, int | None]

#: Bytes of messages in one block: as JSON they take less than a hundred times as many, and a column may have 2 GB.
BYTES: Final = 16 << 20

#: In the place of a message that the exchange does not have: all its cells are null.
_LACKING: Final = cast("Any", Message)(
    packet=None, packets=UNSET, time_ns=None, flow=None, client=None, broker=None, kind=None, api_key=None, api=None,
    version=None,
    correlation_id=None, client_id=None, request_packet=None, latency_ns=None, size=None, body=None,
)  # fmt: skip


def size(complete: Iterable[Complete]) -> int:
    """Bytes of the exchanges' messages."""
    return sum(
        [message.size for one in complete for message in (one[0].request, one[0].response) if message is not None]
    )


def blocks(complete: Sequence[Complete], codes: ErrorCodes) -> Iterator[Block]:
    """The rows of these exchanges; more than one block if the messages are long. `codes` finds those of answers."""
    exchanges, where, asked_at, at, after = zip(*complete, strict=True)
    asked = [exchange.request or _LACKING for exchange in exchanges]
    answered = [exchange.response or _LACKING for exchange in exchanges]
    sizes = [message.size for message in asked], [message.size for message in answered]
    if len(complete) > 1 and sum(map(sum, (filter(None, some) for some in sizes))) > BYTES:
        half = len(complete) // 2
        yield from blocks(complete[:half], codes)
        yield from blocks(complete[half:], codes)
        return
    first = [exchange.request or exchange.response for exchange in exchanges]
    asked_bodies = [message.body for message in asked]
    answered_bodies = [message.body for message in answered]
    own: list[Cells] = [
        [message.api_key for message in first],
        [message.api for message in first],
        [message.version for message in first],
        [message.correlation_id for message in first],
        [message.client_id for message in first],
        [message.packet for message in asked],
        [message.packet for message in answered],
        [message.time_ns for message in asked],
        [message.time_ns for message in answered],
        [message.latency_ns for message in answered],
        *sizes,
        [exchange.outcome for exchange in exchanges],
        [getattr(body, "error_code", None) for body in answered_bodies],
        _sparse(codes.column(answered)),
        [getattr(body, "throttle_time_ms", None) for body in answered_bodies],
        [getattr(body, "group_id", None) for body in asked_bodies],
        [getattr(body, "member_id", None) for body in asked_bodies],
        Texts(asked_bodies),
        Texts(answered_bodies),
        _sparse([packets[0] if (packets := message.packets) else None for message in asked]),
        _sparse([packets[0] if (packets := message.packets) else None for message in answered]),
        _sparse([message.weird for message in asked]),
        _sparse([message.weird for message in answered]),
        _sparse([message.detail for message in asked]),
        _sparse([message.detail for message in answered]),
        asked_at,
        [None if message is _LACKING else place - 1 for message, place in zip(answered, at, strict=True)],
        at,
        _sparse([exchange.packet if exchange.outcome == "unanswered" else None for exchange in exchanges]),
        _sparse(after),
    ]
    packets = [message.packet for message in first]
    yield Block(where, packets, [message.time_ns for message in first], packets, own)


def _sparse(cells: Sequence[Any]) -> Cells:
    """A column that is null in most blocks, which then costs nothing."""
    return cells if any(cells) else None


@contextmanager
def closed(fields: Sequence[RecordsField]) -> Iterator[None]:
    """A context in which records are encoded as with --no-records: their size only."""
    opened = [(field.batches, field.partial_bytes) for field in fields]
    for field in fields:
        field.batches = field.partial_bytes = UNSET
    try:
        yield
    finally:
        for field, (batches, partial_bytes) in zip(fields, opened, strict=True):
            field.batches, field.partial_bytes = batches, partial_bytes
