"""Share sessions that lost count of their epochs (KIP-932): which epoch a request used, and which one was due.

    spark-submit epochs.py TABLES [-o OUT]      TABLES: the folder of `kshark export` or `kshark-spark export`

Prints the runs of refused requests; with -o writes them as Parquet to OUT/epoch_runs, and all requests to OUT/epochs.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

UNKNOWN_SERVER_ERROR, SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, SESSION_LIMIT_REACHED = -1, 122, 123, 133
LAST_EPOCH = 2_147_483_647
REQUEST = ["capture", "flow_id", "exchange", "correlation_id"]


def epochs(requests: DataFrame, steps: DataFrame) -> DataFrame:
    """Return all rows of `share_requests` with the epoch that was due, and with the cause of a refusal from `steps`.

    `epoch_due`: 0 if there is no session: only epoch 0 opens one; null before the capture shows any. `run`: the same
    number for a member's requests in a row to which a broker gave the same error code.
    """
    in_order = Window.partitionBy("capture", "session_key").orderBy("packet", "correlation_id")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    epoch, error = F.col("epoch"), F.col("error_code")

    # ShareFetch and ShareAcknowledge share one count. After the final epoch, -1, there is no session: 0.
    following = F.when(epoch == LAST_EPOCH, 1).otherwise(epoch + 1)
    # A fetch waits for records. If a request on another connection advances the session meanwhile, the fetch is refused
    # in the end, although the broker had counted its epoch.
    overtaken = (
        (error == INVALID_SESSION_EPOCH)
        & (F.col("api") == "ShareFetch")
        & (F.lead("epoch").over(in_order) == following)
        & (F.lead("flow_id").over(in_order) != F.col("flow_id"))
        & (F.lead("ts_ns").over(in_order) < F.col("ts_ns") + F.col("latency_ns"))
    )
    # An unknown topic fails after the epoch was counted, a partition listed twice between the old session and the new.
    failed_late = (error == UNKNOWN_SERVER_ERROR) & (epoch >= 0)
    ended = error.isin(SESSION_NOT_FOUND, SESSION_LIMIT_REACHED) | (failed_late & (epoch == 0) & F.col("repeats"))
    return (
        requests.join(steps.select(*REQUEST, "session", "cause"), REQUEST, "left")
        .select(
            *REQUEST, "broker", "client", "group_id", "member_id", "session_key", "session", "packet", "ts", "api",
            epoch.alias("epoch_used"), "error_code", "cause",
            F.when(ended, 0).when((error == 0) | failed_late | overtaken, following).alias("due_after"),
            (~error.eqNullSafe(F.lag(error).over(in_order))).cast("int").alias("starts_run"),
            *(F.lead(name).over(in_order).alias(f"next_{name}") for name in ("packet", "epoch", "error_code")),
        )
        .withColumns({
            "epoch_due": F.last("due_after", ignorenulls=True).over(earlier),
            "run": F.sum("starts_run").over(so_far),
        })
        .drop("due_after", "starts_run")
    )  # fmt: skip


def runs(epochs: DataFrame) -> DataFrame:
    """Return the runs of requests that were refused with error 122 or 123, each with its causes and its end."""
    next_epoch, next_error = F.col("last.next_epoch"), F.col("last.next_error_code")
    recovery = (
        F.when(F.col("last.next_packet").isNull(), "no later request")
        .when(next_error.isNull(), "next request unanswered")
        .when(next_error != 0, F.concat(F.lit("next error "), next_error))
        .when(next_epoch == 0, "new session")
        .when(next_epoch == -1, "session closed")
        .otherwise("due epoch used")
    )
    return (
        epochs.where(F.col("error_code").isin(SESSION_NOT_FOUND, INVALID_SESSION_EPOCH))
        .groupBy("capture", "broker", "group_id", "member_id", "session_key", "run", "error_code")
        .agg(
            F.min("ts").alias("started"),
            F.count("*").alias("refusals"),
            F.array_join(F.array_sort(F.collect_set("cause")), ", ").alias("causes"),
            F.min(F.struct("packet", "correlation_id", "epoch_used", "epoch_due")).alias("first"),
            F.max(F.struct("packet", "correlation_id", "next_packet", "next_epoch", "next_error_code")).alias("last"),
        )
        .select(
            "capture", "broker", "group_id", "member_id", "started", F.col("first.packet").alias("first_packet"),
            "error_code", "refusals", "first.epoch_used", "first.epoch_due", "causes", recovery.alias("recovery"),
        )
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("epochs").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    requests = epochs(*(spark.read.parquet(f"{options.tables}/{name}") for name in ("share_requests", "steps")))
    if options.output:
        requests.write.parquet(f"{options.output}/epochs")
        runs(requests).write.parquet(f"{options.output}/epoch_runs")
    else:
        shown = runs(requests).orderBy("capture", "first_packet").drop("broker", "group_id", "started")
        shown.show(1000, truncate=False)
