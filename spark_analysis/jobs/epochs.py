"""Share sessions that lost count of their epochs (KIP-932): which epoch a request used, and which one was due.

    spark-submit epochs.py TABLES [-o OUT]

TABLES is a folder that `kshark export` or `kshark-spark export` wrote. The script prints the runs of refused requests;
with -o it writes them as Parquet to OUT/epoch_runs, and every request to OUT/epochs.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

UNKNOWN_SERVER_ERROR, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED = -1, 122, 123, 133
LAST_EPOCH = 2_147_483_647
REQUEST = ["capture", "flow_id", "exchange", "correlation_id"]


def epochs(requests: DataFrame, steps: DataFrame) -> DataFrame:
    """Return the requests of `share_requests`, each with the epoch that was due, and the cause of a refusal from `steps`.

    `epoch_due`: 0 without a session, which only epoch 0 opens; null before the capture shows one. `run`: consecutive
    requests of a member to a broker with the same error code have the same number.
    """
    in_order = Window.partitionBy("capture", "session_key").orderBy("packet", "correlation_id")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    epoch, error = F.col("epoch"), F.col("error_code")

    # The epoch after an accepted one; after the final epoch, -1, it is 0: there is no session.
    following = F.when(epoch == LAST_EPOCH, 1).otherwise(epoch + 1)
    # A fetch waits for records. If another connection advances the session meanwhile, the broker answers the fetch with
    # INVALID_SHARE_SESSION_EPOCH, although it had accepted it.
    overtaken = (
        (F.col("api") == "ShareFetch")
        & (error == INVALID_SHARE_SESSION_EPOCH)
        & (F.lead("epoch").over(in_order) == following)
        & (F.lead("flow_id").over(in_order) != F.col("flow_id"))
        & (F.lead("ts_ns").over(in_order) < F.col("ts_ns") + F.col("latency_ns"))
    )
    # The broker looks up topics after it counted the epoch. But an epoch 0 that lists a partition twice fails only
    # after the broker removed the old session.
    failed_late = (error == UNKNOWN_SERVER_ERROR) & (epoch >= 0)
    failed_open = failed_late & (epoch == 0) & F.col("repeats")
    is_gone = error.isin(SHARE_SESSION_NOT_FOUND, SHARE_SESSION_LIMIT_REACHED) | failed_open

    return (
        requests.join(steps.select(*REQUEST, "session", "cause"), REQUEST, "left")
        .select(
            "capture", "broker", "client", "group_id", "member_id", "session_key", "session", "flow_id", "exchange",
            "correlation_id", "packet", "ts", "api", epoch.alias("epoch_used"), "error_code", "cause",
            F.when(is_gone, 0).when((error == 0) | failed_late | overtaken, following).alias("due_after"),
            (~error.eqNullSafe(F.lag(error).over(in_order))).cast("int").alias("starts_run"),
            F.lead(F.struct("packet", "epoch", "error_code")).over(in_order).alias("next"),
        )
        .select(
            "*",
            F.last("due_after", ignorenulls=True).over(earlier).alias("epoch_due"),
            F.sum("starts_run").over(so_far).alias("run"),
        )
        .drop("due_after", "starts_run")
    )  # fmt: skip


def runs(epochs: DataFrame) -> DataFrame:
    """Return the runs of requests that brokers refused with error 122 or 123, and how the session recovered."""
    following = F.max_by("next", F.struct("packet", "correlation_id"))
    recovery = (
        F.when(F.col("next").isNull(), "no later request")
        .when(F.col("next.error_code").isNull(), "next request unanswered")
        .when(F.col("next.error_code") != 0, F.concat(F.lit("next error "), F.col("next.error_code").cast("string")))
        .when(F.col("next.epoch") == 0, "new session")
        .when(F.col("next.epoch") == -1, "closed")
        .otherwise("due epoch used")
    )
    return (
        epochs.where(F.col("error_code").isin(SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH))
        .groupBy("capture", "group_id", "member_id", "broker", "session_key", "run", "error_code")
        .agg(
            F.min("ts").alias("started"),
            F.min("packet").alias("first_packet"),
            F.count("*").alias("refusals"),
            F.min_by("epoch_used", F.struct("packet", "correlation_id")).alias("epoch_used"),
            F.min_by("epoch_due", F.struct("packet", "correlation_id")).alias("epoch_due"),
            F.array_join(F.array_sort(F.collect_set("cause")), ", ").alias("causes"),
            following.alias("next"),
        )
        .withColumn("recovery", recovery)
        .drop("next", "session_key", "run")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("epochs").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    requests, steps = (spark.read.parquet(f"{options.tables}/{name}") for name in ("share_requests", "steps"))
    every_request = epochs(requests, steps)
    refused = runs(every_request)
    if options.output:
        every_request.write.parquet(f"{options.output}/epochs")
        refused.write.parquet(f"{options.output}/epoch_runs")
    else:
        refused.drop("group_id", "broker").orderBy("capture", "first_packet").show(1000, truncate=False)
