"""Which groups may have something to say of their records in flight, or of what is stored of them.

Those of a group are plain where each record is handed out once at most, acknowledged once at most, both by and to one
member and in that order, and accepted; where all answers are without an error and all locks last as long; and where
never so many offsets are in flight that a fetch may have had to wait for them. Then no rule is asked, whoever else is
left out: each of them looks at records that are handed out again, acknowledged again, refused, given back, passed over,
or that hold others up.

Of most partitions that is told by ranges that match and follow one another (kshark_spark.screen.pieces). Others may
be plain all the same, such as those with transactions' markers between the records, or of which a part is accepted at a
time: their groups' ranges are sorted by their first offset, and tell all of that by what stands before each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F

from kshark_dissectors.enums import ShareAcquireMode
from kshark_spark.rows import collected
from kshark_spark.screen.keys import any_of, keys
from kshark_spark.screen.pieces import NONE
from kshark_spark.screen.ranges import groups_with_ranges, ranges_in_slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables


def suspicious_groups(spark: SparkSession, tables: Tables, suspicious: Collection[int], window: int) -> set[int]:
    """Groups by `group`, those that are `suspicious` already among them; `window`: so many offsets of a partition in
    flight may keep a fetch waiting."""
    differ = F.col("least") < F.col("most")
    with_ranges = (
        groups_with_ranges(spark, tables, window)
        .where(differ | F.col("not_plain"))
        .select("group", (~differ).alias("doubtful"))
    )
    failed = tables["share_requests"].transform(_failed).withColumn("doubtful", F.lit(False))
    told = [*collected(with_ranges.unionByName(failed).distinct())]
    found = {*suspicious, *(group for group, is_doubtful in told if not is_doubtful)}
    rest = [group for group, _ in told if group not in found]
    if rest:
        ranges = ranges_in_slices(spark, tables, window, lambda pieces: pieces.at(np.isin(pieces.group, rest)))
        found.update(group for (group,) in collected(ranges.transform(not_plain_in_order, window).distinct()))
    return found


def _failed(requests: DataFrame) -> DataFrame:
    limited = F.col("acquire_mode") == ShareAcquireMode.RECORD_LIMIT.value
    return requests.where(F.col("failed") | limited | (F.col("api_version") == 0) | F.col("epoch").isNull()).select(
        keys()["group"].alias("group")
    )


def not_plain_in_order(ranges: DataFrame, window: int) -> DataFrame:
    """Groups with a partition whose ranges are not; `ranges` are those of kshark_spark.screen.pieces, none joined.
    `handed` and `taken` become the last acquisition and acknowledgement that begin before."""
    partition = Window.partitionBy("key")
    handed_out, packet = F.col("taken") == NONE, F.greatest("handed", "taken")
    ranges = ranges.withColumns({"acknowledged": ~handed_out, "packet": packet})
    before = partition.orderBy("first", "acknowledged").rowsBetween(Window.unboundedPreceding, -1)
    far_before = partition.orderBy("first").rangeBetween(Window.unboundedPreceding, -(window // 2))
    handed_out, here = ~F.col("acknowledged"), F.struct("first", "last", "packet", "member")
    known = ranges.select(
        *("group", "key", "member", "first", "last", "packet", "odd", "acknowledged"),
        F.last(F.when(handed_out, here), ignorenulls=True).over(before).alias("handed"),
        F.last(F.when(~handed_out, here), ignorenulls=True).over(before).alias("taken"),
        F.max(F.when(~handed_out, F.col("packet"))).over(far_before).alias("taken_latest"),
    )
    handed_here, taken_here = F.col("handed.last") >= F.col("first"), F.col("taken.last") >= F.col("first")
    too_late = (F.col("taken.packet") <= F.col("packet")) | (F.col("taken.member") != F.col("member"))
    too_early = (F.col("handed.packet") >= F.col("packet")) | (F.col("handed.member") != F.col("member"))
    odd = (
        F.col("odd"),
        handed_out & handed_here,
        ~handed_out & taken_here,
        handed_out & taken_here & too_late,
        ~handed_out & handed_here & too_early,
        handed_out & (F.col("taken_latest") > F.col("packet")),
    )
    # the first offset behind all that was acknowledged before, if that was handed out and is passed over here
    behind = F.greatest(F.coalesce(F.col("taken.last"), F.lit(-1)) + 1, F.col("handed.first"))
    passed_over = (F.col("handed.last") >= behind) & (handed_out | (behind < F.col("first")))
    partitions = known.groupBy("group", "key").agg(
        F.max(any_of(odd)).alias("odd"),
        F.min(F.when(passed_over, F.col("handed.first"))).alias("left"),
        F.max(F.when(handed_out, F.col("last"))).alias("end"),
    )
    return partitions.where(F.col("odd") | (F.col("end") - F.col("left") + 1 >= window)).select("group")
