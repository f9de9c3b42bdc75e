"""The Parquet files that one process or task writes, in a folder out of sight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kshark.output.parquet import arrow_schema, coded, record_batch, stored_schema
from kshark.output.parquet_partitions import NULL, Partitions
from kshark.tables import TABLES, Block, Column, Table
from kshark.tables.names import Names

#: A row group has so many rows or bytes.
GROUP_ROWS: Final = 256 << 10
GROUP_BYTES: Final = 8 << 20
#: Bytes that are compressed together; with Arrow's 1 MB, JSON takes twice as much.
PAGE_BYTES: Final = 4 << 20
#: Bytes of columns, over all tables, that may wait for their row group.
HELD_BYTES: Final = 16 << 20
#: A file that has so many bytes is ended and another one begun: engines like 128 to 512 MB.
FILE_BYTES: Final = 256 << 20
#: Of one table, files of so many partitions are open at a time.
OPEN_FILES: Final = 32

_INTEGERS: Final = ("smallint", "int", "bigint", "timestamp")


class PartFile(msgspec.Struct, frozen=True):
    """A complete file: its table, its partition (`date=2026-11-22/`, mostly empty), and where it waits, below the
    staging folder."""

    table: str
    partition: str
    path: str
    rows: int
    size_bytes: int


class OpenFile:
    """One Parquet file while it is written; without a row it has the schema alone. Its name is no other attempt's."""

    def __init__(self, staging: Path, table: Table, partition: str = "") -> None:
        self._staging, self._table, self._partition = staging, table, partition
        self._path = staging / table.name / f"{uuid4().hex}.parquet"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.schema = coded(arrow_schema(table))
        self._rows = 0
        self._sink = pa.OSFile(str(self._path), "wb")
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
            store_schema=False,
            # it would say that names of connections are not strings; close() says what the columns are
        )

    def write(self, chunks: list[pa.RecordBatch]) -> None:
        """The chunks become a row group."""
        self._rows += sum(map(len, chunks))
        self._writer.write_table(
            pa.Table.from_batches(chunks, self.schema).unify_dictionaries(), row_group_size=GROUP_ROWS
        )

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return int(self._sink.tell())

    def close(self) -> PartFile:
        self._writer.add_key_value_metadata(arrow_schema(self._table).metadata | stored_schema(self._table))
        self._writer.close()
        self._sink.close()
        path = self._path.relative_to(self._staging)
        return PartFile(self._table.name, self._partition, str(path), self._rows, self._path.stat().st_size)


def empty_file(staging: Path, table: Table, partition_by: Sequence[str]) -> PartFile:
    """A file with the schema alone, for a table that would have none."""
    return OpenFile(staging, table, "".join(f"{name}={NULL}/" for name in partition_by)).close()


def without(staging: Path, files: Iterable[PartFile], captures: Collection[str]) -> list[PartFile]:
    """The files again, without the rows of these captures, those of `faults` excepted; a file without a row is none."""
    rest = [_without(staging, file, captures) if captures and file.table != "faults" else file for file in files]
    return [file for file in rest if file.rows]


def _without(staging: Path, file: PartFile, captures: Collection[str]) -> PartFile:
    import pyarrow.compute as pc  # 30 ms, for what is rare

    left_out, rest = pa.array(captures, pa.string()), OpenFile(staging, TABLES[file.table], file.partition)
    with pq.ParquetFile(staging / file.path) as read:
        for group in range(read.num_row_groups):
            rows = read.read_row_group(group)
            rest.write(rows.filter(pc.invert(pc.is_in(rows["capture"], left_out))).cast(rest.schema).to_batches())
    return rest.close()


def _is_wide(column: Column) -> bool:
    """Whether a column's cells may be large: such columns hold nearly all of a table's bytes."""
    return column.type == "binary" or column.name.endswith("_json")


class TableFiles:
    """The files of one table: rows wait for their row group; a file that is full is followed by another; each partition
    has its own."""

    def __init__(self, staging: Path, table: Table, partitions: Partitions) -> None:
        self._staging, self._table, self._partitions = staging, table, partitions
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
        """Writes the waiting columns as a row group, one in each partition."""
        groups: dict[str, list[pa.RecordBatch]] = {}
        for chunk, names in self._chunks:
            for partition, rows in self._partitions.split(chunk, names):
                groups.setdefault(partition, []).append(rows)
        for partition, chunks in groups.items():
            file = self._open.pop(partition, None) or OpenFile(self._staging, self._table, partition)
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
        """The complete files; none where there was no row."""
        self.to_group()
        return [*self._ended, *(file.close() for file in self._open.values())]

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return sum(file.size_bytes for file in self._ended) + sum(file.size_bytes for file in self._open.values())


class PartFiles:
    """The files of all tables, below the folder `staging`."""

    def __init__(self, staging: Path, partitions: Partitions) -> None:
        self._tables = {name: TableFiles(staging, table, partitions) for name, table in TABLES.items()}

    def add(self, page: Iterable[tuple[str, Block]], names: Names | None = None) -> None:
        """Blocks of rows as kshark.tables.Rows gives them; `names`, its names, tell clusters where there is a partition
        for each."""
        for name, block in page:
            self._tables[name].add(block, names)
            while sum([table.held_bytes for table in self._tables.values()]) > HELD_BYTES:
                max(self._tables.values(), key=attrgetter("held_bytes")).to_group()

    def close(self) -> list[PartFile]:
        return [file for table in self._tables.values() for file in table.close()]

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return sum(table.size_bytes for table in self._tables.values())
