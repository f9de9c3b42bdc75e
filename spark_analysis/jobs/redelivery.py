"""Records that a share group received again (KIP-932), and why: as far as the packets prove it.

spark-submit redelivery.py TABLES [-o OUT]      TABLES: the folder of `kshark export` or `kshark-spark export`
"""

import argparse

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

RELEASE, RENEW = 2, 4
START, END = Window.unboundedPreceding, Window.unboundedFollowing
SHARE_PARTITION = ["capture", "group_id", "topic_id", "partition"]
SESSION = ["capture", "session_key", "session"]
RANGE = ["packet", "ts_ns", "first_offset", "last_offset", "member_id"]
EXCHANGE = ["capture", "flow_id", "exchange", "correlation_id"]
# Ranges are taken apart into records only in those blocks of 1,000 offsets in which a record came again.
BLOCKS = "explode(sequence(first_offset div 1000, last_offset div 1000))"
OFFSETS = "explode(sequence(greatest(first_offset, block * 1000), least(last_offset, block * 1000 + 999)))"
# Damaged bytes can hold any offsets; a share partition has at most 10,000 records in flight.
IS_RANGE = """first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
    AND last_offset div 1000 - first_offset div 1000 < 1000"""
# A single type stands for the whole range.
TYPE = "IF(size(types) = 1, types[0], get(types, int(offset - first_offset)))"


def redelivery(acquired: DataFrame, acknowledgements: DataFrame, steps: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return the redeliveries of each share partition by cause.

    released: its member gave the record back. session ended: the member closed its session, or lost it with connection
    or broker. lock expired: the acquisition lock was over. offsets reset: the record was finished, then counted from 1
    again. acknowledged: it was finished, and came again. before the capture: the first delivery is not in it.
    """
    earlier = Window.partitionBy(SHARE_PARTITION).orderBy("packet", "first_offset").rowsBetween(START, -1)
    # Kafka 4.1 takes back the count of a record whose session ends: a second delivery may have count 1.
    is_again = (F.col("delivery_count") > 1) | (F.col("first_offset") <= F.max("last_offset").over(earlier))
    # A new session with epoch 0 does not release the records of the one before: the next end of a session does.
    end_ns = F.expr("IF(ended NOT IN ('reopened', 'open'), closed_ts_ns, NULL)")
    later = Window.partitionBy("capture", "session_key").orderBy("session").rowsBetween(Window.currentRow, END)
    session_ends = sessions.select(*SESSION, F.first(end_ns, ignorenulls=True).over(later).alias("session_end_ns"))
    deliveries = (
        acquired.where(IS_RANGE)
        .select(*EXCHANGE, *SHARE_PARTITION[1:], *RANGE, "topic", "delivery_count", "lock_timeout_ms",
                is_again.alias("again"), F.lit(None).cast("array<int>").alias("types"))
        .join(steps.select(*EXCHANGE, *SESSION[1:]), EXCHANGE, "left")
        .join(session_ends, SESSION, "left")
        .drop(*SESSION[1:], *EXCHANGE[1:])
    )  # fmt: skip
    # The broker applied an acknowledgement only if the response names its partition, without an error.
    answers = acknowledgements.where("error_code = 0").where(IS_RANGE).select(*SHARE_PARTITION, *RANGE, "types")
    blocks = deliveries.where("again").select(*SHARE_PARTITION, F.expr(BLOCKS).alias("block")).distinct()
    events = (
        deliveries.unionByName(answers, allowMissingColumns=True)
        .withColumn("block", F.expr(BLOCKS))
        .join(blocks, [*SHARE_PARTITION, "block"], "left_semi")
        .withColumn("offset", F.expr(OFFSETS))
        .withColumn("type", F.expr(TYPE))
    )

    earlier = Window.partitionBy(*SHARE_PARTITION, "offset").orderBy("packet", "type").rowsBetween(START, -1)
    is_delivery = F.col("types").isNull()
    event = F.struct("type", "member_id", "ts_ns", "lock_timeout_ms", "session_end_ns")
    before = F.last(F.when(is_delivery | (F.col("type") != RENEW), event), ignorenulls=True).over(earlier)
    locked_ns = F.last(F.when(is_delivery | (F.col("type") == RENEW), F.col("ts_ns")), ignorenulls=True).over(earlier)
    expires_ns = F.col("locked_ns") + F.col("before.lock_timeout_ms").cast("bigint") * 1_000_000
    ended_ns = F.when(F.col("before.session_end_ns") >= F.col("before.ts_ns"), F.col("before.session_end_ns"))
    cause = (
        F.when(F.col("before").isNull(), "before the capture")
        .when(F.col("before.type") == RELEASE, "released")
        .when(F.col("before.type").isNotNull(), F.expr("IF(delivery_count = 1, 'offsets reset', 'acknowledged')"))
        .when((ended_ns <= F.col("ts_ns")) & (expires_ns.isNull() | (ended_ns < expires_ns)), "session ended")
        .when(expires_ns <= F.col("ts_ns"), "lock expired")
        .otherwise("unknown")
    )
    return (
        events.select("*", before.alias("before"), locked_ns.alias("locked_ns"), is_delivery.alias("is_delivery"))
        .where("is_delivery AND (delivery_count > 1 OR before IS NOT NULL)")
        .groupBy(*SHARE_PARTITION, cause.alias("cause"))
        .agg(
            F.max("topic").alias("topic"),
            F.count("*").alias("redeliveries"),
            F.count_distinct("offset").alias("records"),
            F.count_if(F.col("member_id") != F.col("before.member_id")).alias("to_another_member"),
            F.max("delivery_count").alias("highest_delivery_count"),
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("redelivery").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    names = "acquired", "acknowledgements", "steps", "sessions"
    result = redelivery(*(spark.read.parquet(f"{options.tables}/{name}") for name in names))
    if options.output:
        result.write.parquet(options.output)
    else:
        result.orderBy(*SHARE_PARTITION, "cause").show(1000, truncate=False)
