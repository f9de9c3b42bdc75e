"""Convert rows to Arrow columns, with the schema of the Parquet files, which Spark reads."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import UNSET
from numpy.typing import NDArray

from kshark import __version__
from kshark.output.spark_schema import SPARK_SCHEMA, spark_schema
from kshark.tables import COMMON, Block, Table
from kshark.tables.blocks import Cells, Texts
from kshark.tables.types import Array, Struct, Type, parse_type

_SCALARS: Final[dict[str, Callable[[], Any]]] = {
    "boolean": pa.bool_,
    "smallint": pa.int16,
    "int": pa.int32,
    "bigint": pa.int64,
    "double": pa.float64,
    "string": pa.string,
    "binary": pa.binary,
    "timestamp": lambda: pa.timestamp("us", "UTC"),
}
#: The common columns with data of a row's connection.
_CODED: Final = pa.dictionary(pa.int32(), pa.string())
_NAMES: Final = ("capture", "flow_id", "broker", "client")


def arrow_type(type: Type) -> pa.DataType:
    """Return the Arrow type of a column."""
    match type:
        case Array(element):
            return pa.list_(arrow_type(element))
        case Struct(fields):
            return pa.struct([pa.field(name, arrow_type(field)) for name, field in fields])
        case _:
            return _SCALARS[type]()


def arrow_schema(table: Table) -> pa.Schema:
    """Return a table's schema, equal to Spark's schema for its DDL, with each column's description.

    The metadata name the version of kshark and of the table.
    """
    fields = [
        pa.field(column.name, arrow_type(parse_type(column.type)), metadata={"comment": column.about})
        for column in table.columns
    ]
    about = {"kshark": __version__, "kshark.table": table.name, "kshark.table_version": str(table.version)}
    return pa.schema(fields, metadata={**about, SPARK_SCHEMA: spark_schema(table)})


def stored_schema(table: Table) -> dict[str, bytes]:
    """Return the metadata by which Arrow restores the schema of a Parquet file, as Arrow itself writes it.

    The columns are plain, with descriptions.
    """
    return {"ARROW:schema": b64encode(arrow_schema(table).serialize().to_pybytes())}


def coded(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionary codes for connections' names, as in Parquet: no search for equal names."""
    return pa.schema([field.with_type(_CODED) if field.name in _NAMES else field for field in schema])


def record_batch(schema: pa.Schema, block: Block, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Convert a block of the table's rows to Arrow; the schema is `coded` or plain.

    `columns`: only these, in this order; None: all.
    """
    common = _common(block)
    own = dict(zip(schema.names[len(COMMON) :], block.own, strict=True))
    chosen = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    arrays = [
        _decoded(common[field.name], field.type)
        if field.name in common
        else _column(own[field.name], field.type, len(block))
        for field in chosen
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=chosen)


def _decoded(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Return a common column in its type of the schema."""
    return array if array.type == type else array.dictionary_decode()


def _common(block: Block) -> dict[str, pa.Array]:
    """Return the common columns by name; connections are few, so their names are converted once."""
    numbers = {where: number for number, where in enumerate(dict.fromkeys(block.where))}
    of_rows = np.array([numbers[where] for where in block.where], np.int32)
    names = {name: _coded([getattr(where, name) for where in numbers], of_rows) for name in _NAMES}
    packet = pa.array(block.packet, pa.int64())
    exchange = packet if block.exchange is block.packet else pa.array(block.exchange, pa.int64())
    return {**names, **_times(block.time_ns), "packet": packet, "exchange": exchange}


def _times(times: Sequence[int | None]) -> dict[str, pa.Array]:
    """Return the columns of times."""
    try:
        ts_ns, is_null = np.array(times, np.int64), None
    except TypeError:  # some times are null: rare, and a test costs as much as the conversion
        ts_ns, is_null = np.array([time or 0 for time in times], np.int64), np.array([time is None for time in times])
    return {"ts": pa.array(ts_ns // 1000, pa.timestamp("us", "UTC"), is_null), "ts_ns": pa.array(ts_ns, mask=is_null)}


def _coded(names: list[str | None], of_rows: NDArray[np.int32]) -> pa.DictionaryArray:
    """Return a column of names as dictionary codes, without duplicates and nulls, as Parquet's writer requires."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    codes = np.array([-1 if name is None else numbers[name] for name in names], np.int32)[of_rows]
    indices = pa.array(codes, mask=codes < 0) if None in names else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbers), pa.string()))


def _column(cells: Cells, type: pa.DataType, length: int) -> pa.Array:
    """Return a column; an array of structs is built from flat fields, five times faster than from dicts."""
    if cells is None:
        return pa.nulls(length, type)
    if isinstance(cells, Texts):
        return _texts(cells)
    if pa.types.is_list(type) and pa.types.is_struct(type.value_type):
        return _structs(cells, type)
    try:
        return pa.array(cells, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a cell is UNSET: rare, and a test costs as much as the conversion
        return pa.array([None if cell is UNSET else cell for cell in cells], type)


def _structs(cells: Sequence[Any], type: pa.DataType) -> pa.Array:
    begins, flat, index = [], [], 0
    for cell in cells:
        begins.append(None if cell is None or cell is UNSET else index)
        if cell:
            flat.extend(cell)
            index += len(cell)
    begins.append(index)
    fields = list(type.value_type)
    members = list(zip(*flat, strict=True)) if flat else [()] * len(fields)
    struct = pa.StructArray.from_arrays(
        [_column(member, field.type, len(flat)) for member, field in zip(members, fields, strict=True)], fields=fields
    )
    return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), struct, type=type)


def _texts(texts: Texts) -> pa.Array:
    """Return a column of strings without copying their bytes.

    Arrow derives offsets and nulls from a list column of bytes.
    """
    data = pa.py_buffer(texts.data)
    lists = pa.ListArray.from_arrays(
        pa.array(texts.begins, pa.int32()), pa.UInt8Array.from_buffers(pa.uint8(), data.size, [None, data])
    )
    nulls, offsets = lists.buffers()[:2]
    return pa.StringArray.from_buffers(len(lists), offsets, data, nulls, lists.null_count)


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed to write tables", name=fullname)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, in a process that only writes tables.

    The import would take 0.25 s and 45 MB, only to test whether each list of cells is a Series; none is.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
