"""Where Spark looks for `format("kshark")`: any module whose name begins with pyspark_, for its DefaultSource."""

from spark_analysis.streaming import KsharkSource as DefaultSource

__all__ = ["DefaultSource"]
