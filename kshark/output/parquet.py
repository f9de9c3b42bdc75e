"""The tables as Parquet: DIR/<table>/part-*.parquet and DIR/manifest.json, which is written last: without it an export is incomplete."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET
from numpy.typing import NDArray

from kshark import __version__
from kshark.analysis import Told
from kshark.errors import UsageError
from kshark.model import Event
from kshark.tables import COMMON, TABLES, Block, Column, Rows, Table
from kshark.tables.blocks import Cells, Texts
from kshark.tables.captures import capture_names
from kshark.tables.types import Array, Struct, Type, parse_type

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter

MANIFEST: Final = "manifest.json"
#: Version of the manifest's format.
FORMAT: Final = 1
#: A row group has so many rows or bytes.
GROUP_ROWS: Final = 256 << 10
GROUP_BYTES: Final = 8 << 20
#: Bytes that are compressed together; with Arrow's 1 MB, JSON takes twice as much.
PAGE_BYTES: Final = 4 << 20
#: Bytes of columns, over all tables, that may wait for their row group.
HELD_BYTES: Final = 16 << 20

_SCALARS: Final[dict[str, Callable[[], Any]]] = {
    "boolean": pa.bool_,
    "smallint": pa.int16,
    "int": pa.int32,
    "bigint": pa.int64,
    "string": pa.string,
    "binary": pa.binary,
    "timestamp": lambda: pa.timestamp("us", "UTC"),
}
_INTEGERS: Final = ("smallint", "int", "bigint", "timestamp")
#: The common columns that come from a row's connection.
_CODED: Final = pa.dictionary(pa.int32(), pa.string())
_NAMES: Final = ("capture", "flow_id", "broker", "client")


def arrow_type(type: Type) -> pa.DataType:
    """A column's type in Arrow."""
    match type:
        case Array(element):
            return pa.list_(arrow_type(element))
        case Struct(fields):
            return pa.struct([pa.field(name, arrow_type(field)) for name, field in fields])
        case _:
            return _SCALARS[type]()


def arrow_schema(table: Table) -> pa.Schema:
    """A table's schema, equal to what Spark makes of its DDL; the metadata says who wrote it."""
    fields = [pa.field(column.name, arrow_type(parse_type(column.type))) for column in table.columns]
    return pa.schema(fields, metadata={"kshark": __version__, "kshark.table": table.name, "kshark.table_version": str(table.version)})


def coded(schema: pa.Schema) -> pa.Schema:
    """The schema with connections' names as dictionary codes: Parquet stores them so, and need not search for equal names."""
    return pa.schema([field.with_type(_CODED) if field.name in _NAMES else field for field in schema])


