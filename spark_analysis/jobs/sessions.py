"""One row per share session (KIP-932): its life, its epochs, and what its member did with the records.

spark-submit sessions.py TABLES [-o OUT]      TABLES: the folder of `kshark export` or `kshark-spark export`
"""

import argparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH = 122, 123
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SESSION = ["capture", "session_key", "session"]
EXCHANGE = ["capture", "flow_id", "exchange", "correlation_id"]
# Damaged bytes can hold any offsets; a share partition has at most 10,000 records in flight.
IS_RANGE = """first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
    AND last_offset div 1000 - first_offset div 1000 < 1000"""


def sessions(sessions: DataFrame, steps: DataFrame, acquired: DataFrame, acknowledgements: DataFrame) -> DataFrame:
    """Return the sessions of the table `sessions`, with their requests and the records of these."""
    session_of = steps.where("session IS NOT NULL").select(*SESSION, *EXCHANGE)
    size = F.expr(f"IF({IS_RANGE}, last_offset - first_offset + 1, 0)")

    def records(kind: int) -> Column:
        """Count the records of one type. A single type stands for the whole range, else each offset has its own."""
        each = F.size(F.filter("types", lambda type_: type_ == kind))
        return F.sum(F.when(F.size("types") == 1, each * size).otherwise(each))

    requests = steps.groupBy(SESSION).agg(
        F.count_if(F.col("api") == "ShareFetch").alias("fetches"),
        F.count_if(F.col("api") == "ShareAcknowledge").alias("acknowledge_requests"),
        F.count_if(F.col("error_code") == INVALID_SHARE_SESSION_EPOCH).alias("epoch_refusals"),
        F.count_if(F.col("error_code") == SHARE_SESSION_NOT_FOUND).alias("not_found_refusals"),
        F.count_if(F.col("outcome") == "unanswered").alias("unanswered"),
    )
    deliveries = acquired.join(session_of, EXCHANGE).groupBy(SESSION).agg(
        F.sum(size).alias("records_acquired"),
        F.sum(F.when(F.col("delivery_count") > 1, size).otherwise(0)).alias("records_redelivered"),
    )  # fmt: skip
    # The broker applied an acknowledgement only if the response names its partition, without an error.
    answers = acknowledgements.where("error_code = 0").join(session_of, EXCHANGE).groupBy(SESSION).agg(
        records(ACCEPT).alias("records_accepted"),
        records(RELEASE).alias("records_released"),
        records(REJECT).alias("records_rejected"),
        records(RENEW).alias("records_renewed"),
        records(GAP).alias("offsets_without_record"),
    )  # fmt: skip
    counts = [name for table in (requests, deliveries, answers) for name in table.columns if name not in SESSION]
    return (
        sessions.join(requests, SESSION, "left").join(deliveries, SESSION, "left").join(answers, SESSION, "left")
        .select(
            "capture", "group_id", "member_id", "broker", "client", "session",
            F.expr("timestamp_micros(opened_ts_ns div 1000)").alias("opened"),
            F.expr("timestamp_micros(closed_ts_ns div 1000)").alias("closed"),
            "ended", "connections", "first_epoch", "last_epoch", "requests", "accepted",
            *(F.coalesce(name, F.lit(0)).alias(name) for name in counts),
        )
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("sessions").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    names = "sessions", "steps", "acquired", "acknowledgements"
    result = sessions(*(spark.read.parquet(f"{options.tables}/{name}") for name in names))
    if options.output:
        result.write.parquet(options.output)
    else:
        columns = ["epoch_refusals", "not_found_refusals", "records_acquired", "records_accepted", "records_released"]
        shown = result.select("capture", "member_id", "session", "opened", "ended", "last_epoch", "requests", *columns)
        shown.orderBy("capture", "opened").show(1000, truncate=False)
