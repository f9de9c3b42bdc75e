"""An export's tables as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.output.manifest import read_manifest
from kshark.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    #: By name.
    Tables = Mapping[str, DataFrame]

#: The tables that a check or a report may ask for.
READ: Final = ("exchanges", "share_requests", "heartbeats", "flows", "weirds")


def exported(spark: SparkSession, folder: Path) -> Tables:
    """The rows of an export: those of the files that its manifest lists."""
    tables = read_manifest(folder).tables
    return {
        name: spark.read.schema(TABLES[name].ddl).parquet(*(str(folder.absolute() / file.path) for file in tables[name].files))
        for name in READ
    }
