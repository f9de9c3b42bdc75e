"""Screen the heartbeats of share group members.

Heartbeats of a member are plain if all are accepted, on one connection and in time, and each has the epoch of the
previous response. The first may join, the last may leave. Every heartbeat that joins or sends topics receives an
assignment, and the member lists the assigned partitions before rules require it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from kshark.analysis.facts.calls import LEAVING
from kshark.analysis.states.member.state import SETTLED_NS
from kshark_spark.screen.keys import any_of, keys
from kshark_spark.screen.numbers import numbers
from kshark_spark.slices import Slice, in_slices, row_groups, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kshark_spark.tables import Tables

_JOINING: Final = 0
_DDL: Final = (
    "capture string, group bigint, member bigint, partition struct<topic_id: string, partition: int>, listed bigint"
)
_WHO: Final = ("capture", "group", "member")


class Heartbeats(NamedTuple):
    """Screened heartbeats.

    `members`, by `capture`, `group` and `member`, some in several rows: `suspicious`: its heartbeats are not plain;
    `left`: the packet with which it left; `assigned`: number of assignments with partitions; `least`: the lowest number
    of assignments of a partition that it lists. `groups`, by `group`: groups with a member that did not list its
    assigned partitions in time.
    """

    members: DataFrame
    groups: DataFrame


def heartbeats_of(tables: Tables) -> Heartbeats:
    beats = tables["heartbeats"].where(F.col("group_type") == "share").withColumns(keys())
    partitions = _partitions(
        beats, in_slices(beats.sparkSession, slices_of(tables.files, ["share_requests"]), _DDL, _listed)
    )
    least = partitions.groupBy(*_WHO).agg(F.min(F.when(F.col("listed").isNotNull(), F.col("assigned"))).alias("least"))
    members = beats.transform(_members).unionByName(least, allowMissingColumns=True)
    late = F.coalesce(F.col("listed"), F.lit(1 << 62)) > F.col("since") + SETTLED_NS
    return Heartbeats(
        members.withColumn("suspicious", F.coalesce("suspicious", F.lit(False))), partitions.where(late).select("group")
    )


def _members(beats: DataFrame) -> DataFrame:
    """Compare each heartbeat with the previous one, and aggregate by member."""
    in_order = Window.partitionBy(*_WHO).orderBy("packet")
    heartbeat = F.struct("flow_id", "ts_ns", "interval_ms", "member_epoch", "response_member_epoch")
    epoch, before = F.col("member_epoch"), F.col("before")
    late = (before.interval_ms > 0) & (F.col("ts_ns") - before.ts_ns > 2_000_000 * before.interval_ms.cast("bigint"))
    odd = (
        F.coalesce(F.col("error_code"), F.lit(-1)) != 0,
        epoch.isNull() | (epoch < LEAVING),
        (epoch >= 0) & (F.col("response_member_epoch") < epoch),
        (epoch != LEAVING) & F.col("assignment").isNull() & ((epoch == _JOINING) | F.col("subscribed").isNotNull()),
        before.isNotNull() & ((epoch == _JOINING) | (before.member_epoch == LEAVING)),
        (epoch > 0) & (epoch != before.response_member_epoch),
        (before.flow_id != F.col("flow_id")) | late,
    )
    grouped = beats.withColumn("before", F.lag(heartbeat).over(in_order)).groupBy(*_WHO)
    return grouped.agg(
        F.max(any_of(odd)).alias("suspicious"),
        F.min(F.when(epoch == LEAVING, F.col("packet"))).alias("left"),
        F.count_if(F.size("assignment") > 0).alias("assigned"),
    )


def _partitions(beats: DataFrame, listed: DataFrame) -> DataFrame:
    """Return for each member and partition its first time `listed`, its number of assignments, and `since` when."""
    assigned = beats.select(*_WHO, F.explode("assignment").alias("partition"), F.col("ts_ns").alias("since"))
    both = listed.unionByName(assigned, allowMissingColumns=True).groupBy(*_WHO, "partition")
    return both.agg(F.min("listed").alias("listed"), F.count("since").alias("assigned"), F.min("since").alias("since"))


def _listed(slice_: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the partitions that members list for the first time, with the time.

    Most requests list none; their partitions are not read.
    """
    for group in row_groups("share_requests", slice_["share_requests"]):
        new = group.read(["lists_new"])["lists_new"]
        if not pc.any(new).as_py():
            continue
        rows = (
            group.read(["capture", "group_id", "member_id", "partitions", "ts_ns"])
            .filter(new.fill_null(False))
            .combine_chunks()
        )
        lists = rows["partitions"].combine_chunks()
        rows, partitions = rows.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
        of = [
            pa.array(numbers(*(rows[name] for name in names)))
            for names in (("capture", "group_id"), ("capture", "group_id", "member_id"))
        ]
        capture, listed = rows["capture"].combine_chunks().cast(pa.string()), rows["ts_ns"].combine_chunks()
        yield pa.RecordBatch.from_arrays([capture, *of, partitions, listed], [*_WHO, "partition", "listed"])
