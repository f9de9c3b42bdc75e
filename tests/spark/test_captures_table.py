"""The table `captures` as a DataFrame of captures, and as DuckDB reads its files. The rows of an export on Spark are
compared in test_check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kshark.cli
from tests.shared import CAPTURES

#: Findings of every verdict, the name of a host, a capture without a connection.
NAMES = ("adv-epochs.pcap", "tcp-var-ng.pcapng", "tcp-var-missed.pcap")


def without_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert all(row.pop("seconds") > 0 for row in rows)
    return rows


def exported(folder: Path) -> list[dict[str, Any]]:
    assert kshark.cli.main(["export", *(str(CAPTURES / name) for name in NAMES), "--each", "-o", str(folder)]) == 0
    rows: list[dict[str, Any]] = parquet.read_table(folder / "captures").to_pylist()
    return without_seconds(sorted(rows, key=lambda row: NAMES.index(row["capture"])))


@pytest.mark.spark
def test_a_frame_of_captures_has_the_rows_of_an_export(spark: Any, tmp_path: Path) -> None:
    from kshark_spark import register

    alone = exported(tmp_path)
    assert [row["capture"] for row in alone] == [*NAMES]
    register(spark)
    frame = spark.read.format("kshark").option("table", "captures").option("each", "true")
    rows = frame.load([str(CAPTURES / name) for name in NAMES]).toArrow().to_pylist()
    assert without_seconds(sorted(rows, key=lambda row: NAMES.index(row["capture"]))) == alone
    by_verdict = spark.read.parquet(str(tmp_path / "captures")).selectExpr("explode(findings) as finding")
    found = by_verdict.groupBy("finding.verdict").sum("finding.count").collect()
    assert sum(row[1] for row in found if row[0] == "violation") == sum(row["violations"] for row in alone)


def test_duckdb_reads_captures(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = exported(tmp_path)
    found = duckdb.sql(
        f"WITH rows AS (SELECT capture, unnest(findings) AS f FROM '{tmp_path}/captures/*.parquet') "
        "SELECT capture, sum(f.count) FROM rows GROUP BY 1"
    ).fetchall()
    assert dict(found) == {
        row["capture"]: row["violations"] + row["unknown"] + row["notes"] for row in rows if row["findings"]
    }
