"""Captures shared out over tasks, their parts committed together; the rows are compared with kshark's in test_check."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kshark.cli
import kshark_spark.cli
from kshark.capture import open_captures
from kshark.capture.captures import Captures
from kshark.capture.host import host_of
from kshark.face import analysed
from kshark.output.export import Export
from kshark.output.manifest import MANIFEST, read_manifest, whole_captures
from kshark.output.parquet_part import PartWriter
from kshark.pipeline import Engine, Options
from kshark_spark import export
from tests.shared import CAPTURES
from tests.spark.test_captures import NAMES, OTHERS, SOME, path_of
from tests.spark.test_check import odd_files


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
    writing = run(*captures, "--resume")
    assert "2 captures already in it" in writing
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
    with Export(folder, options) as writing:
        if spark is None:
            part = PartWriter(writing.attempt)
            for name, files in zip(writing.names(captures), captures, strict=True):
                part.begin(writing.attempt.capture(name, files) or pytest.fail("it is there already"))
                engine = Engine(Options(records=records, embedded=True))
                for page, found in analysed(engine.pages(open_captures([*files]))):
                    part.page(page)
                    part.page(found)
                part.end(engine.front.link.packets, host_of(files))
            writing.commit([part.close()])
        else:
            assert [*export.run(spark, writing, captures, Options(records=records, embedded=True), 2)]
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
        pytest.param(each(["segments/fetched.pcap.gz"]), {"records": True}, id="coordinators' records"),
    ],
)
def test_tasks_export_the_same_rows_as_one_process(
    spark: Any, tmp_path: Path, captures: list[list[str]], options: dict[str, Any]
) -> None:
    expected = rows_of(written(captures, tmp_path / "one", options))
    found = rows_of(written(captures, tmp_path / "tasks", options, spark))
    for name, rows in expected.items():
        assert (name, found[name] - rows, rows - found[name]) == (name, Counter(), Counter())


def captures_in(folder: Path) -> list[str]:
    return [capture.name for capture in read_manifest(folder).captures]


def failing(bad: str) -> Any:
    """Read captures, except one that shows a bug."""

    def work(capture: str, *given: Any, **named: Any) -> Any:
        if Path(capture).name == bad:
            raise ZeroDivisionError("division by zero")
        return Captures([capture], *given, **named)

    return lambda files, *given, **named: work(files[0], *given, **named)


EPOCHS, ACKS, LOSS = (str(CAPTURES / name) for name in ("adv-epochs.pcap", "adv-acks.pcap", "share-loss.pcap"))


def test_a_bug_costs_the_rows_of_its_capture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three are in one task."""
    monkeypatch.setattr(export, "Captures", failing("adv-acks.pcap"))
    options = Options(records="headers", embedded=True)
    with Export(tmp_path / "tables") as writing:
        named = [*zip(writing.names([[EPOCHS], [ACKS], [LOSS]]), [[EPOCHS], [ACKS], [LOSS]], strict=True)]
        writing.commit([export._write(named, writing.attempt, options).part])
    expected = rows_of(written([[EPOCHS], [LOSS]], tmp_path / "alone", {}))
    found = rows_of(tmp_path / "tables")
    assert {name: rows for name, rows in found.items() if name != "faults"} == {
        name: rows for name, rows in expected.items() if name != "faults"
    }
    ((name, code, stage, detail),) = faults_of(tmp_path / "tables")
    assert (name, code, stage) == ("adv-acks.pcap", "failed", "read")
    assert detail.startswith("adv-acks.pcap: a bug in kshark, at test_export.py:")


def test_a_capture_that_kills_its_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(_: Any, tasks: Sequence[Any], work: Any, *__: Any) -> list[Any]:
        if any(name == "adv-acks.pcap" for task in tasks for name, _ in task):
            raise RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")
        return [*map(work, tasks)]

    monkeypatch.setattr(export, "results", results)
    with Export(tmp_path / "tables") as writing:
        captures = [[EPOCHS], [ACKS], [LOSS]]
        made = [*export.run(None, writing, captures, Options(records="headers", embedded=True), 2, 100)]  # type: ignore[arg-type]
    assert [name for written in made for name, _ in written.notes] == [
        "adv-epochs.pcap",
        "adv-acks.pcap",
        "share-loss.pcap",
    ]
    assert [capture.name for capture in read_manifest(tmp_path / "tables").captures] == [
        "adv-epochs.pcap",
        "share-loss.pcap",
    ]
    assert [fault[:2] for fault in faults_of(tmp_path / "tables")] == [("adv-acks.pcap", "worker_lost")]


