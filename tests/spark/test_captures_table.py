"""The table `captures` is the same from one process, from an export on Spark, and as a DataFrame of captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kshark.cli
import kshark_spark.cli
from tests.shared import CAPTURES

pytestmark = pytest.mark.spark

#: Findings of every verdict, the name of a host, a capture without a connection.
NAMES = ("adv-epochs.pcap", "tcp-var-ng.pcapng", "tcp-var-missed.pcap")


def without_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert all(row.pop("seconds") > 0 for row in rows)
    return rows


def exported(main: Any, folder: Path, *words: str) -> list[dict[str, Any]]:
    assert main(["export", *(str(CAPTURES / name) for name in NAMES), "--each", "-o", str(folder), *words]) == 0
    rows: list[dict[str, Any]] = parquet.read_table(folder / "captures").to_pylist()
    return without_seconds(sorted(rows, key=lambda row: NAMES.index(row["capture"])))


def test_captures_are_the_same_from_both_engines(spark: Any, tmp_path: Path) -> None:
    from kshark_spark import register

    alone = exported(kshark.cli.main, tmp_path / "one")
    assert [row["capture"] for row in alone] == [*NAMES]
    assert exported(kshark_spark.cli.main, tmp_path / "spark", "--master", "local[2]") == alone

    register(spark)
    frame = spark.read.format("kshark").option("table", "captures").option("each", "true")
    rows = frame.load([str(CAPTURES / name) for name in NAMES]).toArrow().to_pylist()
    assert without_seconds(sorted(rows, key=lambda row: NAMES.index(row["capture"]))) == alone
    by_verdict = spark.read.parquet(str(tmp_path / "spark" / "captures")).selectExpr("explode(findings) as finding")
    found = by_verdict.groupBy("finding.verdict").sum("finding.count").collect()
    assert sum(row[1] for row in found if row[0] == "violation") == sum(row["violations"] for row in alone)


def test_duckdb_reads_captures(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = exported(kshark.cli.main, tmp_path)
    found = duckdb.sql(
        f"WITH rows AS (SELECT capture, unnest(findings) AS f FROM '{tmp_path}/captures/*.parquet') "
        "SELECT capture, sum(f.count) FROM rows GROUP BY 1"
    ).fetchall()
    assert dict(found) == {
        row["capture"]: row["violations"] + row["unknown"] + row["notes"] for row in rows if row["findings"]
    }
