"""Ranges of offsets come to the same as one value an offset."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshark.offset_ranges import OffsetRanges, Ranged

OFFSETS = st.integers(0, 30)
VALUES = ["a", "b", "c"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "change", "improve"]), OFFSETS, OFFSETS, st.sampled_from(VALUES)),
    max_size=30,
)


def _after(told: list[int], old: str, begin: int, end: int) -> str:
    told += range(begin, end + 1)
    return VALUES[VALUES.index(old) - 1] if old != "a" else old


@given(STEPS, OFFSETS, OFFSETS)
def test_the_same_as_one_value_an_offset(steps: list[tuple[str, int, int, str]], first: int, last: int) -> None:
    ranges, single = OffsetRanges[str](), dict[int, str]()
    for what, begin, end, value in steps:
        offsets = range(begin, end + 1)
        if what == "put":
            ranges.put(begin, end, value)
            single |= dict.fromkeys(offsets, value)
        elif what == "drop":
            ranges.drop(begin, end)
            single = {offset: kept for offset, kept in single.items() if offset not in offsets}
        elif what == "improve":
            ranges.improve(begin, end, value, ord)
            single |= {offset: max(single.get(offset, value), value) for offset in offsets}
        else:  # each gets the one before, but for the first
            known, told = [offset for offset in offsets if offset in single], list[int]()
            changes = any(single[offset] != "a" for offset in known)
            assert ranges.change(begin, end, partial(_after, told)) == (len(known), changes)
            assert told == known
            single |= {offset: _after([], single[offset], 0, 0) for offset in known}
    assert {offset: one.value for one in ranges for offset in range(one.first, one.last + 1)} == single
    assert [ranges.at(offset) for offset in range(31)] == [single.get(offset) for offset in range(31)]
    found = [(offset, one.value) for one in ranges.over(first, last) for offset in range(one.first, one.last + 1)]
    assert found == [(offset, single[offset]) for offset in range(first, last + 1) if offset in single]
    missing = [offset for begin, end in ranges.gaps(first, last) for offset in range(begin, end + 1)]
    assert missing == [offset for offset in range(first, last + 1) if offset not in single]
    neighbours = [*ranges]
    assert all(one.last + 1 < two.first or one.value != two.value for one, two in pairwise(neighbours))


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "put", "put", "drop", "forget"]), OFFSETS, OFFSETS, st.booleans()),
        max_size=40,
    )
)
def test_whether_one_has_no_value_whatever_was_asked_before(steps: list[tuple[str, int, int, bool]]) -> None:
    ranges = OffsetRanges[str]()
    for number, (what, begin, size, is_asked) in enumerate(steps):
        if what == "put":
            ranges.put(begin, begin + size % 4, VALUES[number % 2])
        elif what == "drop":
            ranges.drop(begin, begin + size % 4)
        elif len(ranges) > 0:
            ranges.forget(1 + size % len(ranges))
        if is_asked:
            assert ranges.is_gapless() is not any(
                ranges.gaps(ranges.first or 0, ranges.last or 0) if len(ranges) else ()
            )


def test_what_was_forgotten_is_missing_where_it_lies_between_others_again() -> None:
    ranges = OffsetRanges[str]()
    ranges.put(0, 4, "a")
    assert ranges.is_gapless()
    ranges.put(6, 9, "b")
    ranges.forget(1)
    ranges.put(5, 5, "a")
    ranges.put(2, 2, "a")
    assert not ranges.is_gapless()


def test_ends_of_what_is_known() -> None:
    ranges = OffsetRanges[str]()
    assert (ranges.first, ranges.last, len(ranges)) == (None, None, 0)
    ranges.put(5, 9, "a")
    ranges.put(20, 29, "b")
    assert (ranges.first, ranges.last, len(ranges)) == (5, 29, 2)
    ranges.keep(2)
    assert ranges.forget(1) == 9
    (left,) = ranges
    assert (left, left.size) == (Ranged(20, 29, "b"), 10)
    ranges.clear()
    assert [*ranges] == []
