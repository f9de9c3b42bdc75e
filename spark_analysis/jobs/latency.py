"""Latencies by broker, client and API in milliseconds, with the time that long polls waited on purpose apart.

    spark-submit latency.py TABLES [-o OUT]

TABLES is a folder that `kshark export` or `kshark-spark export` wrote; -o writes Parquet instead of a table.
"""

import argparse

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

FETCHES, MEMBER_ID_REQUIRED = ["Fetch", "ShareFetch"], 79
MILLISECOND = 1_000_000


def latency(exchanges: DataFrame) -> DataFrame:
    """Return the percentiles of work and wait for each broker, client and API.

    A broker holds a fetch until there are records, for max_wait_ms; a JoinGroup and SyncGroup until the other members
    have sent theirs. A fetch that took the whole max_wait_ms waited in vain: the rest is the broker's work. Of other
    long polls the work is unknown: what they waited for came at any time. A throttled client waits, too: the broker
    answers at once, and then reads nothing from the connection for the throttle time (KIP-219).
    """
    in_order = Window.partitionBy("capture", "flow_id").orderBy("response_packet", "correlation_id")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    muted_until = F.last(
        F.when(
            F.col("throttle_time_ms") > 0, F.col("response_ts_ns") + F.col("throttle_time_ms").cast("bigint") * MILLISECOND
        ),
        ignorenulls=True,
    ).over(earlier)
    muted = F.least("latency_ns", F.greatest(F.lit(0), F.coalesce(muted_until - F.col("request_ts_ns"), F.lit(0))))
    asked_ms, min_bytes = (
        F.get_json_object("request_json", f"$.{field}").cast("bigint") for field in ("max_wait_ms", "min_bytes")
    )
    is_fetch, rest = F.col("api").isin(FETCHES), F.col("latency_ns") - F.col("muted_ns")
    # A broker's timer counts whole milliseconds: it may end 1 ms early.
    in_full = is_fetch & (asked_ms > 0) & (rest >= (asked_ms - 1) * MILLISECOND)
    at_once = F.col("error_codes").isNotNull() | (asked_ms == 0) | (min_bytes == 0)
    joins = F.col("api").isin("JoinGroup", "SyncGroup") & ~F.coalesce(
        F.array_contains("error_codes", MEMBER_ID_REQUIRED), F.lit(False)
    )
    polled = (
        F.when(in_full, F.least(rest, asked_ms * MILLISECOND))
        .when((is_fetch & ~F.coalesce(at_once, F.lit(False))) | joins, None)
        .otherwise(0)
    )
    work_ns = F.col("latency_ns") - F.col("muted_ns") - F.col("polled_ns")
    wait_ns = F.coalesce(F.col("muted_ns") + F.col("polled_ns"), F.col("latency_ns"))
    return (
        exchanges.where("latency_ns IS NOT NULL")
        .withColumn("muted_ns", muted)
        .withColumn("polled_ns", polled)
        .groupBy("capture", "broker", "client_id", "api")
        .agg(
            F.count("*").alias("answers"),
            F.count_if(wait_ns > 0).alias("waited"),
            *percentiles("work", work_ns),
            *percentiles("wait", F.when(wait_ns > 0, wait_ns)),
        )
    )


def percentiles(name: str, ns: Column) -> list[Column]:
    """Return aggregates of durations, in milliseconds; a group of up to 10,000 has exact percentiles."""
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return [(F.percentile_approx(ns, share, 10_000) / 1e6).alias(f"{name}_{label}_ms") for label, share in at.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("latency").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    result = latency(spark.read.parquet(f"{options.tables}/exchanges"))
    if options.output:
        result.write.parquet(options.output)
    else:
        result.orderBy(F.desc_nulls_last("work_p99_ms"), "capture", "broker", "client_id", "api").show(1000, truncate=False)
