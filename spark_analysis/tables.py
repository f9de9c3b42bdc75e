"""An export's tables as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.errors import UsageError
from kshark.output.manifest import read_manifest
from kshark.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    #: By name.
    Tables = Mapping[str, DataFrame]

#: The tables that a check or a report may ask for; and one that is only there where records were opened.
READ: Final = ("exchanges", "share_requests", "acquired", "acknowledgements", "heartbeats", "flows", "weirds")
_OPENED: Final = ("records",)


def exported(spark: SparkSession, folder: Path) -> Tables:
    """The rows of an export: those of the files that its manifest lists."""
    there = read_manifest(folder).tables
    return {name: one_exported(spark, folder, name) for name in (*READ, *(name for name in _OPENED if name in there))}


def one_exported(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """One table of an export. Raises kshark.UsageError where it has none of that name."""
    tables = read_manifest(folder).tables
    if name not in tables:
        raise UsageError(f'{folder} has no table "{name}"; it has {", ".join(tables)}')
    files = [str(folder.absolute() / file.path) for file in tables[name].files]
    return spark.read.schema(TABLES[name].ddl).parquet(*files)
