"""`kshark explain tables --sql`: views and queries.

DuckDB and Spark run the same text; only the views of files differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kshark.output.spans import DIM, PLAIN, Line
from kshark.registry import Registry
from kshark.schema import versions_of
from kshark.tables import OF_RECORDS, TABLES, Table
from kshark.tables.columns import quoted
from kshark.tables.queries import QUERIES
from kshark.tables.types import Array, Struct, Type, parse_type
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.errors import RETRIABLE
from kshark_dissectors.releases import RELEASES, SPOKEN

ENGINES: Final = ("duckdb", "spark")
#: DuckDB's names of types, where they differ.
_DUCKDB: Final = {"string": "VARCHAR", "int": "INTEGER", "binary": "BLOB"}


def sql_lines(engine: str, registry: Registry) -> Iterator[Line]:
    """Return a script to run in a folder of tables: views of tables, views with Kafka's facts, and the queries."""
    yield from _about(
        "The tables, in the subfolders of DIR: start the engine in DIR. kshark export --records adds the table records."
    )
    yield from ([(_table(engine, table), PLAIN)] for name, table in TABLES.items() if name not in OF_RECORDS)
    yield from _view("Errors by number.", "errors", "error_code, error, retriable", _errors())
    yield from _view("APIs by number.", "apis", "api_key, api, about", _apis(registry))
    about = (
        "Releases, oldest first, and the versions that they support; unstable: the highest version only if unstable "
        "versions are enabled."
    )
    yield from _view(about, "releases", "api_key, number, release, lowest, highest, unstable", _releases())
    for query in QUERIES:
        yield from _about(query.about)
        yield from ([(line, PLAIN)] for line in (query.sql.strip() + ";").splitlines())


def _table(engine: str, table: Table) -> str:
    """Return the view of a table; paths are relative to the folder of tables. Columns that files of an earlier version
    lack are null.
    """
    if engine == "spark":
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        return f"CREATE OR REPLACE TEMP VIEW {table.name} ({columns}) USING parquet OPTIONS (path '{table.name}');"
    later = ", ".join(
        f"NULL::{_duckdb_type(parse_type(column.type))} AS {column.name}"
        for column in table.columns
        if column.since > 1
    )
    rows = f"SELECT * FROM read_parquet('{table.name}/**/*.parquet'"
    view = f"{rows}, union_by_name = true) UNION ALL BY NAME SELECT {later} WHERE false" if later else f"{rows})"
    return f"CREATE OR REPLACE TEMP VIEW {table.name} AS {view};"


def _duckdb_type(type: Type) -> str:
    match type:
        case Array(element):
            return f"{_duckdb_type(element)}[]"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{name} {_duckdb_type(field)}' for name, field in fields)})"
        case _:
            return _DUCKDB.get(type, type.upper())


def _about(text: str) -> Iterator[Line]:
    yield []
    yield [(f"-- {text}", DIM)]


def _view(about: str, name: str, columns: str, lines: Iterable[str]) -> Iterator[Line]:
    """Return a view of facts; each of the lines contains rows."""
    yield from _about(about)
    yield [(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM (VALUES", PLAIN)]
    *others, last = lines
    yield from ([(f"  {line},", PLAIN)] for line in others)
    yield [(f"  {last}) AS facts({columns});", PLAIN)]


def _errors() -> Iterator[str]:
    for error in ErrorCode:
        yield f"({error.value}, {quoted(error.name)}, {_boolean(error in RETRIABLE)})"


def _apis(registry: Registry) -> Iterator[str]:
    for key, name in sorted(registry.names().items()):
        yield f"({key}, {quoted(name)}, {quoted(registry.about(key))})"


def _releases() -> Iterator[str]:
    """Return a line for each API."""
    for key, spoken in SPOKEN.items():
        rows = [
            f"({key}, {number}, {quoted(release)}, {versions.low}, {versions.high}, {_boolean(text.endswith('*'))})"
            for number, (release, text) in enumerate(zip(RELEASES, spoken, strict=True), 1)
            if text
            for versions in [versions_of(text.removesuffix("*"))]
        ]
        yield ", ".join(rows)


def _boolean(value: bool) -> str:
    return "true" if value else "false"
