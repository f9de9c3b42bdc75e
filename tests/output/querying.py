"""`kshark explain tables --sql` as a script that an engine runs: its views, its queries, and rows that can be
compared."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kshark.cli
from kshark.output.spans import plain
from kshark.output.sql import sql_lines
from kshark.registry import Registry
from tests.shared import CAPTURES

needs_duckdb = pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed")

#: Together they give every query something to find.
TOLD = ("adv-epochs.pcap", "adv-sessions-4.2.1.pcap", "share-restart.pcap")


def exported(folder: Path, *options: str) -> Path:
    files = [str(CAPTURES / name) for name in TOLD]
    assert kshark.cli.main(["export", *files, "--each", "-q", "-o", str(folder), *options]) == 0
    return folder


def statements(engine: str) -> tuple[list[str], list[str]]:
    """What the command prints, cut at its semicolons: the views, and the queries."""
    script = "".join(plain(line) + "\n" for line in sql_lines(engine, Registry()))
    parts = [part.strip() for part in script.split(";\n") if part.strip()]
    return [part for part in parts if "CREATE" in part], [part for part in parts if "CREATE" not in part]


def rows(table: pa.Table) -> list[tuple[str, ...]]:
    """In no order: engines sort nulls and texts each in their way."""
    return sorted(tuple(map(_comparable, row.values())) for row in table.to_pylist())


def _comparable(cell: Any) -> str:
    match cell:
        case datetime():
            return f"{cell.timestamp():.6f}"
        case Decimal() | float():
            return f"{float(cell):.6g}"
        case int() if not isinstance(cell, bool):
            return f"{float(cell):.6g}" if abs(cell) < 1 << 40 else str(cell)
        case _:
            return str(cell)


def in_duckdb(folder: Path, views: Iterable[str], queries: Iterable[str]) -> list[pa.Table]:
    """The queries' results in an engine of its own process: beside other libraries, DuckDB 2.0 complains of leaks when
    a process ends."""
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
        return elsewhere.submit(_answers, folder, views, queries).result()


def _answers(folder: Path, views: Iterable[str], queries: Iterable[str]) -> list[pa.Table]:
    import duckdb

    os.chdir(folder)
    with duckdb.connect() as engine:
        for view in views:
            engine.execute(view)
        return [engine.sql(query).to_arrow_table() for query in queries]
