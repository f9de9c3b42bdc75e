"""DataFrames for notebooks: tables of captures, or of the folder to which these were exported; `kshark explain tables`
tells the columns.

>>> from kshark_spark.frames import check, table                        # doctest: +SKIP
>>> check(spark, "/captures").groupBy("code").count().show()              # doctest: +SKIP
>>> table(spark, "acquired", "a.pcap", "b.pcap", each=True).count()       # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kshark.capture.paths import absolute
from kshark.errors import UsageError
from kshark.output.manifest import is_tables
from kshark_spark.tables import one_exported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check(spark: SparkSession, *paths: str | Path, **options: str | bool) -> DataFrame:
    """Which rules were broken, by whom, with the evidence: the findings, one a row."""
    return table(spark, "findings", *paths, **options)


def sessions(spark: SparkSession, *paths: str | Path, **options: str | bool) -> DataFrame:
    """The share sessions, one a row."""
    return table(spark, "sessions", *paths, **options)


def messages(spark: SparkSession, *paths: str | Path, **options: str | bool) -> DataFrame:
    """Each request with its answer, one exchange a row, both bodies as JSON."""
    return table(spark, "exchanges", *paths, **options)


def table(spark: SparkSession, name: str, *paths: str | Path, **options: str | bool) -> DataFrame:
    """A table of captures, or of one folder of tables. `options` are those of `format("kshark")`, for captures alone.

    Raises kshark.UsageError where a folder has no such table, or is not named alone.
    """
    folders = [Path(path) for path in paths if is_tables(Path(path))]
    if not folders:
        return spark.read.format("kshark").options(table=name, **options).load([absolute(str(path)) for path in paths])
    if len(paths) > 1 or options:
        raise UsageError(
            f"{folders[0]} is a folder of tables; it is read alone, and without options: they were its export's"
        )
    return one_exported(spark, folders[0], name)
