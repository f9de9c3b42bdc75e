"""`kshark explain tables --sql`: views and queries.

DuckDB and Spark run the same text; only the views of files differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kshark.output.spans import DIM, PLAIN, Line
from kshark.registry import Registry
from kshark.schema import versions_of
from kshark.tables import TABLES
from kshark.tables.columns import quoted
from kshark.tables.queries import QUERIES
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.errors import RETRIABLE
from kshark_dissectors.releases import RELEASES, SPOKEN

#: The view of a table, by engine; paths are relative to the folder of tables.
ENGINES: Final = {
    "duckdb": "CREATE OR REPLACE TEMP VIEW {0} AS SELECT * FROM read_parquet('{0}/**/*.parquet');",
    "spark": "CREATE OR REPLACE TEMP VIEW {0} USING parquet OPTIONS (path '{0}');",
}


def sql_lines(engine: str, registry: Registry) -> Iterator[Line]:
    """Return a script to run in a folder of tables: views of tables, views with Kafka's facts, and the queries."""
    yield from _about(
        "The tables, in the subfolders of DIR: start the engine in DIR. kshark export --records adds the table records."
    )
    yield from ([(ENGINES[engine].format(name), PLAIN)] for name in TABLES if name != "records")
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
