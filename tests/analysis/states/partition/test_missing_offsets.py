"""What ranges that are handed out lack, by the spans of the answer's records."""

from __future__ import annotations

import pytest

from kshark.analysis.states.partition.missing_offsets import between, lacking, recorded

SPANS = [(0, 4, "data"), (5, 5, "control"), (8, 9, "data"), (10, 19, "holed"), (20, 29, "data")]


@pytest.mark.parametrize(
    ("first", "last", "lacks"),
    [
        (0, 4, []),
        (4, 8, [(5, 5, "control"), (6, 7, "missing")]),
        (6, 7, [(6, 7, "missing")]),
        (9, 12, [(10, 12, "holed")]),
        (25, 35, [(30, 35, "outside")]),
        (40, 41, [(40, 41, "outside")]),
        (0, 31, [(5, 5, "control"), (6, 7, "missing"), (10, 19, "holed"), (30, 31, "outside")]),
    ],
)
def test_each_offset_has_a_record_or_is_lacking(first: int, last: int, lacks: list[tuple[int, int, str]]) -> None:
    assert list(lacking(SPANS, first, last) or ()) == lacks
    assert lacking([[*one] for one in SPANS], first, last) == lacking(
        SPANS, first, last
    )  # as they come back from tables


def test_before_the_first_batch_is_outside_too() -> None:
    assert lacking([(5, 9, "data")], 0, 9) == [(0, 4, "outside")]
    assert lacking([(5, 9, "data")], 0, 2) == [(0, 2, "outside")]


def test_what_is_not_read_to_its_end_may_hold_anything() -> None:
    assert lacking([(5, 9, "data"), (20, 29, "unread")], 0, 35) == [
        (0, 4, "unread"),
        (10, 19, "unread"),
        (20, 29, "unread"),
        (30, 35, "unread"),
    ]
    assert lacking([(5, 9, "data"), (20, 29, "unread")], 5, 9) == ()


def test_of_records_that_nobody_looked_at_nothing_is_known() -> None:
    assert lacking(None, 0, 9) is None
    assert lacking([], 0, 9) is None


def test_the_first_offsets_with_a_record() -> None:
    lacks = lacking(SPANS, 0, 31) or ()
    assert [recorded(lacks, *ends) for ends in ((0, 31), (3, 31), (5, 9), (5, 7), (10, 19), (15, 22), (30, 31))] == [
        (0, 4), (3, 4), (8, 9), None, None, (20, 22), None,
    ]  # fmt: skip
    assert recorded((), 3, 7) == (3, 7)


def test_they_are_cut_off() -> None:
    assert between(lacking(SPANS, 0, 31) or (), 7, 11) == [(7, 7, "missing"), (10, 11, "holed")]
