"""Which partitions are told to be plain by pieces: never one of which its ranges, one after the other, tell something
else."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from kshark_spark.screen.numbers import numbers, xxhash64
from kshark_spark.screen.pieces import NONE, Pieces, joined, not_plain, step_of, together

_HANDED, _TAKEN = 0, 1
_WINDOW: Final = 100
_LAST: Final = (1 << 63) - 1

#: Kind, member, first and last offset, packet.
Range = tuple[int, int, int, int, int]


def plain(dice: random.Random) -> list[Range]:
    """Two members, each handed what comes next; it is accepted soon, or never at the end."""
    found: list[Range] = []
    first, packet = dice.choice((0, 0, 7_000, 1 << 40)), 1
    waiting: list[Range] = []
    for _ in range(dice.randint(1, 40)):
        last, member = first + dice.randint(0, 19), dice.randint(1, 2)
        waiting.append((_HANDED, member, first, last, packet))
        found.append(waiting[-1])
        first, packet = last + 1, packet + dice.randint(1, 2)
        while waiting and (len(waiting) > 2 or dice.random() < 0.5):
            _, member, begin, end, _ = waiting.pop(0 if len(waiting) > 2 else dice.randrange(len(waiting)))
            found.append((_TAKEN, member, begin, end, packet))
            packet += 1
    return found


def slipped(dice: random.Random, ranges: list[Range]) -> list[Range]:
    """One of them is lost, comes twice, or is something else."""
    at = dice.randrange(len(ranges))
    kind, member, first, last, packet = ranges[at]
    near = dice.choice((-300, -40, -20, -5, -1, 1, 5, 20, 40, 300))
    others: tuple[list[Range], ...] = (
        [],
        [ranges[at], ranges[at]],
        [ranges[at], (kind, member, first + near, last + near, packet + abs(near))],
        [(kind, member, first + near, last + near, packet)],
        [(kind, member, first + near, last, packet)],
        [(kind, member, first, last + near, packet)],
        [(kind, 3 - member, first, last, packet)],
        [(kind, member, first, last, packet + near)],
        [(1 - kind, member, first, last, packet)],
    )
    return ranges[:at] + dice.choice(others) + ranges[at + 1 :]


def pieces_of(rows: Sequence[tuple[int, Range]]) -> Pieces:
    """As they are read: what was acquired stands before what was acknowledged."""
    rows = sorted(rows, key=lambda row: row[1][0])
    none = np.zeros(len(rows), np.int64)
    keys, kinds, members, first, last, packet = (
        np.array([(key, *range_) for key, range_ in rows], np.int64).reshape(-1, 6).T
    )
    acquired, acknowledged = (np.where(kinds == kind, packet, NONE) for kind in (_HANDED, _TAKEN))
    return Pieces(keys, keys, members, first, last, acquired, acknowledged, none, none, none != 0)


def looked_at(parts: Sequence[Pieces]) -> set[int]:
    """By those who have a part each, and then one who has all that they left."""
    step = step_of(_WINDOW)
    partitions, found = not_plain(joined(together([joined(part, step) for part in parts]), step), _WINDOW)
    return {*partitions.key[found].tolist()}


def suspicious(spark: Any, pieces: Pieces) -> set[int]:
    """By their ranges, one after the other."""
    from kshark_spark.screen.records import not_plain_in_order

    frame = spark.createDataFrame(pa.Table.from_arrays([pa.array(column) for column in pieces], [*Pieces._fields]))
    return {group for (group,) in not_plain_in_order(frame, _WINDOW).collect()}


@pytest.mark.spark
def test_pieces_pass_none_that_is_not_plain_in_order(spark: Any) -> None:
    """However the ranges are shared out."""
    dice = random.Random(1)
    number = 3_000
    rows: list[tuple[int, Range]] = []
    for key in range(number):
        ranges = plain(dice)
        for _ in range(dice.choice((0, 1, 1, 2, 3))):
            ranges = slipped(dice, ranges) or ranges
        rows += [(key, range_) for range_ in ranges]
    found = looked_at([pieces_of(rows)])
    expected = suspicious(spark, pieces_of(rows))
    assert expected <= found
    assert len(expected) > number / 3
    assert number - len(found) > (number - len(expected)) / 2, "pieces that tell nothing"
    in_time = sorted(rows, key=lambda row: row[1][4])
    for parts in (in_time[::2], in_time[1::2]), (in_time[:4_000], in_time[4_000:20_000], [], in_time[20_000:]):
        assert looked_at([pieces_of(part) for part in parts]) == found
    shared = defaultdict[int, list[tuple[int, Range]]](list)
    for row in rows:
        shared[dice.randrange(5)].append(row)
    assert looked_at([pieces_of(part) for part in shared.values()]) == found


def test_plain_ranges_become_few() -> None:
    """One for each step of offsets, and those that wait for an answer."""
    ranges = [(0, 1, 1, first, first + 9, packet) for packet, first in enumerate(range(0, 10_050, 10), 1)]
    rows = [
        (1, (kind, member, first, last, 2 * packet + kind))
        for kind in (_HANDED, _TAKEN)
        for _, _, member, first, last, packet in ranges
    ]
    found = joined(pieces_of(rows[:-1]), 8)
    assert len(found.key) == 10_050 // 256 + 2
    assert (found.first[-1], found.last[-1], found.acknowledged[-1]) == (10_040, 10_049, NONE)
    assert looked_at([pieces_of(rows[:-1])]) == set()


@pytest.mark.parametrize(
    "ranges",
    [
        pytest.param(
            [(_HANDED, 1, 0, 9, 1), (_HANDED, 1, 5, 14, 2), (_HANDED, 1, 20, 29, 3)], id="an overlap as long as a hole"
        ),
        pytest.param([(_HANDED, 1, 0, 9, 1), (_HANDED, 1, 20, 29, 3)], id="a hole"),
        pytest.param([(_TAKEN, 1, 0, 9, 1)], id="never acquired"),
        pytest.param([(_HANDED, 1, 0, 9, 2), (_TAKEN, 1, 0, 9, 1)], id="acknowledged before"),
        pytest.param([(_HANDED, 1, 0, 9, 2), (_TAKEN, 1, 0, 9, 2)], id="acknowledged in the same packet"),
        pytest.param([(_HANDED, 1, 0, 9, 1), (_TAKEN, 2, 0, 9, 2)], id="acknowledged by another"),
        pytest.param([(_HANDED, 1, 0, 9, 1), (_TAKEN, 1, 0, 9, 2), (_TAKEN, 1, 0, 9, 3)], id="acknowledged twice"),
        pytest.param([(_HANDED, 1, 0, 9, 1), (_HANDED, 1, 0, 9, 2), (_TAKEN, 1, 0, 9, 3)], id="acquired twice"),
        pytest.param([(_HANDED, 1, 0, 9, 1), (_TAKEN, 1, 0, 4, 2), (_TAKEN, 1, 5, 9, 3)], id="acknowledged in parts"),
        pytest.param([(_HANDED, 1, 0, 99, 1)], id="as many in flight as the window has"),
        pytest.param(
            [(_HANDED, 1, 0, 9, 1), (_HANDED, 1, 10, 99, 2), (_TAKEN, 1, 0, 9, 9), (_HANDED, 1, 100, 109, 3)],
            id="acknowledged too late",
        ),
        pytest.param([(_HANDED, 1, -10, -1, 1)], id="below zero"),
        pytest.param(
            [(_HANDED, 1, 0, _LAST, 1), (_TAKEN, 1, 0, _LAST, 2), (_HANDED, 1, 7, 9, 3)],
            id="to the last offset there is",
        ),
        pytest.param([(_HANDED, 1, 0, 9, 1 << 50)], id="a packet beyond all"),
    ],
)
def test_what_is_looked_at(ranges: list[Range]) -> None:
    other = [
        (2, (_HANDED, 1, first, first + 9, packet))
        for packet, first in enumerate(range(1 << 41, (1 << 41) + 50, 10), 1)
    ]
    rows = [(1, range_) for range_ in ranges] + other
    assert looked_at([pieces_of(rows)]) == {1}
    assert looked_at([pieces_of([row]) for row in rows]) == {1}


@pytest.mark.spark
def test_groups_and_members_have_the_numbers_that_sql_gives_them(spark: Any) -> None:
    from pyspark.sql import functions as F

    dice = random.Random(2)
    rows = [
        tuple(
            None if dice.random() < 0.1 else "".join(dice.choices("ab\u00e9\u20ac\U00010348 ", k=dice.randint(0, 90)))
            for _ in "abc"
        )
        for _ in range(300)
    ]
    rows += rows[:40]
    expected = [
        number
        for (number,) in spark.createDataFrame(rows, "a string, b string, c string").select(F.xxhash64("*")).collect()
    ]
    assert [xxhash64(*row) for row in rows] == expected
    columns = [pa.chunked_array([pa.array(column).dictionary_encode()]) for column in zip(*rows, strict=True)]
    assert numbers(*columns).tolist() == expected
    assert numbers(*(column[:0] for column in columns)).tolist() == []
