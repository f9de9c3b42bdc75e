"""Capturing begins beside a producer of 600 kB requests and a consumer that fetches 50 MB: what comes after the pick-up
is read as ever.

The bytes are made as they are sent, so that what is held in memory is held by the stages.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest
from msgspec import UNSET

from kshark.model import Message, PacketBatch
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from tests.exchange.test_stage import request
from tests.framing.test_middle import produce, produced
from tests.packets import Tcp, Wire, batch

REGISTRY = Registry()
BLOCK = Random(1).randbytes(1 << 20)
FETCHED = 50_000_000
#: What is still to come of the first answer when capturing begins.
SEEN = FETCHED // 8
#: A packet on loopback.
MSS = 65_483
#: Packets of a batch.
MANY = 16


def fetch(correlation_id: int) -> bytes:
    """Fetch v4 of one partition."""
    body = (
        struct.pack(">iiiib", -1, 500, 1, FETCHED, 0)
        + struct.pack(">i", 1)
        + b"\0\1t"
        + struct.pack(">iiqi", 1, 0, 7, FETCHED)
    )
    return request(1, 4, correlation_id, body)


def fetched(correlation_id: int, size: int = FETCHED) -> Iterator[bytes]:
    """The answer, with records that nobody opens, block by block."""
    head = struct.pack(">iiihciihqqii", correlation_id, 0, 1, 1, b"t", 1, 0, 0, 9, 9, -1, size)
    yield struct.pack(">i", len(head) + size) + head
    yield from _blocks(size)


def _blocks(size: int) -> Iterator[bytes]:
    while size:
        yield BLOCK[:size]
        size -= min(size, len(BLOCK))


def packets_of(size: int) -> int:
    return sum(-(-len(block) // MSS) for block in _blocks(size))


def consumer() -> Iterator[Wire]:
    """Begun in the middle of an answer."""
    wire = Wire()
    tcp = Tcp(wire)
    for data in _blocks(SEEN):
        tcp.broker(data, mss=MSS)
        yield wire
    for number in (2, 3):
        tcp.client(fetch(number))
        for data in fetched(number, FETCHED if number == 2 else 5_000):
            tcp.broker(data, mss=MSS)
            yield wire


def producer() -> Iterator[Wire]:
    """Begun in the middle of a request."""
    wire = Wire()
    tcp = Tcp(wire)
    tcp.client(produce(1, 600_000)[250_000:], mss=MSS)
    for number in (2, 3, 4):
        tcp.client(produce(number, 600_000), mss=MSS)
        yield wire
        tcp.broker(produced(number))
        yield wire


def sent(wires: Iterator[Wire]) -> Iterator[PacketBatch]:
    number = 1
    for wire in wires:
        for at in range(0, len(wire.packets), MANY):
            packets = wire.packets[at : at + MANY]
            yield batch(packets, number)
            number += len(packets)
        wire.packets.clear()


def read(wires: Iterator[Wire]) -> list[Message]:
    tracemalloc.start()
    try:
        pages = Engine(Options(records=False), REGISTRY).pages(sent(wires))
        found = [event for page in pages for event in page if isinstance(event, Message)]
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()
    return found


def of(messages: list[Message]) -> list[tuple[str, int, int, int]]:
    """Kind, correlation id, and the first and last packet."""
    whole = [(it, (it.packet, it.packet) if it.packets is UNSET else it.packets) for it in messages]
    return [(it.kind, int(it.correlation_id), *packets) for it, packets in whole if it.correlation_id is not UNSET]


@pytest.mark.sweep
def test_fetches_of_50_mb() -> None:
    found = read(consumer())
    asked = found[0].packet
    assert asked == packets_of(SEEN) + 1
    last = asked + 1 + packets_of(FETCHED)  # the answer's head is a packet of its own
    assert of(found) == [
        ("request", 2, asked, asked),
        ("response", 2, asked + 1, last),
        ("request", 3, last + 1, last + 1),
        ("response", 3, last + 2, last + 3),
    ]
    assert [it.latency_ns for it in found if it.kind == "response"] == [1_000_000, 1_000_000]


def test_produces_of_600_kb() -> None:
    found = read(producer())
    assert [(kind, number) for kind, number, *_ in of(found)] == [
        (kind, n) for n in (2, 3, 4) for kind in ("request", "response")
    ]
    requests = [(first, last) for kind, _, first, last in of(found) if kind == "request"]
    assert [last - first for first, last in requests] == [600_000 // MSS] * 3
    assert [it.latency_ns for it in found if it.kind == "response"] == [1_000_000] * 3
