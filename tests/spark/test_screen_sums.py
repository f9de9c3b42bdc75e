"""Which partitions sums tell to be plain: never one of which their ranges, one after the other, tell something else."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

pytestmark = pytest.mark.spark

_COLUMNS: Final = "group bigint, key bigint, member bigint, kind tinyint, first bigint, last bigint, packet bigint, odd boolean"
_HANDED, _TAKEN = 0, 1
_WINDOW: Final = 100

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


def test_sums_pass_none_that_is_not_plain_in_order(spark: Any) -> None:
    from pyspark.sql import functions as F

    from spark_analysis.screen.records import not_plain, not_plain_in_order
    from spark_analysis.screen.sums import to_look_at

    dice = random.Random(1)
    number = 1_500
    rows = []
    for key in range(number):
        ranges = plain(dice)
        for _ in range(dice.choice((0, 1, 1, 2, 3))):
            ranges = slipped(dice, ranges) or ranges
        rows += [(key, key, member, kind, first, last, packet, False) for kind, member, first, last, packet in ranges]
    made = spark.createDataFrame(rows, _COLUMNS).cache()
    looked_at = {key for (key,) in to_look_at(made, F.col("kind") == _HANDED, _WINDOW).collect()}
    suspicious = {group for (group,) in not_plain_in_order(made, _WINDOW).collect()}
    assert suspicious <= looked_at
    assert {group for (group,) in not_plain(made, _WINDOW).collect()} == suspicious
    assert len(suspicious) > number / 3
    assert number - len(looked_at) > (number - len(suspicious)) / 2, "sums that tell nothing"


def test_what_overlaps_where_as_much_is_left_out_is_looked_at(spark: Any) -> None:
    """As many offsets as there are, and none that begins where another does."""
    from pyspark.sql import functions as F

    from spark_analysis.screen.sums import to_look_at

    ranges = [(1, 1, 1, _HANDED, first, last, packet, False) for packet, (first, last) in enumerate([(0, 9), (5, 14), (20, 29)])]
    ranges += [(2, 2, 1, _HANDED, first, last, packet, False) for packet, (first, last) in enumerate([(0, 9), (10, 19), (20, 29)])]
    made = spark.createDataFrame(ranges, _COLUMNS)
    assert [key for (key,) in to_look_at(made, F.col("kind") == _HANDED, _WINDOW).collect()] == [1]
