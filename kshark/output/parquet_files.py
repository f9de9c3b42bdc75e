"""The Parquet files that one process or task writes: in a hidden folder, or in a store at their place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kshark.capture.paths import inside, is_remote
from kshark.output.parquet import arrow_schema, coded, record_batch, stored_schema
from kshark.output.parquet_partitions import NULL, Partitions
from kshark.tables import TABLES, Block, Column, Table
from kshark.tables.names import Names

#: Rows and bytes of a row group.
GROUP_ROWS: Final = 256 << 10
GROUP_BYTES: Final = 8 << 20
#: Bytes that are compressed together; with Arrow's default of 1 MB, JSON takes twice the space.
PAGE_BYTES: Final = 4 << 20
#: Most bytes of columns, over all tables, that wait for their row group.
HELD_BYTES: Final = 16 << 20
#: Bytes after which a new file begins: engines work best with 128 to 512 MB.
FILE_BYTES: Final = 256 << 20
#: Most open files of one table, one for each partition.
OPEN_FILES: Final = 32

_INTEGERS: Final = ("smallint", "int", "bigint", "timestamp")


class PartFile(msgspec.Struct, frozen=True):
    """A complete file: table, partition (`date=2026-11-22/`, mostly empty), path in the export's place, and the
    version of its columns.
    """

    table: str
    partition: str
    path: str
    rows: int
    size_bytes: int
    version: int


class OpenFile:
    """One Parquet file while it is written; without rows it has only the schema. No other attempt uses its name."""

    def __init__(self, place: str, id: str, table: Table, partition: str = "") -> None:
        self._place, self._table, self._partition = place, table, partition
        self._path = f"{table.name}/{partition}part-{uuid4().hex[:12]}-{id}.parquet"
        self.schema = coded(arrow_schema(table))
        self._rows = 0
        self._sink = _created(place, self._path)
        self._writer = pq.ParquetWriter(
            self._sink,
            self.schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=[
                column.name for column in table.columns if column.type == "string" and not _is_wide(column)
            ],
            column_encoding={
                column.name: "DELTA_BINARY_PACKED" for column in table.columns if column.type in _INTEGERS
            },
            data_page_size=PAGE_BYTES,
            write_page_index=True,
            # the schema would store connections' names as dictionaries; close() stores the plain types
            store_schema=False,
        )

    def write(self, chunks: list[pa.RecordBatch]) -> None:
        """Write the chunks as a row group."""
        self._rows += sum(map(len, chunks))
        self._writer.write_table(
            pa.Table.from_batches(chunks, self.schema).unify_dictionaries(), row_group_size=GROUP_ROWS
        )

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return int(self._sink.tell())

    def close(self) -> PartFile:
        self._writer.add_key_value_metadata(arrow_schema(self._table).metadata | stored_schema(self._table))
        self._writer.close()
        size = self.size_bytes
        self._sink.close()
        return PartFile(self._table.name, self._partition, self._path, self._rows, size, self._table.version)


def _created(place: str, path: str) -> pa.NativeFile:
    if is_remote(place):
        from kshark.capture import stores

        return stores.create(inside(place, path))
    local = Path(place, path)
    local.parent.mkdir(parents=True, exist_ok=True)
    return pa.OSFile(str(local), "wb")


def columns_of(file: str, coded: Collection[str] = ()) -> pq.ParquetFile:
    """Open a Parquet file on this machine or in a store; the columns `coded`, as far as it has them, are read as
    dictionary codes.
    """
    source: Any = file
    if is_remote(file):
        from kshark.capture import stores

        source = stores.open_columns(file)
    metadata = pq.read_metadata(source)
    there = {*metadata.schema.names}
    return pq.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=[name for name in coded if name in there],
        pre_buffer=is_remote(file),
    )


def empty_file(place: str, id: str, table: Table, partition_by: Sequence[str]) -> PartFile:
    """Write a file with only the schema, for a table without files."""
    return OpenFile(place, id, table, "".join(f"{name}={NULL}/" for name in partition_by)).close()


def without(place: str, id: str, files: Iterable[PartFile], captures: Collection[str]) -> list[PartFile]:
    """Rewrite the files without the rows of these captures, except `faults`; files without rows are dropped."""
    rest = [_without(place, id, file, captures) if captures and file.table != "faults" else file for file in files]
    return [file for file in rest if file.rows]


def _without(place: str, id: str, file: PartFile, captures: Collection[str]) -> PartFile:
    import pyarrow.compute as pc  # the import takes 30 ms and is rarely needed

    left_out, rest = pa.array(captures, pa.string()), OpenFile(place, id, TABLES[file.table], file.partition)
    with columns_of(inside(place, file.path)) as read:
        for group in range(read.num_row_groups):
            rows = read.read_row_group(group)
            rest.write(rows.filter(pc.invert(pc.is_in(rows["capture"], left_out))).cast(rest.schema).to_batches())
    return rest.close()


def _is_wide(column: Column) -> bool:
    """True if a column's cells may be large: such columns contain nearly all bytes of a table."""
    return column.type == "binary" or column.name.endswith("_json")


