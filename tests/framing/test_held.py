"""How long messages are held for what other connections may still bring: by packet time, and what is known later keeps
its own time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshark.model import Gap, Message, PacketBatch
from kshark.pipeline import Engine
from tests.exchange.test_stage import answer, metadata
from tests.packets import Tcp, Wire, batches
from tests.property.event_values import event_values

#: As long as anything is held, in seconds.
HELD = 0.2


def came_with(wire: Wire, flow: int) -> list[tuple[int, int]]:
    """The messages of a connection: own packet, and the packet with which each came out of the engine, fed packet by
    packet."""
    engine = Engine()
    came: list[tuple[int, int]] = []
    each: list[PacketBatch] = batches(wire.packets, [1] * len(wire.packets))
    for number, part in enumerate(each, 1):
        came += [
            (one.packet, number)
            for page in engine.feed(part)
            for one in page
            if isinstance(one, Message) and one.flow == flow
        ]
    return came


def heartbeats(wire: Wire, tcp: Tcp, first: int, count: int, seconds: float) -> None:
    """Requests and answers, one a moment."""
    for number in range(first, first + count):
        tcp.client(metadata(number))
        tcp.broker(answer(number))
        wire.pause(seconds)


def seconds_held(wire: Wire, came: list[tuple[int, int]]) -> float:
    """The longest that one of these came behind its own packet."""
    times = [packet.time_ns for packet in wire.packets]
    return max(times[number - 1] - times[own - 1] for own, number in came) / 1e9


@pytest.mark.parametrize("pause", [0.001, 0.05, 0.1])
def test_nine_bytes_that_nobody_recognises_hold_nothing_for_long(pause: float) -> None:
    wire = Wire()
    strange, kafka = Tcp(wire, source="10.0.0.2:50000", target="10.0.0.7:7000").open(), Tcp(wire).open()
    strange.client(b"\0\0\0\x50\0\0\0\0\0")
    heartbeats(wire, kafka, 1, 20 if pause > 0.01 else 500, pause)
    came = came_with(wire, 1)
    assert len(came) >= 30
    assert seconds_held(wire, came) <= HELD + pause + 0.01
    assert came[-1][0] == came[-1][1], "later ones are not held at all"


def test_a_hole_that_the_end_decides_is_late_by_the_clock() -> None:
    """A packet is stamped a second ahead: by its own time the reset comes at once, by the clock nobody waited for
    it."""
    wire = Wire()
    holed, other = Tcp(wire, source="10.0.0.2:50000").open(), Tcp(wire).open()
    heartbeats(wire, holed, 1, 1, 0.001)
    holed.seq[0] += 5
    holed.client(metadata(2))
    behind = len(wire.packets)
    heartbeats(wire, other, 1, 2, 0.001)
    wire.packets[behind] = replace(wire.packets[behind], time_ns=wire.packets[behind].time_ns + 1_000_000_000)
    holed.seq[0] -= 5 + len(metadata(2))
    holed.reset()
    whole = event_values(batches(wire.packets, []))
    for edge in range(behind, len(wire.packets)):
        assert event_values(batches(wire.packets, [edge])) == whole


def test_a_hole_with_silence_behind_it_holds_nothing_for_long() -> None:
    wire = Wire()
    holed, other = Tcp(wire, source="10.0.0.2:50000").open(), Tcp(wire).open()
    heartbeats(wire, holed, 1, 1, 0.001)
    holed.seq[0] += 5
    holed.client(metadata(2))
    heartbeats(wire, other, 1, 20, 0.05)
    came = came_with(wire, 1)
    assert len(came) == 40
    assert seconds_held(wire, came) <= HELD + 0.06


@pytest.mark.parametrize("pause", [0.05, 2])
def test_what_is_known_late_keeps_its_own_packet_and_stands_where_it_was_known(pause: float) -> None:
    """A request of a version that nobody knows is known by its answer."""
    wire = Wire()
    tcp, other = Tcp(wire, source="10.0.0.2:50000").open(), Tcp(wire).open()
    asked = metadata(1).replace(metadata(1)[4:8], b"\0\x03\x00\x63", 1)
    tcp.client(asked)
    own = len(wire.packets)
    wire.pause(pause)
    heartbeats(wire, other, 1, 1, 0.001)
    tcp.broker(answer(1))
    tcp.client(metadata(2))
    tcp.broker(answer(2))
    whole = [event for page in Engine().pages(batches(wire.packets, [])) for event in page]
    messages = [event for event in whole if isinstance(event, Message)]
    late, reply, *_ = [event for event in messages if event.flow == 0]
    assert late.packet == own
    assert (messages.index(late) == 0) == (pause < HELD)
    assert reply.request_packet == own
    assert (
        event_values(batches(wire.packets, []))
        == event_values(batches(wire.packets, [1] * 99))
        == event_values(batches(wire.packets, [3] * 99))
    )


def test_a_hole_acknowledged_late_stands_where_that_was_and_its_messages_keep_their_packets() -> None:
    wire = Wire()
    holed, other = Tcp(wire, source="10.0.0.2:50000").open(), Tcp(wire).open()
    for tcp in (holed, other):
        heartbeats(wire, tcp, 1, 1, 0.001)
    missing = metadata(2)
    holed.seq[0] += len(missing)
    holed.client(metadata(3))
    own = len(wire.packets)
    heartbeats(wire, other, 2, 5, 0.1)
    holed.broker(answer(3))
    heartbeats(wire, other, 7, 5, 0.1)
    events = [event for page in Engine().pages(batches(wire.packets, [])) for event in page]
    (gap,) = [event for event in events if isinstance(event, Gap)]
    (asked,) = [event for event in events if isinstance(event, Message) and event.packet == own]
    before = [event.packet for event in events[: events.index(asked)] if isinstance(event, Message)]
    assert events.index(gap) < events.index(asked)
    assert max(before) > own
    assert asked.time_ns == wire.packets[own - 1].time_ns
    assert event_values(batches(wire.packets, [])) == event_values(batches(wire.packets, [1] * 99))
