"""Events as values that can be compared, with all their attributes; flows by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import msgspec

from kshark.exchange import decoding
from kshark.model import Closed, Event, Exchange, Flow, Frames, Gap, HalfClosed, Message, Opened, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from kshark.registry import kafka_registry


def event_values(batches: Iterable[PacketBatch], options: Options | None = None, *, interpreted: int = 0) -> list[Any]:
    """Return the events of the packets in their order, each as it is when it comes; a flow as it is when it is
    closed. `interpreted`: so many bodies of a layout, of any size, are read before its reader is compiled."""
    events: list[Event] = []
    values: list[Any] = []
    with read_first(interpreted):
        for page in Engine(options, kafka_registry()).pages(batches):
            events += page
            values += map(value_of, page)
    assert [*map(value_of, events)] == values, "an event changed after it was emitted"
    return values


@contextmanager
def read_first(interpreted: int) -> Iterator[None]:
    """Interpret so many bodies of a layout, of any size, before its reader is compiled."""
    usual = decoding.INTERPRETED, decoding.INTERPRETED_BYTES
    decoding.INTERPRETED, decoding.INTERPRETED_BYTES = interpreted, 1 << 31  # type: ignore[misc]
    try:
        yield
    finally:
        decoding.INTERPRETED, decoding.INTERPRETED_BYTES = usual  # type: ignore[misc]


def value_of(event: Event) -> Any:
    match event:
        case Message() | Weird():
            return msgspec.msgpack.encode(event)  # keeps bytes from text, and the fields in their order
        case Exchange():
            request, response = event.request, event.response
            return (
                "exchange",
                event.outcome,
                event.flow.id,
                request and msgspec.msgpack.encode(request),
                response and response.packet,
            )
        case Opened():
            return "opened", event.flow.id, event.packet, event.time_ns
        case HalfClosed():
            return "half closed", event.flow.id, event.packet, event.time_ns, event.side
        case Closed():
            return "closed", event.packet, event.time_ns, event.how, event.side, _of_flow(event.flow)
        case Gap():
            where = event.packet, event.time_ns, event.first_packet, event.last_packet
            return "gap", event.flow.id, event.side, *where, event.size, event.reason
        case Frames():
            raise AssertionError("frames never leave the engine")


def _of_flow(flow: Flow) -> Any:
    return {name: copy(getattr(flow, name)) for name in Flow.__slots__}
