"""The time that ticks prove."""

from __future__ import annotations

import pytest

from kshark.link import Link
from kshark.model import Tick, Weird
from tests.packets import Tcp, Wire, batch

MS = 1_000_000


def link() -> tuple[Link, int]:
    """After some packets: the stage, and the time of the last one."""
    wire = Wire()
    Tcp(wire).open()
    stage = Link()
    stage.feed(batch(wire.packets))
    return stage, wire.packets[-1].time_ns


def passes(*ms: int) -> list[int | None]:
    """The times of ticks that prove something, in ms after the last packet; None for the others."""
    stage, begin_ns = link()
    ticks = [stage.tick(Tick(begin_ns + time * MS))[0] for time in ms]
    return [None if tick is None else (tick.time_ns - begin_ns) // MS for tick in ticks]


@pytest.mark.parametrize(
    ("ticks", "proved"),
    [
        ((250, 500, 750), [250, 500, 750]),
        ((499, 998), [499, 998]),
        ((0, -250, -1, 250), [None, None, None, 250]),
        ((500,), [None]),
        ((3_600_000,), [None]),
        ((250, 3_600_000, 3_600_250, 3_600_500), [250, None, 500, 750]),
        ((250, 3_600_000, 500, 750), [250, None, None, 500]),
        ((250, -3_600_000, -3_599_750), [250, None, None]),
        ((250, 250), [250, None]),
    ],
    ids=[
        "each a little later",
        "nearly too far",
        "not after the last packet",
        "too far",
        "an hour later",
        "after a step forward",
        "after a step forward and back",
        "after a step back",
        "twice the same",
    ],
)
def test_time_goes_on_with_ticks_that_are_close_together(ticks: tuple[int, ...], proved: list[int | None]) -> None:
    assert passes(*ticks) == proved


def test_a_tick_before_any_packet_proves_nothing() -> None:
    assert Link().tick(Tick(1)) == (None, [])


def test_the_next_packet_is_not_earlier() -> None:
    stage, begin_ns = link()
    stage.tick(Tick(begin_ns + 250 * MS))
    wire = Wire(time_ns=begin_ns + 100 * MS)
    Tcp(wire, source="10.0.0.1:50001").open()
    segments, _ = stage.feed(batch(wire.packets, 4))
    assert segments is not None
    assert {*segments.clock_ns.tolist()} == {begin_ns + 250 * MS}
    assert segments.time_ns[0] == begin_ns + 100 * MS


def test_dropped_packets_are_said_at_once_and_a_tick_proves_nothing_of_them() -> None:
    stage, begin_ns = link()
    drop = Weird("PACKETS_DROPPED", "capture", 3, begin_ns, "7 packets")
    stage.feed(drop)
    assert stage.tick(Tick(begin_ns + 250 * MS)) == (None, [drop])
    assert stage.tick(Tick(begin_ns + 500 * MS)) == (None, [])
    assert stage.end.clock_ns == begin_ns + 500 * MS
    wire = Wire(time_ns=begin_ns + 600 * MS)
    Tcp(wire, source="10.0.0.1:50001").open()
    stage.feed(batch(wire.packets, 4))
    tick, _ = stage.tick(Tick(begin_ns + 700 * MS))
    assert tick is not None
