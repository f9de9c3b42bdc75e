"""Captures shared out over tasks, their parts committed together; the rows are compared with kshark's in test_check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kshark_spark.cli
from kshark.capture import open_captures
from kshark.capture.captures import Packets
from kshark.capture.host import host_of
from kshark.face import analysed
from kshark.output.export import Export
from kshark.output.manifest import MANIFEST, read_manifest, whole_captures
from kshark.output.parquet_part import PartWriter
from kshark.pipeline import Engine, Options
from kshark_spark import export
from tests.shared import CAPTURES
from tests.spark.test_captures import NAMES, OTHERS, SOME, path_of


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
def test_an_export_from_spark_goes_on_where_it_stopped(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(*words: object) -> str:
        said = [
            "export",
            *map(str, words),
            "--each",
            "-o",
            str(tmp_path / "tables"),
            "--master",
            "local[2]",
            "--partition-by",
            "date",
        ]
        assert kshark_spark.cli.main(said) == 0
        return capsys.readouterr().err

    captures = [CAPTURES / name for name in ("adv-epochs.pcap", "adv-acks.pcap", "share-loss.pcap")]
    run(*captures[:2])
    told = run(*captures, "--resume")
    assert "2 captures already in it" in told
    manifest = whole_captures(tmp_path / "tables")
    assert [capture.name for capture in manifest.captures] == [capture.name for capture in captures]
    on_disk = {
        str(path.relative_to(tmp_path / "tables")) for path in (tmp_path / "tables").rglob("*") if path.is_file()
    }
    assert on_disk == {*manifest.paths, MANIFEST}

    exchanges = spark.read.parquet(str(tmp_path / "tables" / "exchanges"))
    assert exchanges.count() == manifest.tables["exchanges"].rows
    assert exchanges.schema["date"].dataType.simpleString() == "date"


@pytest.mark.spark
def test_a_capture_that_cannot_be_read_is_left_out_as_a_whole(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    vanished = tmp_path / "vanished.pcap"
    words = ["-o", str(tmp_path / "tables"), "--each", "--master", "local[2]"]
    assert kshark_spark.cli.main(["export", str(CAPTURES / "adv-epochs.pcap"), *words]) == 0
    vanished.write_bytes((CAPTURES / "adv-epochs.pcap").read_bytes())

    def too_late(captures: list[export.Named], parallelism: int) -> list[list[export.Named]]:
        vanished.unlink()
        return [captures]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "grouped", too_late)
        assert kshark_spark.cli.main(["export", str(CAPTURES / "adv-acks.pcap"), str(vanished), *words]) == 2
    assert f"kshark-spark: {vanished}: no such file" in capsys.readouterr().err
    manifest = read_manifest(tmp_path / "tables")
    assert [capture.name for capture in manifest.captures] == ["adv-acks.pcap"]
    assert (
        manifest.tables["exchanges"].rows
        == rows_of(written([[str(CAPTURES / "adv-acks.pcap")]], tmp_path / "alone", {}))["exchanges"].total()
    )
    assert faults_of(tmp_path / "tables") == [
        ("vanished.pcap", "vanished", "hash", f"{vanished}: no such file or directory")
    ]
    assert [path.name for path in (tmp_path / "tables").glob(".*")] == []


def faults_of(folder: Path) -> list[tuple[str, ...]]:
    return [
        tuple(row.values())
        for row in parquet.read_table(folder / "faults").select(["capture", "code", "stage", "detail"]).to_pylist()
    ]


def written(captures: list[list[str]], folder: Path, options: dict[str, Any], spark: Any = None) -> Path:
    """The folder, with the tables as `kshark export` writes them, or Spark."""
    records: Any = options.get("records", "headers")
    with Export(folder, options) as told:
        if spark is None:
            part = PartWriter(told.attempt)
            for name, files in zip(told.names(captures), captures, strict=True):
                part.begin(told.attempt.capture(name, files) or pytest.fail("it is there already"))
                packets = Packets(open_captures([*files]))
                for page, found in analysed(Engine(Options(records=records, embedded=True)).pages(packets)):
                    part.page(page)
                    part.page(found)
                part.end(packets.count, host_of(files))
            told.commit([part.close()])
        else:
            export.run(spark, told, captures, Options(records=records, embedded=True))
    return folder


def rows_of(folder: Path) -> dict[str, Counter[str]]:
    """The rows of every table."""
    tables = read_manifest(folder).tables
    return {
        name: Counter(
            str({**row, "seconds": None} if name == "captures" else row)
            for file in table.files
            for row in parquet.read_table(folder / file.path, partitioning=None).to_pylist()
        )
        for name, table in tables.items()
    }


def each(names: list[str]) -> list[list[str]]:
    return [[path_of(name)] for name in names]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("captures", "options"),
    [
        pytest.param(each(SOME), {}, id="some"),
        pytest.param(each(OTHERS), {}, id="others", marks=pytest.mark.slow),
        pytest.param([[path_of(name) for name in NAMES]], {}, id="all as one", marks=pytest.mark.slow),
        pytest.param(each(["small-zstd.pcap"]), {"records": True}, id="records"),
    ],
)
def test_tasks_export_the_same_rows_as_one_process(
    spark: Any, tmp_path: Path, captures: list[list[str]], options: dict[str, Any]
) -> None:
    expected = rows_of(written(captures, tmp_path / "one", options))
    found = rows_of(written(captures, tmp_path / "tasks", options, spark))
    for name, rows in expected.items():
        assert (name, found[name] - rows, rows - found[name]) == (name, Counter(), Counter())
