"""Captures in an S3 bucket, which Spark's workers open by themselves: the same findings, rows and pages as from this
machine's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kshark.cli
import kshark_spark.cli
from kshark.output.manifest import MANIFEST, read_manifest
from kshark_spark.frames import table
from tests.shared import CAPTURES
from tests.spark.test_check import said
from tests.spark.test_datasource import exported, in_order
from tests.store import ENVIRONMENT, Bucket, bucket

__all__ = ["bucket"]

pytestmark = pytest.mark.spark

EPOCHS, RESTART = CAPTURES / "adv-epochs.pcap", CAPTURES / "share-restart.pcap"


def test_a_folder_is_checked_as_a_local_one(
    spark: Any, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (EPOCHS, RESTART):
        bucket.put_file(file, "spark")
        (tmp_path / file.name).write_bytes(file.read_bytes())
    expected = said(capsys, kshark.cli.main, "check", str(tmp_path), "--each")
    code, out = said(capsys, kshark_spark.cli.main, "check", bucket.path("spark"), "--each", "--master", "local[2]")
    assert (code, out.replace("s3://bucket/spark", str(tmp_path)).replace(bucket.settings, "")) == expected


@pytest.mark.parametrize("table", ["exchanges", "findings"])
def test_a_data_frame(spark: Any, bucket: Bucket, tmp_path: Path, table: str) -> None:
    frame = spark.read.format("kshark").option("table", table).load(bucket.put_file(EPOCHS))
    assert in_order([row.asDict(recursive=True) for row in frame.collect()]) == in_order(
        exported(tmp_path, table, str(EPOCHS))
    )


def test_tables_and_a_report(spark: Any, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bucket.put_file(EPOCHS)
    assert kshark_spark.cli.main(["export", path, "-q", "-o", str(tmp_path / "spark")]) == 0
    assert kshark.cli.main(["export", str(EPOCHS), "-q", "-o", str(tmp_path / "one")]) == 0
    captures = [json.loads((tmp_path / name / "manifest.json").read_text())["captures"] for name in ("spark", "one")]
    assert captures[0] == captures[1]
    capsys.readouterr()
    assert kshark_spark.cli.main(["report", path, "-q", "-o", str(tmp_path / "report")]) == 1
    assert (
        capsys.readouterr().out
        == said(capsys, kshark.cli.main, "report", str(EPOCHS), "-q", "-o", str(tmp_path / "other"))[1]
    )


def test_tables_in_a_store(
    spark: Any, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by workers in two commits, read by workers, and compacted: as on this machine."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    store, local, captures = bucket.signed("of-spark"), str(tmp_path / "t"), [str(EPOCHS), str(RESTART)]
    assert kshark.cli.main(["export", *captures, "--each", "-q", "-o", local]) == 0
    for given in (captures[:1], captures):
        assert kshark_spark.cli.main(["export", *given, "--each", "-q", "-o", store, "--resume"]) == 0
    expected = said(capsys, kshark_spark.cli.main, "check", local)
    assert said(capsys, kshark_spark.cli.main, "check", store) == expected
    for name in ("exchanges", "findings"):
        here, there = (in_order([row.asDict(recursive=True) for row in table(spark, name, folder).collect()])
                       for folder in (local, store))  # fmt: skip
        assert (name, there) == (name, here)

    assert kshark_spark.cli.main(["compact", store]) == 0
    assert "27 files became 14" in capsys.readouterr().err
    assert bucket.held("of-spark") == {*read_manifest(store).paths, MANIFEST}
    assert said(capsys, kshark_spark.cli.main, "check", store) == expected


def test_what_is_refused(spark: Any, bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    bucket.put("tables/exchanges/part-00000.parquet", b"PAR1")
    for path, why in [
        (bucket.path("gone.pcap"), ": no such file"),
        (
            bucket.path("tables"),
            " has no manifest.json: it is not a folder of tables, or its export did not finish",
        ),
    ]:
        assert kshark_spark.cli.main(["check", path]) == 2
        assert capsys.readouterr() == ("", f"kshark-spark: {path}{why}\n")
