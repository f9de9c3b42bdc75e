"""Times of day one behind the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshark.output.clock import Clock
from kshark.units import clock

TIMES = st.integers(0, 2**63 - 1) | st.integers(1_795_262_586_000_000_000, 1_795_262_589_000_000_000)


@given(st.lists(TIMES, max_size=8))
def test_it_goes_as_the_clock_that_starts_anew_each_time(times: list[int]) -> None:
    running = Clock()
    assert [running.at(time) for time in times] == [clock(time) for time in times]
