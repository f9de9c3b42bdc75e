"""Captures shared out over tasks, their parts committed together; the rows are compared with kshark's in test_check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import spark_analysis.cli
from kshark.output.manifest import MANIFEST, read_manifest, whole_captures
from spark_analysis import export
from tests.shared import CAPTURES


def shares(tmp_path: Path, sizes: Sequence[int], parallelism: int) -> list[int]:
    """How many captures of these sizes each task has."""
    captures = []
    for number, size in enumerate(sizes):
        path = tmp_path / f"{number}.pcap"
        with path.open("wb") as file:
            file.truncate(size)
        captures.append((path.name, [str(path)]))
    tasks = export.grouped(captures, parallelism)
    assert [capture for task in tasks for capture in task] == captures
    return [len(task) for task in tasks]


def test_small_captures_share_tasks_and_large_ones_have_their_own(tmp_path: Path) -> None:
    assert shares(tmp_path, [100] * 500, 2) == [250, 250]
    assert shares(tmp_path, [100], 8) == [1]
    assert shares(tmp_path, [600 << 20, 600 << 20, 5, 5], 1) == [1, 1, 2]
    assert shares(tmp_path, [300 << 20] * 4, 1) == [2, 2]


@pytest.mark.spark
def test_an_export_from_spark_goes_on_where_it_stopped(spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def run(*words: object) -> str:
        said = ["export", *map(str, words), "--each", "-o", str(tmp_path / "tables"), "--master", "local[2]", "--partition-by", "date"]
        assert spark_analysis.cli.main(said) == 0
        return capsys.readouterr().err

    captures = [CAPTURES / name for name in ("adv-epochs.pcap", "adv-acks.pcap", "share-loss.pcap")]
    run(*captures[:2])
    told = run(*captures, "--resume")
    assert "2 captures in it already" in told
    manifest = whole_captures(tmp_path / "tables")
    assert [capture.name for capture in manifest.captures] == [capture.name for capture in captures]
    on_disk = {str(path.relative_to(tmp_path / "tables")) for path in (tmp_path / "tables").rglob("*") if path.is_file()}
    assert on_disk == {*manifest.paths, MANIFEST}

    exchanges = spark.read.parquet(str(tmp_path / "tables" / "exchanges"))
    assert exchanges.count() == manifest.tables["exchanges"].rows
    assert exchanges.schema["date"].dataType.simpleString() == "date"


@pytest.mark.spark
def test_a_capture_that_cannot_be_read_leaves_the_earlier_export(spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    vanished = tmp_path / "vanished.pcap"
    words = ["-o", str(tmp_path / "tables"), "--each", "--master", "local[2]"]
    assert spark_analysis.cli.main(["export", str(CAPTURES / "adv-epochs.pcap"), *words]) == 0
    before = read_manifest(tmp_path / "tables")
    vanished.write_bytes((CAPTURES / "adv-epochs.pcap").read_bytes())

    def too_late(captures: list[export.Named], parallelism: int) -> list[list[export.Named]]:
        vanished.unlink()
        return [[capture] for capture in captures]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "grouped", too_late)
        assert spark_analysis.cli.main(["export", str(vanished), str(CAPTURES / "adv-acks.pcap"), *words]) == 2
    assert "vanished.pcap" in capsys.readouterr().err
    assert read_manifest(tmp_path / "tables") == before
    assert [path.name for path in (tmp_path / "tables").glob(".*")] == []
