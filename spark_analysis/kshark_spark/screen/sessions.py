"""Screen share sessions: find members that may have a finding on a session or on a single exchange.

A member is skipped if each of its sessions is plain and no trigger or condition of a rule applies to its requests. A
plain session uses one connection and is opened at most once, by its first request. Each request is accepted with the
expected epoch, and the session is closed by -1 or still open at the end of the capture. A row of `share_requests` has
the previous epoch: rows are counted in their slices (.lives), and only sums are shuffled.
"""

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

#: Columns of a member from its heartbeats: see kshark_spark.screen.heartbeats.
BEATS: Final = ("suspicious", "left", "assigned", "least")
_NAME: Final = pa.schema([("capture", pa.string()), ("broker", pa.string()), ("name", pa.string())])


def members_of(tables: Tables, beats: DataFrame, others: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Return members by `capture`, `group` and `member`: their number of sessions, and whether they are suspicious.

    `beats`: their screened heartbeats; `others`: members that are suspicious for other reasons.
    """
    sessions = lives_of(beats.sparkSession, tables).transform(sessions_of, with_one_name(tables["flows"], names))
    for rows in (
        others.select(*_columns(suspicious=F.lit(True))),
        beats.select(*_columns(**{name: F.col(name) for name in BEATS})),
    ):
        sessions = sessions.unionByName(rows)
    return sessions.transform(together)


def with_one_name(flows: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Return connections with the address that represents their broker."""
    if not names:
        return flows
    representatives = F.broadcast(
        frame_of(flows.sparkSession, _NAME, [(*address, name) for address, name in names.items()])
    )
    return flows.join(representatives, ["capture", "broker"], "left").withColumn("broker", F.coalesce("name", "broker"))


def sessions_of(lives: DataFrame, flows: DataFrame) -> DataFrame:
    """Return sessions with `suspicious`, and `open`: true if they are open at the end of the capture."""
    client_left = any_of([F.col("half_closed_by") == "client", F.col("closed_by") == "client"])
    connections = flows.select("capture", "flow_id", "broker", client_left.alias("client_left"))
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
        lives.join(connections, "flow_id")
        .groupBy("capture", "group", "member", "broker")
        .agg(*most, *summed)
        .withColumn("elsewhere", F.col("firsts") > 1)
        .withColumn("acknowledges_alone", F.col("opened") & F.col("acknowledges_new"))
        .select(
            *_columns(sessions=F.lit(1), suspicious=any_of(suspicious), open=~F.col("closed"), latest=F.col("latest"))
        )
    )


def together(rows: DataFrame) -> DataFrame:
    """Return the number of sessions by member, and whether the member is suspicious.

    It is also suspicious if a session was open or used after it left its group, or if it lists a partition that was not
    assigned to it.
    """
    most = [F.max(name).alias(name) for name in ("suspicious", "open", "latest", "assigned")]
    least = [F.min(name).alias(name) for name in ("left", "least")]
    odd = (
        F.col("suspicious"),
        F.col("open") & F.col("left").isNotNull(),
        F.col("latest") > F.col("left"),
        F.col("least") < F.col("assigned"),
    )
    members = rows.groupBy("capture", "group", "member").agg(F.sum("sessions").alias("sessions"), *most, *least)
    return members.withColumn("suspicious", any_of(odd))


def _columns(**given: Column) -> list[Column]:
    """Return the columns of members; those not given are zero, false or null."""
    nothing = F.lit(None).cast("bigint")
    defaults = {"sessions": F.lit(0), "suspicious": F.lit(False), "open": F.lit(False)}
    defaults |= dict.fromkeys(("latest", "left", "assigned", "least"), nothing)
    return [F.col(name) for name in ("capture", "group", "member")] + [
        column.alias(name) for name, column in (defaults | given).items()
    ]