class TableFiles:
    """The files of one table: rows wait for their row group; a full file is followed by another one.

    Each partition has its own files.
    """

    def __init__(self, place: str, id: str, table: Table, partitions: Partitions) -> None:
        self._place, self._id, self._table, self._partitions = place, id, table, partitions
        self._schema = coded(arrow_schema(table))
        self._open: dict[str, OpenFile] = {}
        self._ended: list[PartFile] = []
        self._chunks: list[tuple[pa.RecordBatch, Names | None]] = []
        self._chunk_rows = 0
        #: Bytes of the columns that wait for their row group.
        self.held_bytes = 0

    def add(self, block: Block, names: Names | None) -> None:
        chunk = record_batch(self._schema, block)
        self._chunks.append((chunk, names if self._partitions.by_cluster else None))
        self._chunk_rows += len(chunk)
        self.held_bytes += chunk.nbytes
        if self._chunk_rows >= GROUP_ROWS or self.held_bytes >= GROUP_BYTES:
            self.to_group()

    def to_group(self) -> None:
        """Write the waiting columns as a row group, one in each partition."""
        groups: dict[str, list[pa.RecordBatch]] = {}
        for chunk, names in self._chunks:
            for partition, rows in self._partitions.split(chunk, names):
                groups.setdefault(partition, []).append(rows)
        for partition, chunks in groups.items():
            file = self._open.pop(partition, None) or OpenFile(self._place, self._id, self._table, partition)
            file.write(chunks)
            if file.size_bytes >= FILE_BYTES:
                self._ended.append(file.close())
            else:
                self._open[partition] = file
            if len(self._open) > OPEN_FILES:
                oldest = next(iter(self._open))
                self._ended.append(self._open.pop(oldest).close())
        self._chunks, self._chunk_rows, self.held_bytes = [], 0, 0

    def close(self) -> list[PartFile]:
        """Return the complete files; none without rows."""
        self.to_group()
        return [*self._ended, *(file.close() for file in self._open.values())]

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return sum(file.size_bytes for file in self._ended) + sum(file.size_bytes for file in self._open.values())


class PartFiles:
    """The files of all tables, in the folder `place`, with `id` in their names."""

    def __init__(self, place: str, id: str, partitions: Partitions) -> None:
        self._tables = {name: TableFiles(place, id, table, partitions) for name, table in TABLES.items()}

    def add(self, page: Iterable[tuple[str, Block]], names: Names | None = None) -> None:
        """Add blocks of kshark.tables.Rows; `names`, its names, provide the clusters for partitions."""
        for name, block in page:
            self._tables[name].add(block, names)
            while sum([table.held_bytes for table in self._tables.values()]) > HELD_BYTES:
                max(self._tables.values(), key=attrgetter("held_bytes")).to_group()

    def close(self) -> list[PartFile]:
        return [file for table in self._tables.values() for file in table.close()]

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return sum(table.size_bytes for table in self._tables.values())
