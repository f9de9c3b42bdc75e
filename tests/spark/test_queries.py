"""The script of `kshark explain tables --sql` gives the same rows in Spark as in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.output.querying import exported, in_duckdb, needs_duckdb, rows, statements

pytestmark = [pytest.mark.spark, needs_duckdb]


def test_the_queries_give_the_same_rows_on_both_engines(spark: Any, tmp_path: Path) -> None:
    folder = exported(tmp_path / "tables")
    views, queries = statements("spark")
    for view in views:
        spark.sql(view.replace("(path '", f"(path '{folder}/"))  # Spark was started elsewhere
    assert queries == statements("duckdb")[1]
    for query, expected in zip(queries, in_duckdb(folder, *statements("duckdb")), strict=True):
        found = spark.sql(query).toArrow()
        assert found.column_names == expected.column_names
        assert rows(found) == rows(expected), query
