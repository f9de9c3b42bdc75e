"""DataFrames for notebooks: tables of captures, or of a folder of exported tables.

`kshark explain tables` lists the columns.

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
    """Return the findings, one per row: broken rules, who broke them, the evidence."""
    return table(spark, "findings", *paths, **options)


def sessions(spark: SparkSession, *paths: str | Path, **options: str | bool) -> DataFrame:
    """Return the share sessions, one per row."""
    return table(spark, "sessions", *paths, **options)


def messages(spark: SparkSession, *paths: str | Path, **options: str | bool) -> DataFrame:
    """Return the exchanges, one per row: a request with its response, both bodies as JSON."""
    return table(spark, "exchanges", *paths, **options)


def table(spark: SparkSession, name: str, *paths: str | Path, **options: str | bool) -> DataFrame:
    """Return a table of captures, or of one folder of tables. `options` of `format("kshark")` apply to captures only.

    Raises kshark.UsageError if a folder has no such table, or if other paths or options are given with it.
    """
    folders = [path for path in paths if is_tables(path)]
    if not folders:
        return spark.read.format("kshark").options(table=name, **options).load([absolute(str(path)) for path in paths])
    if len(paths) > 1 or options:
        raise UsageError(
            f"{folders[0]} is a folder of tables; name no other path with it, and no options: the export applied them"
        )
    return one_exported(spark, folders[0], name)
