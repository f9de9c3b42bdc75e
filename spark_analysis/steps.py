"""Rows on their way to the analysis: each goes to the bucket of its member, what is common to all members to every bucket.

A bucket's rows in order are what the analysis would see of a capture in which only that bucket's members take part: their share
requests and heartbeats, every connection's beginning and end, every hole and every answer without request, and what brokers say about
themselves. kshark.analysis.analyzer lists what verdicts depend on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshark.analysis.rules import BOOK
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.model import endpoint
from kshark.tables.events import BEFORE, MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What the analysis reads of a Metadata response.
_BROKERS: Final = "cluster_id string, brokers array<struct<node_id: int, host: string, port: int>>"

#: The order of events, as kshark.tables.events.place_of has it.
TIME: Final = ("packet", "phase", "flow_packet", "place")
#: The key of a bucket.
BUCKET: Final = ("capture", "bucket")
#: The key of a group's member, in one bucket.
MEMBER: Final = (*BUCKET, "kind", "group_id", "member_id")


def steps_of(rows: DataFrame, buckets: int) -> DataFrame:
    """The rows that the machines need, each in its bucket, with its kind (share, heartbeat, common, other) and its place in time.

    `client_left`: the client ended the request's connection in sight of the capture.
    """
    key = F.col("exchanges.api_key")
    share, readable = (
        key.isin(SHARE_FETCH, SHARE_ACKNOWLEDGE),
        F.get_json_object("exchanges.request_json", "$.share_session_epoch").isNotNull(),
    )
    kind = (
        F.when(share & readable, "share")
        .when(key == SHARE_GROUP_HEARTBEAT, "heartbeat")
        .when(share | key.isin(METADATA, API_VERSIONS) | (F.col("exchanges.outcome") == "orphan"), "common")
        .when(F.col("flows").isNotNull() | (F.col("weirds.kind") == "gap") | (F.col("weirds.code") == "TIME_DISORDER"), "common")
        .when(key.isin(*BOOK.apis), "other")
    )
    own = F.pmod(F.xxhash64(*(f"exchanges.{column}" for column in BOOK.bucket)), F.lit(buckets)).cast("int")
    every = F.sequence(F.lit(0), F.lit(buckets - 1))
    return (
        in_time(rows.withColumn("kind", kind).where("kind is not null"))
        .select(
            "capture",
            F.explode(F.when(F.col("kind") == "common", every).otherwise(F.array(own))).alias("bucket"),
            "kind",
            "exchanges.group_id",
            "exchanges.member_id",
            with_one_name(F.col("exchanges.broker"), aliases(rows)).alias("broker"),
            "flow_id",
            *TIME,
            _brief().alias("exchanges"),
            "flows",
            "weirds",
        )
        .join(F.broadcast(left_by_client(rows)), ["capture", "flow_id"], "left")
    )


def in_time(rows: DataFrame) -> DataFrame:
    """The rows, with what they are sorted by: their capture, their connection and the columns of TIME."""
    place = F.coalesce("exchanges.request_position", "exchanges.response_position", "weirds.position", F.lit(-1))
    return rows.withColumns(
        {
            "capture": _any_table("capture"),
            "flow_id": _any_table("flow_id"),
            "packet": _any_table("packet"),
            "phase": F.when(F.col("exchanges").isNull(), BEFORE).otherwise(MESSAGES),
            "flow_packet": F.substring_index(_any_table("flow_id"), ":", -1).cast("bigint"),
            "place": place,
        }
    )


def _brief() -> Column:
    """An exchange; of Metadata only the brokers, since it goes to every bucket and lists of topics are long."""
    answer = F.from_json("exchanges.response_json", _BROKERS)
    told = F.when(F.col("exchanges.api_key") == METADATA, F.to_json(answer)).otherwise(F.col("exchanges.response_json"))
    return F.when(F.col("exchanges").isNotNull(), F.col("exchanges").withField("response_json", told))


def gathered(steps: DataFrame, buckets: int) -> DataFrame:
    """Each bucket in one place: the only shuffle."""
    return steps.repartition(buckets, *BUCKET)


def _any_table(column: str) -> Column:
    """A common column, whichever table the row belongs to."""
    return F.coalesce(f"exchanges.{column}", f"flows.{column}", f"weirds.{column}")


def left_by_client(rows: DataFrame) -> DataFrame:
    """Connections that the client ended."""
    ended = rows.where("flows.half_closed_by = 'client' or flows.closed_by = 'client'")
    return ended.select("flows.capture", "flows.flow_id", F.lit(True).alias("client_left"))


def aliases(rows: DataFrame) -> dict[str, str]:
    """Addresses that belong to one broker according to Metadata, each with the one that stands for all; most captures have none."""
    body = F.from_json("exchanges.response_json", _BROKERS)
    named = (
        rows.where(F.col("exchanges.api_key") == METADATA)
        .select(body.alias("body"))
        .select("body.cluster_id", F.explode("body.brokers").alias("node"))
        .select("cluster_id", "node.node_id", F.struct("node.host", "node.port").alias("listener"))
    )
    several = named.groupBy("cluster_id", "node_id").agg(F.collect_set("listener").alias("listeners")).where(F.size("listeners") > 1)
    nodes = [[endpoint(*listener) for listener in row.listeners] for row in several.collect()]
    return {address: min(addresses) for addresses in nodes for address in addresses}


def with_one_name(broker: Column, names: dict[str, str]) -> Column:
    """The broker's address, or the one that stands for all of its addresses."""
    if not names:
        return broker
    known = F.create_map(*(F.lit(text) for pair in names.items() for text in pair))
    return F.coalesce(known[broker], broker)
