"""The same tables and findings on Spark, for captures of any number and size. Only this package imports pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("kshark")` if Spark does not find it itself (a Connect server without kshark)."""
    from kshark_spark.streaming import KsharkSource

    spark.dataSource.register(KsharkSource)
