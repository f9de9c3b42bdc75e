"""Every cell of every table as a person expects it, as rows and as they are read back from Parquet files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kshark.tables import COMMON, TABLES, Rows
from tests.output.exporting import exported
from tests.tables import batches, connection, consumer, coordinator, coordinator_records, faults, late, proxied
from tests.tables.story import CAPTURE, Cells, Chapter, whole

CHAPTERS = {
    module.__name__.rpartition(".")[2]: module.CHAPTER
    for module in (batches, connection, consumer, coordinator, coordinator_records, faults, late, proxied)
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Columns in which nothing can stand: a connection is of no exchange, a capture that cannot be read of no packet; or
#: nothing stands in a chapter without records (test_acquired.py).
SILENT = {
    "flows": ["exchange"],
    "acquired": ["lacking"],
    "faults": [column.name for column in COMMON if column.name != "capture"],
    # the last ones stand in rows of whole captures (test_captures.py)
    "captures": [
        *("flow_id", "packet", "broker", "client", "exchange"),
        *("broker_releases", "tls_connections", "body_cut", "unknown"),
    ],
}


def expected(chapter: Chapter) -> dict[str, list[Cells]]:
    return {name: [plain(whole(name, cells)) for cells in rows] for name, rows in chapter.rows.items()}


def plain(value: Any) -> Any:
    """Lists for tuples and for structs: Rows gives tuples, a file dicts."""
    match value:
        case dict():
            return {name: plain(cell) for name, cell in value.items()}
        case list() | tuple():
            return [plain([*each.values()] if isinstance(each, dict) else each) for each in value]
        case _:
            return value


def as_rows(chapter: Chapter) -> dict[str, list[Cells]]:
    """By table, what Rows gives, one event after the other."""
    rows = Rows(CAPTURE, records=True)
    found: dict[str, list[Cells]] = {name: [] for name in TABLES}
    for event in (*chapter.told().events(), *chapter.beside):
        for name, cells in rows.feed(event):
            found[name].append(named(name, cells))
    if chapter.fault is not None:
        rows.fault(CAPTURE, chapter.fault)
    if chapter.ended is not None:
        rows.end(chapter.ended)
    for name, block in rows.rest():
        found[name] += [named(name, cells) for cells in block.rows()]
    return found


def named(table: str, cells: tuple[Any, ...]) -> Cells:
    row: Cells = plain(dict(zip([column.name for column in TABLES[table].columns], cells, strict=True)))
    return row


def from_parquet(chapter: Chapter, folder: Path) -> dict[str, list[Cells]]:
    """The same by way of files."""
    exported(folder, {CAPTURE: chain(chapter.told().events(), chapter.beside)}, chapter.fault, records=True)
    return {name: [plain(read(cells)) for cells in pq.read_table(folder / name).to_pylist()] for name in TABLES}


def read(cells: Cells) -> Cells:
    """A row with its time in microseconds, as everywhere else."""
    ts = cells["ts"]
    return {**cells, "ts": None if ts is None else (ts - EPOCH) // timedelta(microseconds=1)}


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_cell_is_the_expected_one(name: str) -> None:
    found = as_rows(CHAPTERS[name])
    for table, rows in expected(CHAPTERS[name]).items():
        assert found[table] == rows, table


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", CHAPTERS)
def test_each_cell_is_the_same_in_the_files(name: str, tmp_path: Path) -> None:
    found = from_parquet(CHAPTERS[name], tmp_path)
    for table, rows in expected(CHAPTERS[name]).items():
        if table != "captures":  # a file has the seconds of the work (test_captures.py)
            assert found[table] == rows, table


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_an_expectation_that_tells_something(table: str) -> None:
    """A new column fails here until some chapter says what stands in it; a forgotten one is null, zero or empty."""
    rows = [cells for chapter in CHAPTERS.values() for cells in chapter.rows.get(table, [])]
    silent = [column.name for column in TABLES[table].columns if not any(cells.get(column.name) for cells in rows)]
    assert silent == SILENT.get(table, [])
