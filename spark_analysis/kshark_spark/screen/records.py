"""Find groups that may have a finding on records in flight, or on the stored state of records.

The records of a group are plain if each is acquired at most once and acknowledged at most once, later, by the same
member, as accepted; if all responses are without an error and all locks have the same duration; and if so few offsets
are in flight that no fetch waits for them. Then no rule applies, whatever other groups do: each rule needs records that
are acquired again, acknowledged again, rejected, released or skipped, or that delay others.

Most partitions are screened by ranges that match and follow one another (kshark_spark.screen.pieces). Others may still
be plain, for example with transaction markers between the records, or if a range is accepted in parts. The ranges of
their groups are sorted by first offset, and each is compared with the ranges before it.
"""

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
    """Return suspicious groups by `group`, including those in `suspicious`.

    `window`: number of offsets in flight in a partition that may delay a fetch.
    """
    differ = F.col("least") < F.col("most")
    with_ranges = (
        groups_with_ranges(spark, tables, window)
        .where(differ | F.col("not_plain"))
        .select("group", (~differ).alias("doubtful"))
    )
    failed = tables["share_requests"].transform(_failed).withColumn("doubtful", F.lit(False))
    candidates = [*collected(with_ranges.unionByName(failed).distinct(), "find suspicious groups")]
    groups = {*suspicious, *(group for group, is_doubtful in candidates if not is_doubtful)}
    rest = [group for group, _ in candidates if group not in groups]
    if rest:
        ranges = ranges_in_slices(spark, tables, window, lambda pieces: pieces.at(np.isin(pieces.group, rest)))
        not_plain = ranges.transform(not_plain_in_order, window).distinct()
        groups.update(group for (group,) in collected(not_plain, "compare ranges of doubtful groups"))
    return groups


def _failed(requests: DataFrame) -> DataFrame:
    limited = F.col("acquire_mode") == ShareAcquireMode.RECORD_LIMIT.value
    return requests.where(F.col("failed") | limited | (F.col("api_version") == 0) | F.col("epoch").isNull()).select(
        keys()["group"].alias("group")
    )


def not_plain_in_order(ranges: DataFrame, window: int) -> DataFrame:
    """Return groups with a partition that is not plain; `ranges` are those of kshark_spark.screen.pieces, not joined.

    In the joined rows, `acquired` and `acknowledged` are the last acquisition and acknowledgement with a lower
    first offset.
    """
    partition = Window.partitionBy("key")
    is_acquired, packet = F.col("acknowledged") == NONE, F.greatest("acquired", "acknowledged")
    ranges = ranges.withColumns({"is_acknowledged": ~is_acquired, "packet": packet})
    before = partition.orderBy("first", "is_acknowledged").rowsBetween(Window.unboundedPreceding, -1)
    far_before = partition.orderBy("first").rangeBetween(Window.unboundedPreceding, -(window // 2))
    is_acquired, here = ~F.col("is_acknowledged"), F.struct("first", "last", "packet", "member")
    compared = ranges.select(
        *("group", "key", "member", "first", "last", "packet", "odd", "is_acknowledged"),
        F.last(F.when(is_acquired, here), ignorenulls=True).over(before).alias("acquired"),
        F.last(F.when(~is_acquired, here), ignorenulls=True).over(before).alias("acknowledged"),
        F.max(F.when(~is_acquired, F.col("packet"))).over(far_before).alias("acknowledged_latest"),
    )
    acquired_here, acknowledged_here = (
        F.col("acquired.last") >= F.col("first"),
        F.col("acknowledged.last") >= F.col("first"),
    )
    too_late = (F.col("acknowledged.packet") <= F.col("packet")) | (F.col("acknowledged.member") != F.col("member"))
    too_early = (F.col("acquired.packet") >= F.col("packet")) | (F.col("acquired.member") != F.col("member"))
    odd = (
        F.col("odd"),
        is_acquired & acquired_here,
        ~is_acquired & acknowledged_here,
        is_acquired & acknowledged_here & too_late,
        ~is_acquired & acquired_here & too_early,
        is_acquired & (F.col("acknowledged_latest") > F.col("packet")),
    )
    # the first offset after all earlier acknowledgements; it is skipped here if it was acquired
    expected = F.greatest(F.coalesce(F.col("acknowledged.last"), F.lit(-1)) + 1, F.col("acquired.first"))
    skipped = (F.col("acquired.last") >= expected) & (is_acquired | (expected < F.col("first")))
    partitions = compared.groupBy("group", "key").agg(
        F.max(any_of(odd)).alias("odd"),
        F.min(F.when(skipped, F.col("acquired.first"))).alias("left"),
        F.max(F.when(is_acquired, F.col("last"))).alias("end"),
    )
    return partitions.where(F.col("odd") | (F.col("end") - F.col("left") + 1 >= window)).select("group")
