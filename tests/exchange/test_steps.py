"""How often requests that wait for their answer are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest

from tests.exchange.test_stage import Talk, answer, metadata
from tests.test_guard import counting

#: Of `count` requests on one connection: the correlation ids asked with, and those answered with behind the last
#: request.
Ids = tuple[Iterable[int], Iterable[int]]


def answered_in_reverse(count: int) -> Ids:
    return range(count), reversed(range(count))


def falling(count: int) -> Ids:
    return range(count, 0, -1), ()


def falling_and_answered_in_reverse(count: int) -> Ids:
    return range(count, 0, -1), range(1, count + 1)


def falling_and_answered_in_order(count: int) -> Ids:
    return range(count, 0, -1), range(count, 0, -1)


def falling_and_others_answered(count: int) -> Ids:
    return range(2 * count, 0, -2), range(1, 2 * count, 2)


def in_any_order(count: int) -> Ids:
    mixed = list(range(count))
    Random(1).shuffle(mixed)
    return mixed, sorted(mixed, key=lambda number: -number % 7)


def each_used_twice(count: int) -> Ids:
    twice = [*range(count // 2, 0, -1)] * 2
    return twice, twice


def always_the_same(count: int) -> Ids:
    return [7] * count, [7] * count


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize(
    "ids",
    [
        answered_in_reverse,
        falling,
        falling_and_answered_in_reverse,
        falling_and_answered_in_order,
        falling_and_others_answered,
        in_any_order,
        each_used_twice,
        always_the_same,
    ],
)
def test_a_message_costs_no_more_where_many_requests_are_open(ids: Callable[[int], Ids]) -> None:
    def steps(count: int) -> float:
        talk = Talk()
        asked, answered = map(list, ids(count))
        talk.tcp.client(b"".join(map(metadata, asked)))
        talk.tcp.broker(b"".join(map(answer, answered)))
        with counting() as counts:
            exchanges = talk.exchanges()
        told = [("answered", number, number) if number in asked else ("orphan", None, number) for number in answered]
        assert exchanges == [*told, *(("unanswered", number, None) for number in asked if number not in answered)]
        return counts.total() / len(exchanges)

    steps(10)  # decoders are compiled
    assert steps(800) < 1.2 * steps(100)
