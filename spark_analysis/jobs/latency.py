"""Latencies by broker, client and API in milliseconds, with the time that long polls waited on purpose apart.

spark-submit latency.py TABLES [-o OUT]      TABLES: the folder of `kshark export` or `kshark-spark export`
"""

import argparse

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

FETCHES, JOINS = ["Fetch", "ShareFetch"], ["JoinGroup", "SyncGroup"]
MEMBER_ID_REQUIRED = 79
MILLISECOND = 1_000_000


def latency(exchanges: DataFrame) -> DataFrame:
    """Return percentiles of work and wait for each broker, client and API.

    Work is unknown if nobody can tell how long the broker waited; then the whole latency counts as wait.
    """
    # A throttled client waits: the broker answers, then reads nothing from its connection for that time (KIP-219).
    in_order = Window.partitionBy("capture", "flow_id").orderBy("response_packet", "correlation_id")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    throttled_ns = F.col("throttle_time_ms").cast("bigint") * MILLISECOND
    throttled_until = F.when(throttled_ns > 0, F.col("response_ts_ns") + throttled_ns)
    muted = F.last(throttled_until, ignorenulls=True).over(earlier) - F.col("request_ts_ns")
    muted_ns = F.least("latency_ns", F.greatest(muted, F.lit(0)))

    # A broker holds a fetch until there are records, at most for max_wait_ms; its timer may end 1 ms early. It holds
    # JoinGroup and SyncGroup until the other members have sent theirs.
    is_fetch, rest_ns = F.col("api").isin(FETCHES), F.col("latency_ns") - F.col("muted_ns")
    asked_ms = F.when(is_fetch, F.get_json_object("request_json", "$.max_wait_ms").cast("bigint"))
    min_bytes = F.when(is_fetch, F.get_json_object("request_json", "$.min_bytes").cast("bigint"))
    waited_in_full = (asked_ms > 0) & (rest_ns >= (asked_ms - 1) * MILLISECOND)
    answered_at_once = (asked_ms == 0) | (min_bytes == 0) | (is_fetch & F.col("error_codes").isNotNull())
    polled_ns = (
        F.when(waited_in_full, F.least(rest_ns, asked_ms * MILLISECOND))
        .when(answered_at_once | F.array_contains("error_codes", MEMBER_ID_REQUIRED), 0)
        .when(F.col("api").isin(FETCHES + JOINS), None)
        .otherwise(0)
    )
    work_ns = F.col("latency_ns") - F.col("muted_ns") - F.col("polled_ns")
    wait_ns = F.coalesce(F.col("muted_ns") + F.col("polled_ns"), F.col("latency_ns"))
    return (
        exchanges.where("latency_ns IS NOT NULL")
        .withColumn("muted_ns", muted_ns)
        .withColumn("polled_ns", polled_ns)
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
        slowest = result.orderBy(F.desc_nulls_last("work_p99_ms"), "capture", "broker", "client_id", "api")
        slowest.drop("work_p95_ms", "wait_p95_ms").show(1000, truncate=False)
