"""Split tables into slices for tasks that read columns themselves, with pyarrow.

Spark converts columns to rows and cells to strings. Reading the stored columns, with dictionary-encoded names, is five
to ten times faster. Rows of a table are in the order of their captures' packets, so that a slice of several tables
covers about the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kshark.output.parquet import arrow_schema
from kshark.output.parquet_files import columns_of
from kshark.tables import TABLES
from kshark_spark.rows import Batches, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of all tables in one slice.
ROWS: Final = 250_000

#: Rows whose bodies are read together.
_TOGETHER: Final = 16_384
_NAMES: Final = pa.dictionary(pa.int32(), pa.string())

#: TableFiles with their numbers of rows, by table.
TableFiles = Mapping[str, Sequence[tuple[str, int]]]


class FilePart(NamedTuple):
    """The row groups of a file that begin between rows `begin` and `end`; the file has `rows` rows."""

    path: str
    rows: int
    begin: int
    end: int


Truths = NDArray[np.bool_]
#: Parts of several tables, by name.
Slice = Mapping[str, Sequence[FilePart]]


def slices_of(files: TableFiles, names: Sequence[str]) -> list[Slice]:
    """Return the slices, each with its parts of these tables."""
    total = sum(rows for name in names for _, rows in files[name])
    count = max(1, -(-total // ROWS))
    slices: list[dict[str, list[FilePart]]] = [{name: [] for name in names} for _ in range(count)]
    for name in names:
        rest = sum(rows for _, rows in files[name])
        edges, before = [at * rest // count for at in range(count + 1)], 0
        for path, rows in files[name]:
            for slice_, begin, end in zip(slices, edges, edges[1:], strict=False):
                if begin < before + rows and end > before:
                    slice_[name].append(FilePart(path, rows, max(0, begin - before), min(rows, end - before)))
            before += rows
    return [*slices]


class RowGroup:
    """A row group of a table's file. Columns that files of its version lack are null."""

    def __init__(self, name: str, file: pq.ParquetFile, group: int) -> None:
        self._name, self._file, self._group = name, file, group
        version = file.metadata.metadata.get(b"kshark.table_version")
        table = TABLES[name] if version is None else TABLES[name].of_version(int(version))
        self._present = {column.name for column in table.columns}

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return columns; strings are dictionary-encoded, except bodies."""
        present = self._there(columns)
        return self._whole(self._file.read_row_group(self._group, present, use_threads=False), columns)

    def plain(self) -> pa.Table:
        """Return all columns, with the table's own types."""
        schema = arrow_schema(TABLES[self._name])
        return self.read(schema.names).cast(schema)

    def chosen(self, columns: Sequence[str], rows: Truths) -> pa.Table:
        """Return columns of the selected rows.

        Rows are read in small batches: all bodies of a group exceed the CPU caches and take twice as long.
        """
        at, batches = 0, []
        for batch in self._file.iter_batches(_TOGETHER, [self._group], self._there(columns), use_threads=False):
            few = np.flatnonzero(rows[at : at + len(batch)])
            if len(few):
                batches.append(batch.take(pa.array(few)))
            at += len(batch)
        if not batches:
            return _schema(self._name, columns).empty_table()
        return self._whole(pa.Table.from_batches(batches).unify_dictionaries(), columns)

    def _there(self, columns: Sequence[str]) -> list[str]:
        return [column for column in columns if column in self._present]

    def _whole(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return the rows with all these columns."""
        schema = _schema(self._name, columns)
        for column in columns:
            if column not in self._present:
                rows = rows.append_column(column, pa.nulls(len(rows), schema.field(column).type))
        return rows.select(columns).cast(schema)


def row_groups(name: str, parts: Sequence[FilePart]) -> Iterator[RowGroup]:
    """Yield the row groups of a slice of a table; each belongs to the part in which it begins."""
    coded = [
        field.name
        for field in _schema(name, [column.name for column in TABLES[name].columns])
        if pa.types.is_dictionary(field.type)
    ]
    for part in parts:
        at = 0
        with columns_of(part.path, coded) as file:
            for group in range(file.num_row_groups):
                if part.begin <= at < part.end:
                    yield RowGroup(name, file, group)
                at += file.metadata.row_group(group).num_rows


def read(name: str, parts: Sequence[FilePart], columns: Sequence[str]) -> pa.Table:
    """Return columns of a slice of a table."""
    return pa.concat_tables(
        [_schema(name, columns).empty_table(), *(group.read(columns) for group in row_groups(name, parts))]
    )


def in_slices(
    spark: SparkSession, slices: Sequence[Slice], ddl: str, work: Callable[[Slice], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """Return the rows that `work` makes of each slice, one task per slice."""

    def made(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(slices[number])

    return spark.range(0, len(slices), 1, len(slices)).mapInArrow(made, ddl)


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield all rows. Null and dictionary columns are converted as a whole, which is faster than Arrow's way."""
    return zip(*map(_cells, table.columns), strict=True)


def _cells(column: pa.ChunkedArray) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks()
        names = [*column.dictionary.to_pylist(), None]
        return [names[code] for code in column.indices.fill_null(len(names) - 1).to_pylist()]
    if pa.types.is_integer(column.type) and not column.null_count:
        cells: list[Any] = column.to_numpy().tolist()
        return cells
    return column.to_pylist()  # type: ignore[no-any-return]


def _schema(name: str, columns: Sequence[str]) -> pa.Schema:
    schema = arrow_schema(TABLES[name])
    fields = (schema.field(column) for column in columns)
    return pa.schema(
        [
            field.with_type(_NAMES) if field.type == pa.string() and not _is_body(field.name) else field
            for field in fields
        ]
    )


def _is_body(column: str) -> bool:
    return column.endswith("_json")
