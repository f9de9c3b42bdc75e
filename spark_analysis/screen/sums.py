"""Which partitions are plain already by sums, so that nobody has to sort their ranges and look at one after the other.

Those whose acquired ranges follow one another without hole or overlap, each acknowledged by the same range or not at all, by the member
that it was handed to and afterwards. All others are looked at (spark_analysis.screen.records).

Ranges fill a stretch once where as many begin at each offset as end before it, but for the first and the last: there the hashes of all
beginnings less those of all ends are the first's less the last's. All else is compared, range by range, by the numbers of partition and
member (spark_analysis.screen.keys), so this alone is told by sums: a hole or an overlap stays unseen, and with it what rules say of that
partition, where two sums of hashes of 40 bits come out as they should by chance. That is one time in 2^80 if nobody chose the offsets for
it; whoever writes a capture by hand may, as the seeds are known. Sums that would not fit into 64 bits are none, and nothing is ever
found here: what rules are about is for those who look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_analysis.screen.keys import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Bits of a hash that go into sums: sixteen million of them stay within 64.
_LESS: Final = 24
_SEEDS: Final = (1, 2)


def to_look_at(ranges: DataFrame, handed_out: Column, window: int) -> DataFrame:
    """Partitions, by `key`, of which sums do not tell that their ranges are plain; `handed_out`: a range was acquired, else acknowledged;
    `window`: so many offsets in flight may keep a fetch waiting."""
    step = max(0, (window // 4).bit_length() - 1)
    far_before = Window.partitionBy("key").orderBy("step").rangeBetween(Window.unboundedPreceding, -(window // 2 >> step))
    steps = ranges.transform(_pairs, handed_out).transform(_steps, step)
    late = F.max("taken").over(far_before) > F.col("handed")
    partitions = (
        steps.withColumn("odd", any_of((F.col("odd"), late)))
        .groupBy("key")
        .agg(
            F.max("odd").alias("odd"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min("left").alias("left"),
            *(F.try_sum(f"ends{seed}").alias(f"ends{seed}") for seed in _SEEDS),
        )
    )
    filled = [F.coalesce(F.col(f"ends{seed}") == _ends(seed), F.lit(False)) for seed in _SEEDS]
    held_up = F.col("last") - F.col("left") + 1 >= window
    return partitions.where(any_of((F.col("odd"), held_up, *(~one for one in filled)))).select("key")


def _pairs(ranges: DataFrame, handed_out: Column) -> DataFrame:
    """Each range, with the packets in which it was `handed` out and `taken`; all of a partition lie together from here on."""
    packet, first, last = F.col("packet"), F.col("first"), F.col("last")
    pairs = (
        ranges.repartition("key")
        .groupBy("key", "first", "last", "member")
        .agg(
            F.count_if(handed_out).alias("times_handed"),
            F.count_if(~handed_out).alias("times_taken"),
            F.max(F.when(handed_out, packet)).alias("handed"),
            F.max(F.when(~handed_out, packet)).alias("taken"),
            F.max("odd").alias("odd"),
        )
    )
    once = (F.col("times_handed") == 1) & (F.col("times_taken") <= 1) & (first <= last)
    odd = any_of((F.col("odd"), ~F.coalesce(once, F.lit(False)), F.col("taken") <= F.col("handed")))
    return pairs.select("key", "first", "last", "handed", "taken", odd.alias("odd"))


def _steps(pairs: DataFrame, step: int) -> DataFrame:
    """The ranges of a partition that begin within 2^step offsets, as one; `left`: the first that nobody acknowledged."""
    return pairs.groupBy("key", F.shiftright("first", step).alias("step")).agg(
        F.max("odd").alias("odd"),
        F.min("handed").alias("handed"),
        F.max("taken").alias("taken"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.min(F.when(F.col("taken").isNull(), F.col("first"))).alias("left"),
        *(F.try_sum(_ends(seed)).alias(f"ends{seed}") for seed in _SEEDS),
    )


def _ends(seed: int) -> Column:
    """The hash of where a range begins, less that of where the next may begin."""
    begin, end = (F.shiftright(F.xxhash64(offset, F.lit(seed)), _LESS) for offset in (F.col("first"), F.try_add("last", F.lit(1))))
    return begin - end
