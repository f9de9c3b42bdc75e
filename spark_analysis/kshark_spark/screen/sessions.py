"""Which members may have something to say of their share sessions, or of single exchanges.

A member passes where each of its sessions is as plain as can be: on one connection, opened at most once and first, each
request accepted with the epoch due, and at the end closed by -1, or still open when the capture ends; and where no
rule's row names a trigger that holds, nor a condition on its requests. A row of `share_requests` knows the epoch before
it: rows are counted where they lie (.lives), and only sums are shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis.rules import BOOK
from kshark_spark.rows import frame_of
from kshark_spark.screen.keys import any_of
from kshark_spark.screen.lives import lives_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kshark_spark.tables import Tables

#: What is told of a member by heartbeats: see kshark_spark.screen.heartbeats.
BEATS: Final = ("suspicious", "left", "assigned", "least")
_NAME: Final = pa.schema([("capture", pa.string()), ("broker", pa.string()), ("name", pa.string())])


def members_of(tables: Tables, beats: DataFrame, others: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Members by `capture`, `group` and `member`: their sessions, and whether anything about them is suspicious;
    `beats`: what heartbeats tell of them; `others` are suspicious anyway."""
    sessions = lives_of(beats.sparkSession, tables).transform(sessions_of, with_one_name(tables["flows"], names))
    for more in (
        others.select(*_told(suspicious=F.lit(True))),
        beats.select(*_told(**{name: F.col(name) for name in BEATS})),
    ):
        sessions = sessions.unionByName(more)
    return sessions.transform(together)


def with_one_name(flows: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Connections, each with its broker's address, or the one that stands for all of them."""
    if not names:
        return flows
    known = F.broadcast(frame_of(flows.sparkSession, _NAME, [(*address, name) for address, name in names.items()]))
    return flows.join(known, ["capture", "broker"], "left").withColumn("broker", F.coalesce("name", "broker"))


def sessions_of(lives: DataFrame, flows: DataFrame) -> DataFrame:
    """Sessions, `suspicious` or not, and whether they were `open` when the capture ended."""
    client_left = any_of([F.col("half_closed_by") == "client", F.col("closed_by") == "client"])
    known = flows.select("capture", "flow_id", "broker", client_left.alias("client_left"))
    waits_longer = (F.col("waiting") < F.col("last")) | F.col("closed") | (F.col("unanswered") > 1)
    suspicious = (
        F.col("odd"),
        (F.col("unanswered") > 0) & waits_longer,
        ~F.col("closed") & F.col("client_left"),
        *(F.expr(trigger.sql) for trigger in BOOK.triggers),
    )
    flags = ("odd", "opened", "closed", "forgotten", "repeats", "acknowledges_new", "client_left")
    most = [F.max(name).alias(name) for name in (*flags, "last", "latest", "waiting")]
    summed = [F.sum(name).alias(name) for name in ("firsts", "unanswered")]
    return (
        lives.join(known, "flow_id")
        .groupBy("capture", "group", "member", "broker")
        .agg(*most, *summed)
        .withColumn("elsewhere", F.col("firsts") > 1)
        .withColumn("acknowledges_alone", F.col("opened") & F.col("acknowledges_new"))
        .select(*_told(sessions=F.lit(1), suspicious=any_of(suspicious), open=~F.col("closed"), latest=F.col("latest")))
    )


def together(told: DataFrame) -> DataFrame:
    """By member the number of sessions, and whether anything about any of them is suspicious: also that one was left
    open, or gone on with, when the member left its group; or that it lists what was not assigned to it."""
    most = [F.max(name).alias(name) for name in ("suspicious", "open", "latest", "assigned")]
    least = [F.min(name).alias(name) for name in ("left", "least")]
    odd = (
        F.col("suspicious"),
        F.col("open") & F.col("left").isNotNull(),
        F.col("latest") > F.col("left"),
        F.col("least") < F.col("assigned"),
    )
    members = told.groupBy("capture", "group", "member").agg(F.sum("sessions").alias("sessions"), *most, *least)
    return members.withColumn("suspicious", any_of(odd))


def _told(**told: Column) -> list[Column]:
    """The columns of what is told of members: zero, false and null but for what is given."""
    nothing = F.lit(None).cast("bigint")
    none = {"sessions": F.lit(0), "suspicious": F.lit(False), "open": F.lit(False)}
    none |= dict.fromkeys(("latest", "left", "assigned", "least"), nothing)
    return [F.col(name) for name in ("capture", "group", "member")] + [
        column.alias(name) for name, column in (none | told).items()
    ]
