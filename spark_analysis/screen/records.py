"""Which groups may have something to say of their records in flight, or of what is stored of them.

Those of a group are plain where each record is handed out once at most, acknowledged once at most, both by and to one member and in that
order, and accepted; where all answers are without an error and all locks last as long; and where never so many offsets are in flight that
a fetch may have had to wait for them. Then no rule is asked, whoever else is left out: each of them looks at records that are handed out
again, acknowledged again, refused, given back, passed over, or that hold others up.

A partition's ranges, sorted by their first offset, tell all of that by what stands before each; of most partitions sums tell it
(spark_analysis.screen.sums).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from dissectors.enums import ShareAcquireMode
from kshark.analysis.machines.in_flight import ACCEPT
from kshark.analysis.rules import BOOK
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from spark_analysis.screen.keys import any_of, keys
from spark_analysis.screen.sums import to_look_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.tables import Tables

_SCREENED: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT)
_ACQUIRED, _ACKNOWLEDGED = 0, 1


def suspicious_groups(tables: Tables, window: int) -> DataFrame:
    """Groups by `group`; `window`: so many offsets of a partition in flight may keep a fetch waiting."""
    rows = (
        tables["exchanges"].transform(_told_of_otherwise),
        tables["share_requests"].transform(_failed),
        tables["acquired"].transform(_locked_otherwise),
        _ranges(tables, window).transform(not_plain, window),
    )
    return reduce(lambda one, two: one.unionByName(two), rows)


def _told_of_otherwise(exchanges: DataFrame) -> DataFrame:
    """Groups whose states are read and written; and those with messages that something is odd about, or whose member is not named."""
    others = F.col("api_key").isin([api for api in BOOK.visited if api not in _SCREENED])
    nameless = (F.col("api_key") == SHARE_GROUP_HEARTBEAT) & (F.coalesce(F.col("member_id"), F.lit("")) == "")
    weird = F.col("api_key").isin(*_SCREENED) & (F.col("request_weird").isNotNull() | F.col("response_weird").isNotNull())
    return exchanges.where(others | nameless | weird).select(keys()["group"].alias("group"))


def _failed(requests: DataFrame) -> DataFrame:
    limited = F.col("acquire_mode") == ShareAcquireMode.RECORD_LIMIT.value
    return requests.where(F.col("failed") | limited | (F.col("api_version") == 0) | F.col("epoch").isNull()).select(
        keys()["group"].alias("group")
    )


def _locked_otherwise(acquired: DataFrame) -> DataFrame:
    lock = F.coalesce(F.col("lock_timeout_ms"), F.lit(-1))
    locks = acquired.groupBy(keys()["group"].alias("group")).agg(F.min(lock).alias("least"), F.max(lock).alias("most"))
    return locks.where("least <> most").select("group")


def _ranges(tables: Tables, window: int) -> DataFrame:
    """What was acquired, with the packet of the answer, and what was acknowledged, with that of the request."""
    acquired, acknowledged = tables["acquired"], tables["acknowledgements"]
    long = F.col("last_offset") - F.col("first_offset") >= window // 2
    odd_acquired = any_of((F.col("misplaced"), F.col("first_offset") < 0, F.col("delivery_count") != 1, F.col("lacking") > 0, long))
    odd_types = F.forall("types", lambda one: one == ACCEPT.value) & (F.size("types") > 0)
    odd_acknowledged = any_of((F.col("last_offset") < F.col("first_offset"), ~odd_types))
    one, two = (
        rows.select(
            keys()["group"].alias("group"),
            F.xxhash64("capture", "group_id", "topic_id", "partition").alias("key"),
            keys()["member"].alias("member"),
            F.lit(kind).cast("tinyint").alias("kind"),
            F.col("first_offset").alias("first"),
            F.col("last_offset").alias("last"),
            "packet",
            odd.alias("odd"),
        )
        for rows, kind, odd in ((acquired, _ACQUIRED, odd_acquired), (acknowledged, _ACKNOWLEDGED, odd_acknowledged))
    )
    return one.unionByName(two)


def not_plain(ranges: DataFrame, window: int) -> DataFrame:
    """Groups with a partition whose ranges are not; only those are looked at of which sums do not tell it."""
    rest = to_look_at(ranges, F.col("kind") == _ACQUIRED, window)
    return ranges.join(F.broadcast(rest), "key", "left_semi").transform(not_plain_in_order, window)


def not_plain_in_order(ranges: DataFrame, window: int) -> DataFrame:
    """Groups with a partition whose ranges are not: `handed` and `taken` are the last acquisition and acknowledgement that begin before."""
    partition = Window.partitionBy("key")
    before = partition.orderBy("first", "kind").rowsBetween(Window.unboundedPreceding, -1)
    far_before = partition.orderBy("first").rangeBetween(Window.unboundedPreceding, -(window // 2))
    handed_out, here = F.col("kind") == _ACQUIRED, F.struct("first", "last", "packet", "member")
    known = ranges.select(
        "*",
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
