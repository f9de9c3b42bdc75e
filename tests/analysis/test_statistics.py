"""What a capture holds, counted."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis.statistics import OTHERS, Percentiles, Statistics
from kshark.registry import Registry
from tests.conversation import Conversation, events

REGISTRY = Registry()


def counted(talk: Conversation) -> Statistics:
    statistics = Statistics(REGISTRY)
    for event in events(talk):
        statistics.feed(event)
    return statistics


def test_percentiles_are_the_nearest_rank() -> None:
    measured = Percentiles()
    for milliseconds in range(1, 101):
        measured.add(milliseconds * 1_000_000)
    assert measured.summary() == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


def test_nothing_measured_has_no_percentiles() -> None:
    assert Percentiles().summary() is None


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=300), st.sampled_from([1, 50, 95, 99, 100]))
def test_percentiles_are_right_to_three_digits(durations: list[int], percent: int) -> None:
    measured = Percentiles()
    for duration in durations:
        measured.add(duration)
    exact = sorted(durations)[max(1, -(-len(durations) * percent // 100)) - 1]
    (found,) = measured.at(percent)
    assert abs(found - exact) <= exact * 0.005 + 1
    assert found <= measured.greatest == max(durations)


@given(st.lists(st.integers(0, 10**13), max_size=300))
def test_memory_does_not_grow_with_the_number_of_durations(durations: list[int]) -> None:
    measured = Percentiles()
    for duration in durations:
        measured.add(duration)
    assert len(measured._counts) <= 14 * 1000


def test_a_request_without_an_answer_is_counted_as_open() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0])
    a.connection.close()
    (fetch,) = [api for api in counted(talk).summary()["apis"] if api["api"] == "ShareFetch"]
    assert (fetch["requests"], fetch["responses"], fetch["unanswered"], fetch["latency_ms"]) == (1, 0, 1, None)


def test_each_type_of_acknowledgement_counts_records() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_acknowledge(1, [(0, 9, 1), (10, 10, 2), (11, 12, 3), (13, 13, 0)]).answered()
    (group,) = counted(talk).summary()["share_groups"]
    assert group["acknowledged"] == {"gap": 1, "accept": 10, "release": 1, "reject": 2, "renew": 0}


def test_groups_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATISTICS_ROWS", 2)
    talk = Conversation()
    for number in range(5):
        talk.member("a", group=f"g{number}").share_fetch(0, [0]).answered()
    found = counted(talk).summary()
    assert {group["group_id"]: group["fetches"] for group in found["share_groups"]} == {"g0": 1, "g1": 1, OTHERS: 3}
    assert sum(Counter({api["api"]: api["requests"] for api in found["apis"]}).values()) == 15
