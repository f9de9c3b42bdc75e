"""At most so many series; counters never go backwards, and lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.live.metrics.families import BUCKETS, OTHER, Family, Key, Series, Values
from kshark.live.metrics.limited import HISTOGRAM_SERIES, MOST, Limiter

A = Family("a", "counter", "", ("x",))
B = Family("b", "gauge", "", ("x", "y"))
H = Family("h", "histogram", "", ("x",))
LEFT_OUT = Family("kshark_series_left_out", "gauge", "", ("family",))
REST: Key = (OTHER,)


def counted(**totals: float) -> Series:
    return {"a": {(name,): (value,) for name, value in totals.items()}}


def shown(limiter: Limiter, **totals: float) -> dict[str, float]:
    return {key[0]: values[0] for key, values in limiter.limit(counted(**totals))["a"].items()}


def test_the_largest_are_kept_and_the_rest_is_summed() -> None:
    limiter = Limiter((A, LEFT_OUT), most=5)
    assert shown(limiter, p=1, q=2, r=9, s=8) == {"r": 9, "s": 8, OTHER: 3}
    assert limiter.limit(counted(p=1, q=2, r=9, s=8))["kshark_series_left_out"] == {("a",): (2,)}


def test_a_series_that_becomes_large_takes_the_place_of_another_and_counts_from_then_on() -> None:
    limiter = Limiter((A, LEFT_OUT), most=5)
    assert shown(limiter, p=1, q=2, r=9, s=8) == {"r": 9, "s": 8, OTHER: 3}
    assert shown(limiter, p=1, q=15, r=9, s=8) == {"r": 9, "s": 8, OTHER: 16}  # not twice as large: it stays hidden
    assert shown(limiter, p=1, q=20, r=9, s=8) == {"r": 9, "q": 5, OTHER: 16}
    assert shown(limiter, p=1, q=21, r=9, s=10) == {"r": 9, "q": 6, OTHER: 18}  # what s counts is among the others
    assert shown(limiter, p=1, q=21, r=9, s=50) == {"q": 6, "s": 48, OTHER: 18}


def test_a_series_that_comes_back_goes_on_from_its_value() -> None:
    limiter = Limiter((A, LEFT_OUT), most=4)
    assert shown(limiter, p=5) == {"p": 5}
    assert shown(limiter, p=5, q=20, r=1) == {"q": 20, OTHER: 1}
    assert shown(limiter, p=50, q=20, r=1) == {"p": 50, OTHER: 1}
    assert shown(limiter, p=51, q=200, r=1) == {"q": 200, OTHER: 2}


def test_a_total_that_begins_anew_is_no_decrease() -> None:
    limiter = Limiter((A, LEFT_OUT))
    assert shown(limiter, p=10) == {"p": 10}
    assert shown(limiter, p=3) == {"p": 13}
    assert shown(limiter) == {}
    assert shown(limiter, p=4) == {"p": 4}


def test_a_real_series_with_the_name_of_the_others_is_one_of_them() -> None:
    """A group may have any name: no sample may come twice."""
    limiter = Limiter((A, LEFT_OUT), most=4)
    assert shown(limiter, other=7, p=5) == {"p": 5, OTHER: 7}
    assert shown(limiter, other=8, p=5, q=20, r=1) == {"q": 20, OTHER: 9}


def test_gauges_are_left_out_from_the_end() -> None:
    limiter = Limiter((B, LEFT_OUT), most=4)
    series: Series = {"b": {("g", str(number)): (9 - number,) for number in range(5)}}
    assert limiter.limit(series) == {
        "b": {("g", "0"): (9,), ("g", "1"): (8,)},
        "kshark_series_left_out": {("b",): (3,)},
    }


def test_families_that_need_little_leave_their_part_to_the_others() -> None:
    limiter = Limiter((A, B, H, LEFT_OUT))
    buckets = (1.0, 0.5, *(0.0,) * (len(BUCKETS) + 1))
    series: Series = {
        "a": {(str(number),): (1.0,) for number in range(5_000)},
        "b": {("g", "0"): (1.0,)},
        "h": {(str(number),): buckets for number in range(20)},
    }
    found = limiter.limit(series)
    assert len(found["h"]) == 20
    assert size(found) <= MOST
    assert size(found) > MOST - 20
    assert found["a"][REST] == (5_000 - (len(found["a"]) - 1),)


def size(series: Series) -> int:
    return sum(len(keys) * (HISTOGRAM_SERIES if name == "h" else 1) for name, keys in series.items())


#: What is counted between two scrapes: increments by key.
_STEPS = st.lists(st.dictionaries(st.integers(0, 12).map(str), st.integers(0, 50), max_size=8), max_size=12)


@settings(deadline=None)
@given(_STEPS, st.integers(4, 12))
def test_no_series_goes_backwards_and_no_increase_is_lost_or_counted_twice(
    steps: Sequence[dict[str, int]], most: int
) -> None:
    limiter = Limiter((A, LEFT_OUT), most)
    totals = Counter[str]()
    values: dict[Key, float] = {}
    increases = 0.0
    for step in steps:
        totals.update(step)
        found = limiter.limit(counted(**totals))
        assert size(found) <= most
        for key, (value,) in found["a"].items():
            increases += value - values.get(key, 0)
            assert value >= values.get(key, 0)
            values[key] = value
        assert increases == totals.total()


@given(st.dictionaries(st.integers(0, 200).map(str), st.integers(1, 9), max_size=150))
def test_histograms_are_limited_whole(counts: dict[str, int]) -> None:
    limiter = Limiter((H, LEFT_OUT), 300)

    def values(count: int) -> Values:
        return (count, count * 0.5, *(0.0,) * len(BUCKETS), count)

    found = limiter.limit({"h": {(name,): values(count) for name, count in counts.items()}})
    assert size(found) <= 300
    assert sum(each[0] for each in found["h"].values()) == sum(counts.values())
    assert all(each == values(int(each[0])) for each in found["h"].values())
