"""What is told of many: the first, the tenth, the hundredth."""

from __future__ import annotations

from unittest.mock import patch

from kshark import limits
from kshark.analysis.runners.rate_limit import Decades


def test_told_are_the_first_the_tenth_the_hundredth() -> None:
    decades = Decades()
    assert [count for count in range(1, 1001) if decades.is_due("a")] == [1, 10, 100, 1000]


def test_each_is_counted_for_itself() -> None:
    decades = Decades()
    assert [decades.is_due(key) for key in ("a", "b", "a", "b", "c")] == [True, True, False, False, True]


def test_who_was_not_heard_of_for_longest_begins_anew() -> None:
    decades = Decades()
    with patch.object(limits, "RATIONED", 2):
        assert [decades.is_due(key) for key in ("a", "b", "a", "c", "a", "b")] == [True, True, False, True, False, True]


def test_some_are_told_several_times_before() -> None:
    decades = Decades()
    assert [count for count in range(1, 1001) if decades.is_due("a", 3)] == [1, 2, 3, 10, 100, 1000]
