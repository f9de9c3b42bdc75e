"""The same tables and findings on Spark, for captures of any number and size: the only package that imports pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("kshark")` known where Spark does not find it by itself (a Connect server without
    kshark)."""
    from kshark_spark.streaming import KsharkSource

    spark.dataSource.register(KsharkSource)
