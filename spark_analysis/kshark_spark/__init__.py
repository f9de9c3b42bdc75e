"""The same tables and findings on Spark, for captures of any number and size. Only this package imports pyspark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The setting with which Spark passes the conditions of `where` to a source.
FILTERS = "spark.sql.python.filterPushdown.enabled"

#: The command of Spark for workers, if nothing names another.
_DEFAULT_PYTHON = "python3"


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("kshark")` and `readStream`.

    Spark finds the source itself only if it is installed as a wheel, in the driver's Python. Where the session has
    the setting FILTERS, the source applies the conditions of `where` itself. On one machine, workers get the driver's
    Python unless PYSPARK_PYTHON names one: the first python3 of PATH, Spark's default, may lack kshark.
    """
    from kshark_spark.streaming import FilteredSource, KsharkSource

    context = getattr(spark, "_sc", None)  # none with Spark Connect
    if context is not None and context.pythonExec == _DEFAULT_PYTHON and context.master.startswith("local"):
        context.pythonExec = sys.executable
    spark.dataSource.register(FilteredSource if spark.conf.get(FILTERS, "false") == "true" else KsharkSource)
