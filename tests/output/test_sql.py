"""The script of `kshark explain tables --sql` in DuckDB; tests/spark/test_queries.py has it in Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kshark.tables import OF_RECORDS, TABLES
from kshark.tables.queries import QUERIES
from kshark_dissectors.releases import SPOKEN
from tests.output.querying import exported, in_duckdb, needs_duckdb, rows, statements

pytestmark = needs_duckdb


@pytest.mark.sweep
def test_each_query_finds_something_whatever_the_partitions(tmp_path: Path) -> None:
    found = in_duckdb(exported(tmp_path / "plain"), *statements("duckdb"))
    assert len(found) == len(QUERIES) == 8
    assert [query.about for query, table in zip(QUERIES, found, strict=True) if not table.num_rows] == []
    parted = in_duckdb(exported(tmp_path / "parted", "--partition-by", "date,cluster"), *statements("duckdb"))
    assert list(map(rows, parted)) == list(map(rows, found))


@pytest.mark.sweep
def test_errors_of_topics_and_partitions_are_among_those_of_answers(tmp_path: Path) -> None:
    """Answers of FindCoordinator have errors for each key alone."""
    views, (answered, _, minutes, *_) = statements("duckdb")
    errors, each_minute = in_duckdb(exported(tmp_path), views, [answered, minutes])
    told = Counter[tuple[str, ...]]()
    for row in errors.to_pylist():
        told[row["capture"], row["api"], row["error"]] += row["answers"]
    assert told["share-restart.pcap", "FindCoordinator", "COORDINATOR_NOT_AVAILABLE"] == 4
    assert told["share-restart.pcap", "InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"] == 1
    assert sum(each_minute["errors"].to_pylist()) == told.total()


def test_there_is_a_view_of_each_table_and_of_kafkas_names() -> None:
    views = [view.partition(" VIEW ")[2].split()[0] for view in statements("duckdb")[0]]
    assert views == [*(name for name in TABLES if name not in OF_RECORDS), "errors", "apis", "releases"]


@pytest.mark.sweep
def test_names_are_kafkas_own(tmp_path: Path) -> None:
    asked = {
        "SELECT error FROM errors WHERE error_code = 123 AND retriable": ["INVALID_SHARE_SESSION_EPOCH"],
        "SELECT about FROM apis WHERE api = 'TxnOffsetCommit'": [
            "A producer commits a group's offsets inside its transaction."
        ],
        "SELECT number, lowest, highest FROM releases WHERE api_key = 11 AND release = '4.0'": [3, 2, 9],
        "SELECT lowest, highest, unstable FROM releases WHERE api_key = 8 AND release = '4.1'": [2, 10, True],
        "SELECT count(*) AS every FROM releases": [sum(bool(text) for row in SPOKEN.values() for text in row)],
    }
    found = in_duckdb(tmp_path, statements("duckdb")[0][-3:], asked)
    assert [[cell for row in table.to_pylist() for cell in row.values()] for table in found] == list(asked.values())
