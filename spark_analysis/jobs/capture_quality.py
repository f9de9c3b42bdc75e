"""How far captures can be trusted: connections, missing bytes, anomalies, and what can be judged.

spark-submit capture_quality.py TABLES [-o OUT]      TABLES: the folder of `kshark export` or `kshark-spark export`
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def capture_quality(
    flows: DataFrame, weirds: DataFrame, exchanges: DataFrame, findings: DataFrame, faults: DataFrame
) -> DataFrame:
    """Return a row for each capture.

    `judged`: all, parts or nothing; `because`: what stands in the way.
    """
    is_kafka = F.col("service") == "kafka"
    connections = flows.groupBy("capture").agg(
        F.count("*").alias("connections"),
        F.count_if(is_kafka).alias("kafka"),
        F.count_if(F.col("service") == "tls").alias("encrypted"),
        # Without the SYN the state at the beginning is unknown: open sessions, assignments, names.
        F.count_if(is_kafka & F.col("opened_by").isNull()).alias("begun_before"),
        F.count_if(is_kafka & ((F.col("client_bytes") == 0) != (F.col("broker_bytes") == 0))).alias("one_sided"),
        F.sum(F.col("client_bytes") + F.col("broker_bytes")).alias("bytes"),
        F.sum("gaps").alias("gaps"),
    )
    is_gap = (F.col("kind") == "gap") & (F.col("size_bytes") > 0)
    codes = weirds.groupBy("capture", "code").agg(
        F.sum("times").alias("times"),
        F.sum(F.when(is_gap, F.col("size_bytes")).otherwise(0)).alias("missing_bytes"),
    )
    most_first = F.array_sort(F.collect_list(F.struct((-F.col("times")).alias("order"), "code", "times")))
    anomalies = codes.groupBy("capture").agg(
        F.array_join(
            F.transform(most_first, lambda anomaly: F.concat(anomaly.code, F.lit(" x"), anomaly.times)), ", "
        ).alias("anomalies"),
        F.sum(F.when(F.col("code") == "SNAP_LENGTH_CUT", F.col("times")).otherwise(0)).alias("cut_packets"),
        F.sum("missing_bytes").alias("missing_bytes"),
    )
    outcomes = exchanges.groupBy("capture").agg(
        F.count_if(F.col("outcome") != "orphan").alias("requests"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in ("answered", "unanswered", "body_cut")),
        F.count_if(F.col("outcome") == "orphan").alias("orphans"),
    )
    verdicts = findings.groupBy("capture").agg(
        F.count_if(F.col("verdict") == "violation").alias("violations"),
        F.count_if(F.col("verdict") == "unknown").alias("unproved"),
        F.count_if(F.col("verdict") == "note").alias("notes"),
    )
    unread = faults.groupBy("capture").agg(F.min("code").alias("fault"))

    parts = (connections, anomalies, outcomes, verdicts, unread)
    result = flows.select("capture").union(faults.select("capture")).distinct()
    for part in parts:
        result = result.join(part, "capture", "left")
    numbers = [name for name, kind in result.dtypes if kind == "bigint"]
    reasons = F.array(
        F.when(F.col("fault").isNotNull(), F.concat(F.lit("not read: "), "fault")),
        F.when(F.col("kafka") == 0, "no Kafka connection"),
        F.when(F.col("encrypted") > 0, F.concat("encrypted", F.lit(" encrypted"))),
        F.when(F.col("gaps") > 0, F.concat("gaps", F.lit(" gaps"))),
        F.when(F.col("cut_packets") > 0, F.concat("cut_packets", F.lit(" packets cut"))),
        F.when(F.col("one_sided") > 0, F.concat("one_sided", F.lit(" with one direction only"))),
        F.when(F.col("begun_before") > 0, F.concat("begun_before", F.lit(" begun before"))),
    )
    judged = F.when(F.col("answered") == 0, "nothing").when(F.col("because") == "", "all").otherwise("parts")
    result = result.fillna(0, numbers).withColumn("because", F.array_join(F.array_compact(reasons), ", "))
    return result.withColumn("judged", judged)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="folder that kshark export wrote")
    parser.add_argument("-o", "--output", help="folder for Parquet, instead of a table on the screen")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("capture_quality").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    names = "flows", "weirds", "exchanges", "findings", "faults"
    result = capture_quality(*(spark.read.parquet(f"{options.tables}/{name}") for name in names))
    if options.output:
        result.write.parquet(options.output)
    else:
        columns = ["judged", "because", "connections", "kafka", "bytes", "missing_bytes", "requests", "answered"]
        shown = result.orderBy("judged", "capture").select("capture", *columns, "violations", "unproved", "anomalies")
        shown.show(1000, truncate=60)
