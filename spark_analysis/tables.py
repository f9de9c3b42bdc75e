"""Rows of an export's tables as one DataFrame: each holds a row of one table, in the column of its name; the other columns are null."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.output.manifest import read_manifest
from kshark.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The tables that the analysis needs.
NEEDED: Final = ("exchanges", "flows", "weirds")


def struct_of(table: str) -> str:
    """A row of a table as a type of Spark SQL."""
    return f"struct<{', '.join(f'{column.name}: {column.type}' for column in TABLES[table].columns)}>"


def exported(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of an export: those of the files that its manifest lists."""
    from pyspark.sql import functions as F

    frames, tables = [], read_manifest(folder).tables
    for name in NEEDED:
        files = [str(folder.absolute() / file.path) for file in tables[name].files]
        table = spark.read.schema(TABLES[name].ddl).parquet(*files)
        columns = [F.struct("*") if other == name else F.lit(None) for other in NEEDED]
        frames.append(table.select(*(column.cast(struct_of(other)).alias(other) for column, other in zip(columns, NEEDED, strict=True))))
    return reduce(lambda one, two: one.unionByName(two), frames)
