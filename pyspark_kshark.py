"""Where Spark looks for `format("kshark")`: any module whose name begins with pyspark_, for its DefaultSource."""

from kshark_spark.streaming import KsharkSource as DefaultSource

__all__ = ["DefaultSource"]
