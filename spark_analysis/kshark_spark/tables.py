"""The tables of an export: as DataFrames, and as files whose columns tasks read themselves (kshark_spark.slices)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.errors import UsageError
from kshark.output.manifest import Content, read_manifest
from kshark.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The tables that checks and reports read; `records` exists only if record batches were decoded.
READ: Final = ("exchanges", "share_requests", "acquired", "acknowledgements", "heartbeats", "flows", "weirds")
_OPENED: Final = ("records",)


@dataclass(frozen=True)
class Tables:
    """Tables by name: their rows, and their files with the number of rows."""

    frames: Mapping[str, DataFrame]
    files: Mapping[str, Sequence[tuple[str, int]]]

    def __getitem__(self, name: str) -> DataFrame:
        return self.frames[name]

    def __contains__(self, name: str) -> bool:
        return name in self.frames


def exported(spark: SparkSession, folder: Path) -> Tables:
    """Return the tables of an export, from the files in its manifest."""
    there = read_manifest(folder).tables
    names = [*READ, *(name for name in _OPENED if name in there)]
    files = {name: _files(folder, _content(folder, there, name)) for name in names}
    return Tables({name: _frame(spark, name, files[name]) for name in names}, files)


def one_exported(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return one table of an export. Raises kshark.UsageError if it has none of that name."""
    return _frame(spark, name, _files(folder, _content(folder, read_manifest(folder).tables, name)))


def _content(folder: Path, there: Mapping[str, Content], name: str) -> Content:
    if name not in there:
        raise UsageError(f'{folder} has no table "{name}"; it has {", ".join(there)}')
    return there[name]


def _files(folder: Path, content: Content) -> list[tuple[str, int]]:
    return [(str(folder.absolute() / file.path), file.rows) for file in content.files]


def _frame(spark: SparkSession, name: str, files: Sequence[tuple[str, int]]) -> DataFrame:
    return spark.read.schema(TABLES[name].ddl).parquet(*(path for path, _ in files))