def test_commits_of_a_job_that_ends_stay_and_the_rest_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(_: Any, tasks: Sequence[Any], work: Any, *__: Any) -> list[Any]:
        if jobs and any(name == "share-loss.pcap" for task in tasks for name, _ in task):
            raise ConnectionError("Answer from Java side is empty")
        return [*map(work, tasks)]

    jobs = True
    monkeypatch.setattr(export, "results", results)
    options, captures = Options(records="headers", embedded=True), [[EPOCHS], [ACKS], [LOSS]]
    with pytest.raises(ConnectionError), Export(tmp_path / "tables", {}) as writing:
        assert [*export.run(None, writing, captures, options, 1, 1)]  # type: ignore[arg-type]
    assert [capture.name for capture in read_manifest(tmp_path / "tables").captures] == [
        "adv-epochs.pcap",
        "adv-acks.pcap",
    ]
    jobs = False
    with Export(tmp_path / "tables", {}, mode="resume") as writing:
        assert [*export.run(None, writing, captures, options, 1, 1)]  # type: ignore[arg-type]
        assert writing.skipped == 2
    assert rows_of(tmp_path / "tables") == rows_of(written(captures, tmp_path / "alone", {}))


@pytest.mark.spark
@pytest.mark.parametrize("each", [["--each"], []], ids=["each", "as one"])
def test_files_that_are_no_captures_have_a_row_in_faults_once(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], each: list[str]
) -> None:
    """The same from both engines, and however often the job runs."""
    folder, rows = odd_files(tmp_path / "odd"), []
    for main, name in ((kshark_spark.cli.main, "spark"), (kshark.cli.main, "one")):
        for _ in range(2):
            assert main(["export", str(folder), *each, "-o", str(tmp_path / name), "--resume"]) == 2
        assert "nothing new in" in capsys.readouterr().err
        rows.append(sorted(faults_of(tmp_path / name)))
    assert [row[:2] for row in rows[0]] == [
        ("empty.pcap", "no_capture"),
        ("random.pcap", "no_capture"),
        ("short.pcap", "damaged"),
    ]
    assert rows[0] == rows[1]


@pytest.mark.spark
@pytest.mark.slow
def test_a_process_that_is_killed_costs_one_capture(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its memory does not suffice; two jobs run at the time."""
    write = export._write

    def deadly(captures: Sequence[export.Named], **named: Any) -> export.Written:
        if any(name == "adv-acks.pcap" for name, _ in captures):
            os.kill(os.getpid(), signal.SIGKILL)
        return write(captures, **named)

    monkeypatch.setattr(export, "_write", deadly)
    captures = [[path_of(name)] for name in ("adv-epochs.pcap", "share-loss.pcap", "adv-acks.pcap", "aimed.pcap")]
    with Export(tmp_path / "tables") as writing:
        assert [*export.run(spark, writing, captures, Options(records="headers", embedded=True), 2, 2)]
    assert captures_in(tmp_path / "tables") == ["adv-epochs.pcap", "share-loss.pcap", "aimed.pcap"]
    assert [fault[:2] for fault in faults_of(tmp_path / "tables")] == [("adv-acks.pcap", "worker_lost")]
    del captures[2]
    expected, found = rows_of(written(captures, tmp_path / "alone", {})), rows_of(tmp_path / "tables")
    assert {name for name in expected if found[name] != expected[name]} == {"faults"}


def test_log_segments_have_the_rows_that_one_process_writes(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each segment is a capture without packets, with its notes; a file that is none is a row in `faults`."""
    folder = CAPTURES / "segments"
    cut = tmp_path / "00000000000000000007.log"
    cut.write_bytes((folder / "__transaction_state-1" / "00000000000000000000.log").read_bytes()[:-20])
    given = [str(folder / "__share_group_state-0"), str(folder / "__consumer_offsets-1"), str(cut)]
    by_spark, by_one = tmp_path / "spark", tmp_path / "one"
    assert kshark_spark.cli.main(["export", *given, "-o", str(by_spark), "--master", "local[2]"]) == 0
    assert "SEGMENT_CUT" in capsys.readouterr().err
    assert kshark.cli.main(["export", *given, "-o", str(by_one)]) == 0
    assert rows_of(by_spark) == rows_of(by_one)
    assert rows_of(by_one)["coordinator_records"].total() > 200
