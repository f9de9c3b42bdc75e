"""The tables of an export: as DataFrames, and as files whose columns tasks read themselves (kshark_spark.slices)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kshark.capture.paths import absolute, inside, named
from kshark.errors import UsageError
from kshark.output.manifest import Content, StoredFile, read_manifest
from kshark.output.table_folder import is_store
from kshark.tables import TABLES
from kshark_spark.slices import FilePart, Slice, in_slices, row_groups

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


def exported(spark: SparkSession, folder: str | Path) -> Tables:
    """Return the tables of an export, on this machine or in a store, from the files in its manifest."""
    there = read_manifest(folder).tables
    names = [*READ, *(name for name in _OPENED if name in there)]
    contents = {name: _content(folder, there, name) for name in names}
    files = {name: [(_path(folder, file), file.rows) for file in contents[name].files] for name in names}
    return Tables({name: _frame(spark, folder, name, contents[name]) for name in names}, files)


def one_exported(spark: SparkSession, folder: str | Path, name: str) -> DataFrame:
    """Return one table of an export; columns that an earlier kshark did not write are null.

    Raises kshark.UsageError if it has none of that name.
    """
    return _frame(spark, folder, name, _content(folder, read_manifest(folder).tables, name))


def _content(folder: str | Path, there: Mapping[str, Content], name: str) -> Content:
    if name not in there:
        raise UsageError(f'{folder} has no table "{name}"; it has {", ".join(there)}')
    return there[name]


def _path(folder: str | Path, file: StoredFile) -> str:
    return inside(absolute(str(named(folder))), file.path)


def _frame(spark: SparkSession, folder: str | Path, name: str, content: Content) -> DataFrame:
    if is_store(folder):
        return _from_store(spark, name, [(_path(folder, file), file.rows) for file in content.files])
    paths: dict[int, list[str]] = {}
    for file in content.files:
        paths.setdefault(content.version_of(file), []).append(_path(folder, file))
    frames = [_of_version(spark, name, version, files) for version, files in paths.items()]
    return reduce(lambda frame, other: frame.union(other), frames)


def _of_version(spark: SparkSession, name: str, version: int, paths: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    table, earlier = TABLES[name], TABLES[name].of_version(version)
    frame = spark.read.schema(earlier.ddl).parquet(*paths)
    if len(earlier.columns) == len(table.columns):
        return frame
    present = {column.name for column in earlier.columns}
    return frame.select(
        *(
            F.col(column.name) if column.name in present else F.lit(None).cast(column.type).alias(column.name)
            for column in table.columns
        )
    )


def _from_store(spark: SparkSession, name: str, files: Sequence[tuple[str, int]]) -> DataFrame:
    """Return the rows of a store's files, which tasks open by themselves."""

    def rows(slice_: Slice) -> Iterator[pa.RecordBatch]:
        for group in row_groups(name, slice_[name]):
            yield from group.plain().to_batches()

    slices: list[Slice] = [{name: [FilePart(path, rows, 0, rows)]} for path, rows in files]
    return in_slices(spark, slices, TABLES[name].ddl, rows)
