"""Which tables and columns a read returns.

A read of one table returns its rows. A read of several tables returns blocks: a row has the name of a table, the number
of its rows in the block, and these rows as an array of structs in the column with the table's name; the arrays of the
other tables are null. `frame.selectExpr("inline(findings)")` makes rows of them again, without Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, StructType

from kshark.errors import UsageError
from kshark.output.parquet import arrow_schema, record_batch
from kshark.tables import OF_RECORDS, TABLES, Block, Table
from kshark.tables.columns import quoted

#: The value of the option `table` for all tables.
EVERY: Final = "*"
#: The first columns of blocks: name, type in Spark SQL, description.
_OF_BLOCKS: Final = (
    ("table", "string", "name of the table"),
    ("rows", "int", "number of its rows in this block"),
)
_SCHEMAS: Final = {name: arrow_schema(table) for name, table in TABLES.items()}


def tables_of(text: str) -> list[str]:
    """Return the tables that the option names: one, several separated by commas, or `*`. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == [EVERY]:
        return [name for name in TABLES if name not in OF_RECORDS]  # each record is decoded, and is a row
    for name in names:
        if name not in TABLES:
            raise UsageError(f'no table "{name}"; there are {", ".join(TABLES)}, and {EVERY} for all of them')
    return [*dict.fromkeys(names)]


def ddl_of(text: str) -> str:
    """Return the schema of a read in Spark SQL, with descriptions. `text`: the option `table`."""
    names = tables_of(text)
    if _is_one(text):
        return TABLES[names[0]].ddl
    columns = [f"{name} {type} COMMENT {quoted(about)}" for name, type, about in _OF_BLOCKS]
    columns += [f"{name} {_list_type(TABLES[name])} COMMENT {quoted(TABLES[name].rows)}" for name in names]
    return ", ".join(columns)


def _is_one(text: str) -> bool:
    return text != EVERY and "," not in text


def _list_type(table: Table) -> str:
    fields = (f"{column.name}: {column.type} COMMENT {quoted(column.about)}" for column in table.columns)
    return f"array<struct<{', '.join(fields)}>>"


@dataclass(frozen=True)
class Selection:
    """Tables with their columns. `blocks`: the schema of blocks; None: rows of one table."""

    columns: Mapping[str, Sequence[str]]
    blocks: pa.Schema | None = None

    @classmethod
    def of(cls, text: str, schema: StructType) -> Selection:
        """Return what the user's schema selects of the tables that the option `table` names.

        Raises UsageError for a column that a table does not have, or not with this type.
        """
        names = tables_of(text)
        if _is_one(text):
            _check(TABLES[names[0]], schema)
            return cls({names[0]: schema.names})
        plain = {name: type for name, type, _ in _OF_BLOCKS}
        columns: dict[str, Sequence[str]] = {}
        for field in schema:
            if field.name in names:
                struct = _struct_of(field.name, field.dataType)
                _check(TABLES[field.name], struct)
                columns[field.name] = struct.names
            elif plain.get(field.name) != field.dataType.simpleString():
                raise UsageError(
                    f'no column "{field.name} {field.dataType.simpleString()}"; blocks have table string, rows '
                    f"int, and an array of structs for each of {', '.join(names)}"
                )
        types = [
            (name, pa.list_(pa.struct([_SCHEMAS[name].field(column) for column in columns[name]])))
            if name in columns
            else (name, pa.string() if name == "table" else pa.int32())
            for name in schema.names
        ]
        return cls(columns, pa.schema(types))

    def batch(self, table: str, block: Block) -> pa.RecordBatch | None:
        """Return a block of a table's rows in the form of this read; None if the table is not selected."""
        if table not in self.columns:
            return None
        rows = record_batch(_SCHEMAS[table], block, self.columns[table])
        return rows if self.blocks is None else _as_row(self.blocks, table, rows)


def _as_row(schema: pa.Schema, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a table as one row with an array."""
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    cells = {
        "table": pa.array([table]),
        "rows": pa.array([rows.num_rows], pa.int32()),
        table: pa.ListArray.from_arrays(pa.array([0, rows.num_rows], pa.int32()), structs),
    }
    arrays = [cells[field.name] if field.name in cells else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct_of(table: str, type: DataType) -> StructType:
    if isinstance(type, ArrayType) and isinstance(type.elementType, StructType):
        return type.elementType
    raise UsageError(f"{table} {type.simpleString()}: the rows of a table are an array of structs")


def _check(table: Table, schema: StructType) -> None:
    """Raise UsageError for a column that the table does not have, or not with this type."""
    types = {column.name: column.type.replace(" ", "") for column in table.columns}
    for field in schema:
        if field.name not in types:
            close = get_close_matches(field.name, types, 1)
            raise UsageError(
                f'{table.name} has no column "{field.name}"{f"; did you mean {close[0]}?" if close else ""} '
                "(kshark explain tables)"
            )
        if types[field.name] != field.dataType.simpleString():
            raise UsageError(
                f"{table.name}.{field.name} is {types[field.name]}, not {field.dataType.simpleString()} "
                "(kshark explain tables)"
            )
