"""The script of `kshark explain tables --sql` gives the same rows in Spark as in DuckDB."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.output.querying import exported, in_duckdb, rows, statements

pytestmark = pytest.mark.spark


def test_the_queries_give_the_same_rows_on_both_engines(spark: Any, tmp_path: Path) -> None:
    if find_spec("duckdb") is None:
        pytest.skip("duckdb is not installed")
    folder = exported(tmp_path / "tables")
    views, queries = statements("spark")
    for view in views:
        spark.sql(view.replace("(path '", f"(path '{folder}/"))  # Spark was started elsewhere
    assert queries == statements("duckdb")[1]
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:  # beside pyspark, DuckDB 2.0 complains of leaks when the process ends
        answers = elsewhere.submit(in_duckdb, folder).result()
    for query, expected in zip(queries, answers, strict=True):
        found = spark.sql(query).toArrow()
        assert found.column_names == expected.column_names
        assert rows(found) == rows(expected), query
