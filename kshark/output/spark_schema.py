"""A table's schema in the form that Spark stores in Parquet files, so that Spark shows each column's description."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kshark.tables import Table
from kshark.tables.types import Array, Struct, Type, parse_type

#: Its key in a file's metadata. Source: Spark, ParquetReadSupport.
SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
#: Names of types in Spark's JSON that differ from SQL. Source: Spark, DataType.fromJson.
_NAMES: Final = {"smallint": "short", "int": "integer", "bigint": "long"}


def spark_schema(table: Table) -> bytes:
    """Return the schema as Spark's JSON, with each column's description as its comment."""
    fields = [_field(column.name, parse_type(column.type), {"comment": column.about}) for column in table.columns]
    return msgspec.json.encode({"type": "struct", "fields": fields})


def _type(type: Type) -> Any:
    match type:
        case Array(element):
            return {"type": "array", "elementType": _type(element), "containsNull": True}
        case Struct(fields):
            return {"type": "struct", "fields": [_field(name, field, {}) for name, field in fields]}
        case _:
            return _NAMES.get(type, type)


def _field(name: str, type: Type, metadata: dict[str, str]) -> dict[str, Any]:
    """Return a column, or a struct's member.

    >>> _field("epoch", "int", {"comment": "of the request"})
    {'name': 'epoch', 'type': 'integer', 'nullable': True, 'metadata': {'comment': 'of the request'}}
    """
    return {"name": name, "type": _type(type), "nullable": True, "metadata": metadata}
