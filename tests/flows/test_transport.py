"""Round trips: a few counters for any number of times."""

from __future__ import annotations

from statistics import median_low

from hypothesis import given
from hypothesis import strategies as st

from kshark.transport import RoundTrips


@given(times=st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_least_and_greatest_are_exact_and_the_median_is_near(times: list[int]) -> None:
    trips = RoundTrips()
    for ns in times:
        trips.add(ns)
    assert (trips.count, trips.least, trips.greatest) == (len(times), min(times), max(times))
    assert trips.median is not None
    assert abs(trips.median - median_low(times)) <= median_low(times) / 16


def test_none_was_seen() -> None:
    assert RoundTrips().median is None
