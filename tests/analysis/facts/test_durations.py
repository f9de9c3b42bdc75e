"""Durations between packets, and what the clock leaves of them."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST, AT_MOST, LOCK_DURATION, Basis, Lasted, Shown, resolution_ns
from kshark.analysis.facts.clock import Durations, Elapsed, PacketTime
from kshark.link.disorder import acked_unseen, disorder
from kshark.model import Weird

S = 1_000_000_000
FIRST, LAST = PacketTime(10, 100 * S), PacketTime(20, 130 * S)


def clock(code: str, packet: int, first: int | None = None, by_ns: int | None = None, time_ns: int = 0) -> Weird:
    return Weird(code, "link", packet, time_ns, "", first_packet=first, by_ns=by_ns)


def after(*weirds: Weird) -> Elapsed:
    durations = Durations()
    for weird in weirds:
        durations.note(weird)
    return durations.elapsed(FIRST, LAST)


def test_a_clock_without_doubt_proves_what_it_measures() -> None:
    assert after() == Elapsed(30 * S, 30 * S)
    assert after().is_at_least(30 * S)
    assert after().is_below(31 * S)


@pytest.mark.parametrize(
    ("weirds", "elapsed"),
    [
        ([clock("CLOCK_STEP", 15, 14, -20 * S)], Elapsed(30 * S, None)),
        ([clock("CLOCK_STEP", 15, 14, 20 * S)], Elapsed(10 * S, None)),
        ([clock("CLOCK_STEP", 15, 14, 50 * S)], Elapsed(0, None)),
        ([clock("CLOCK_STEP", 10, 9, 20 * S)], Elapsed(30 * S, 30 * S)),
        ([clock("CLOCK_STEP", 21, 20, 20 * S)], Elapsed(30 * S, 30 * S)),
        ([clock("SILENCE_UNPROVED", 15, 14, 25 * S)], Elapsed(5 * S, None)),
        (
            [clock("SILENCE_UNPROVED", 15, 14, 25 * S), clock("SILENCE_PROVED", 16, 15)],
            Elapsed(30 * S, 30 * S),
        ),
        (
            [clock("CLOCK_STEP", 15, 14, 25 * S), clock("SILENCE_PROVED", 16, 15)],
            Elapsed(5 * S, None),
        ),
        ([clock("CLOCK_STOPPED", 15, 14, time_ns=100 * S)], Elapsed(0, None)),
        ([clock("CLOCK_STOPPED", 15, 14, time_ns=S)], Elapsed(30 * S, 30 * S)),
        ([disorder(15, 0, S // 10)], Elapsed(30 * S - S // 10, 30 * S + S // 10)),
        ([acked_unseen(0, 0, 15, 0, 14, S)], Elapsed(29 * S, 31 * S)),
        ([Weird("NOT_TCP", "link", 15, 0)], Elapsed(30 * S, 30 * S)),
    ],
)
def test_doubts_between_two_packets(weirds: list[Weird], elapsed: Elapsed) -> None:
    assert after(*weirds) == elapsed


def test_many_doubts_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOCK_DOUBTS", 4)
    durations = Durations()
    for packet in range(12, 40):
        durations.note(clock("CLOCK_STEP", packet, packet - 1, S))
    assert durations.elapsed(FIRST, LAST).most_ns is None
    assert durations.elapsed(PacketTime(50, 0), PacketTime(60, S)) == Elapsed(S, S)


@pytest.mark.parametrize(
    ("basis", "bound_ns", "resolution", "because"),
    [
        (AT_MOST, 30 * S, 1, None),
        (AT_MOST, 30 * S, S, "clock"),
        (AT_MOST, 31 * S, S, None),
        (AT_MOST, 29 * S, 1, "clock"),
        (AT_LEAST, 30 * S, 1, None),
        (AT_LEAST, 30 * S, S, "clock"),
        (AT_LEAST, 29 * S, S, None),
        (AT_LEAST, S, None, "clock"),
    ],
)
def test_a_bound_is_proved_with_the_resolution_of_the_times(
    basis: Basis, bound_ns: int, resolution: int | None, because: str | None
) -> None:
    assert Lasted(Durations(), FIRST, LAST, basis, bound_ns).weakness(resolution) == because


def test_the_resolution_of_times() -> None:
    assert resolution_ns([0, 0]) is None
    assert resolution_ns([7, 7]) is None
    assert resolution_ns([0, 2 * S]) == S
    assert resolution_ns([0, 5_000_000]) == 1_000_000
    assert resolution_ns([0, 5_000]) == 1_000
    assert resolution_ns([0, 5]) == 1


def test_a_setting_that_is_not_shown_proves_nothing() -> None:
    assert Shown(LOCK_DURATION, is_shown=False).weakness(1) == "setting_unknown"
    assert Shown(LOCK_DURATION, is_shown=True).weakness(1) is None