def record_batch(schema: pa.Schema, block: Block) -> pa.RecordBatch:
    """A block of the table's rows in Arrow; the schema is `coded` or plain."""
    common = _common(block)
    arrays = [common[column.name] for column in COMMON]
    arrays = [array if array.type == field.type else array.dictionary_decode() for array, field in zip(arrays, schema, strict=False)]
    arrays += [_column(cells, field.type, len(block)) for cells, field in zip(block.own, list(schema)[len(COMMON) :], strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _common(block: Block) -> dict[str, pa.Array]:
    """The common columns by name; connections are few, so their names are converted once."""
    numbers = {where: number for number, where in enumerate(dict.fromkeys(block.where))}
    of_rows = np.array([numbers[where] for where in block.where], np.int32)
    names = {name: _coded([getattr(where, name) for where in numbers], of_rows) for name in _NAMES}
    ts_ns = np.array(block.time_ns, np.int64)
    ts = pa.array(ts_ns // 1000, pa.timestamp("us", "UTC"))
    packet = pa.array(block.packet, pa.int64())
    exchange = packet if block.exchange is block.packet else pa.array(block.exchange, pa.int64())
    return {**names, "packet": packet, "ts": ts, "ts_ns": pa.array(ts_ns), "exchange": exchange}


def _coded(names: list[str | None], of_rows: NDArray[np.int32]) -> pa.DictionaryArray:
    """A column of names as dictionary codes; Parquet's writer wants a dictionary without duplicates and nulls."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    codes = np.array([-1 if name is None else numbers[name] for name in names], np.int32)[of_rows]
    indices = pa.array(codes, mask=codes < 0) if None in names else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbers), pa.string()))


def _column(cells: Cells, type: pa.DataType, length: int) -> pa.Array:
    """A column; an array of structs is built from its flat fields, which is five times faster than from dicts."""
    if cells is None:
        return pa.nulls(length, type)
    if isinstance(cells, Texts):
        return _texts(cells)
    if pa.types.is_list(type) and pa.types.is_struct(type.value_type):
        return _structs(cells, type)
    try:
        return pa.array(cells, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # an UNSET; they are rare, and to look for them takes as long as the conversion
        return pa.array([None if cell is UNSET else cell for cell in cells], type)


def _structs(cells: Sequence[Any], type: pa.DataType) -> pa.Array:
    begins, flat, at = [], [], 0
    for cell in cells:
        begins.append(None if cell is None or cell is UNSET else at)
        if cell:
            flat.extend(cell)
            at += len(cell)
    begins.append(at)
    fields = list(type.value_type)
    members = list(zip(*flat, strict=True)) if flat else [()] * len(fields)
    struct = pa.StructArray.from_arrays(
        [_column(member, field.type, len(flat)) for member, field in zip(members, fields, strict=True)], fields=fields
    )
    return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), struct, type=type)


def _texts(texts: Texts) -> pa.Array:
    """A column of strings without copying their bytes: a list of bytes first, from whose beginnings Arrow makes offsets and nulls."""
    data = pa.py_buffer(texts.data)
    lists = pa.ListArray.from_arrays(pa.array(texts.begins, pa.int32()), pa.UInt8Array.from_buffers(pa.uint8(), data.size, [None, data]))
    nulls, offsets = lists.buffers()[:2]
    return pa.StringArray.from_buffers(len(lists), offsets, data, nulls, lists.null_count)


def _is_wide(column: Column) -> bool:
    """Whether a column's cells may be large: such columns hold nearly all of a table's bytes."""
    return column.type == "binary" or column.name.endswith("_json")


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed to write tables", name=fullname)


def without_pandas() -> None:
    """Keeps pyarrow from importing pandas, in a process that only writes tables.

    It would take 0.25 s and 45 MB, only to ask of every list of cells whether it is a Series; none of ours is.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


class TableFile:
    """One Parquet file of a table, written under another name until complete; an empty one is kept only for the first part."""

    def __init__(self, folder: Path, table: Table, part: int = 0) -> None:
        self.rows = 0
        self._part = part
        self._path = folder / table.name / f"part-{part:05}.parquet"
        self._unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        self._metadata = arrow_schema(table).metadata
        self._schema = coded(arrow_schema(table))
        self._columns = table.columns
        self._writer: pq.ParquetWriter | None = None
        self._chunks: list[pa.RecordBatch] = []
        self._chunk_rows = 0
        #: Bytes of the columns that wait for their row group.
        self.held_bytes = 0

    def add(self, block: Block) -> None:
        chunk = record_batch(self._schema, block)
        self._chunks.append(chunk)
        self._chunk_rows += len(chunk)
        self.held_bytes += chunk.nbytes
        if self._chunk_rows >= GROUP_ROWS or self.held_bytes >= GROUP_BYTES:
            self.to_group()

    def to_group(self) -> pq.ParquetWriter:
        """Writes the waiting columns as a row group."""
        writer = self._writer = self._writer or self._open()
        writer.write_table(pa.Table.from_batches(self._chunks, self._schema).unify_dictionaries(), row_group_size=GROUP_ROWS)
        self.rows += self._chunk_rows
        self._chunks, self._chunk_rows, self.held_bytes = [], 0, 0
        return writer

    def _open(self) -> pq.ParquetWriter:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return pq.ParquetWriter(
            self._unfinished,
            self._schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=[column.name for column in self._columns if column.type == "string" and not _is_wide(column)],
            column_encoding={column.name: "DELTA_BINARY_PACKED" for column in self._columns if column.type in _INTEGERS},
            data_page_size=PAGE_BYTES,
            write_page_index=True,
            store_schema=False,  # it would say that names of connections are not strings
        )

    def close(self) -> None:
        if self.rows or self._chunk_rows or self._part == 0:
            writer = self.to_group()
            writer.add_key_value_metadata(self._metadata)
            writer.close()
            os.replace(self._unfinished, self._path)


class TableFiles:
    """A file of each table: one part of an export, written by one process."""

    def __init__(self, folder: Path, *, records: bool = False, part: int = 0) -> None:
        names = [name for name in TABLES if records or name != "records"]
        self._files = {name: TableFile(folder, TABLES[name], part) for name in names}

    def add(self, page: Iterable[tuple[str, Block]]) -> None:
        for name, block in page:
            self._files[name].add(block)
            while sum([file.held_bytes for file in self._files.values()]) > HELD_BYTES:
                max(self._files.values(), key=attrgetter("held_bytes")).to_group()

    def close(self) -> dict[str, int]:
        """Number of rows of each table."""
        for file in self._files.values():
            file.close()
        return {name: file.rows for name, file in self._files.items()}


class ParquetWriter:
    """`kshark export`: events and findings of one capture after the other into a folder of tables.

        writer = ParquetWriter(folder, [["a.pcap"], ["b-1.pcap", "b-2.pcap"]])
        writer.begin(); writer.page(events); ...    # the first capture
        writer.begin(); ...                         # the second
        writer.close()                              # manifest.json

    `wanted`: a filter by which exchanges have rows. Raises kshark.UsageError for a folder that holds something else.
    """

    def __init__(
        self, folder: str | Path, captures: Sequence[Sequence[str]], *, records: bool = False, wanted: Filter | None = None
    ) -> None:
        self._folder = Path(folder)
        self._captures = captures
        self._names = iter(capture_names(captures))
        prepare(self._folder)
        pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own pools keep 30 MB more of what was freed
        self._files = TableFiles(self._folder, records=records)
        self._rows = Rows("", records=records, wanted=None if wanted is None else wanted.takes)
        self._filter = None if wanted is None else wanted.text

    def begin(self) -> None:
        """The next capture's events follow."""
        self._rows.begin(next(self._names))

    def feed(self, event: Event | Told) -> None:
        self.page((event,))

    def page(self, events: Iterable[Event | Told]) -> None:
        self._files.add(self._rows.page(events))

    def close(self) -> dict[str, int]:
        """Ends the files and writes the manifest; gives the number of rows of each table."""
        self._files.add(self._rows.rest())
        counts = self._files.close()
        write_manifest(self._folder, self._captures, counts, self._filter)
        return counts


def prepare(folder: Path) -> None:
    """Makes the folder, or removes an earlier export from it. Raises kshark.UsageError if it holds something else."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with -o")
    held = sorted(folder.rglob("*")) if folder.exists() else []
    foreign = [path for path in held if not _ours(path.relative_to(folder).parts)]
    if foreign:
        raise UsageError(f"{folder} holds {foreign[0].relative_to(folder)}, which is no table; name an empty folder with -o")
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in reversed(held):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def _ours(parts: tuple[str, ...]) -> bool:
    """Whether this is from an export, complete or not."""
    if len(parts) == 1:
        return parts[0] in (*TABLES, MANIFEST, f".{MANIFEST}.unfinished")
    return len(parts) == 2 and parts[0] in TABLES and parts[1].endswith((".parquet", ".parquet.unfinished"))


def write_manifest(folder: Path, captures: Sequence[Sequence[str]], counts: dict[str, int], filter: str | None = None) -> None:
    """Who wrote the tables, of which captures, how many rows each has, and the filter where not every exchange is there."""
    manifest = {
        "format": FORMAT,
        "kshark": __version__,
        "captures": [
            {"name": name, "files": [_fingerprint(file) for file in files]}
            for name, files in zip(capture_names(captures), captures, strict=True)
        ],
        "tables": {name: {"version": TABLES[name].version, "rows": rows} for name, rows in counts.items()},
        **({} if filter is None else {"filter": filter}),
    }
    path = folder / MANIFEST
    unfinished = path.with_name(f".{MANIFEST}.unfinished")
    unfinished.write_text(json.dumps(manifest, indent=2) + "\n")
    os.replace(unfinished, path)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of tables. Raises kshark.UsageError where there is none, or a later kshark wrote it."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} holds no {MANIFEST}: it is no folder of tables, or its export was not finished")
    try:
        manifest = json.loads(path.read_text())
        later = manifest["format"] > FORMAT or any(table["version"] > TABLES[name].version for name, table in manifest["tables"].items())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is no manifest of kshark") from None
    if later:
        raise UsageError(f"{path} was written by kshark {manifest.get('kshark')}, whose tables this version does not know; upgrade kshark")
    if "filter" in manifest:
        raise UsageError(f"{folder} holds only what passed -Y '{manifest['filter']}', by which nobody can be judged; export it without -Y")
    return cast("dict[str, Any]", manifest)


def _fingerprint(file: str) -> dict[str, Any]:
    """Name, size and SHA-256 of a capture file; standard input has neither."""
    path = Path(file)
    if not path.is_file():
        return {"file": file, "size_bytes": None, "sha256": None}
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": path.name, "size_bytes": path.stat().st_size, "sha256": digest}
