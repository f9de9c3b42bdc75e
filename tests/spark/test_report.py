"""The same report from Spark, to the byte: from captures, and from their tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kshark.cli
import kshark_spark.cli
from tests.cli.incident import incident, written
from tests.shared import CAPTURES

pytestmark = pytest.mark.spark

#: Share sessions and their refusals, restarts, holes, frames that are none, TLS.
REPORTED = ("adv-epochs", "adv-frames", "share-restart", "share-loss", "security-sasl")


def made(capsys: pytest.CaptureFixture[str], main: Any, folder: Path, *words: str) -> tuple[int, str, dict[str, bytes]]:
    """Exit code, standard output and files of a report, with the pages of captures."""
    capsys.readouterr()
    code = main(["report", *words, "-o", str(folder)])
    return (
        code,
        capsys.readouterr().out,
        {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()},
    )


def by_spark(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str, dict[str, bytes]]:
    return made(capsys, kshark_spark.cli.main, folder, *words, "--master", "local[2]")


@pytest.fixture
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: tables know captures by their bare names."""
    for name in REPORTED:
        shutil.copy(CAPTURES / f"{name}.pcap", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_report_from_spark_is_the_one_of_one_process(
    spark: Any, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    names = [f"{name}.pcap" for name in REPORTED]
    expected = made(capsys, kshark.cli.main, captures / "one", *names, "--each")
    assert by_spark(capsys, captures / "two", *names, "--each") == expected
    assert kshark.cli.main(["export", *names, "--each", "-o", str(captures / "tables")]) == 0
    assert by_spark(capsys, captures / "three", str(captures / "tables")) == expected


def test_several_files_are_one_capture(spark: Any, capsys: pytest.CaptureFixture[str], captures: Path) -> None:
    packets = incident()
    names = [str(written(captures, part, name)) for part, name in ((packets[:12], "1.pcap"), (packets[12:], "2.pcap"))]
    for words in (names, [*names, "--select", "EPOCH_SKIP_AHEAD", "-T", "json"]):
        assert by_spark(capsys, captures / "two", *words) == made(capsys, kshark.cli.main, captures / "one", *words)


def test_a_capture_in_which_nothing_happened_is_named(
    spark: Any, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    for name, packets in (("empty.pcap", []), ("full.pcap", incident())):
        written(captures, packets, name)
    expected = made(capsys, kshark.cli.main, captures / "one", "empty.pcap", "full.pcap", "--each")
    assert kshark.cli.main(["export", "empty.pcap", "full.pcap", "--each", "-o", "tables"]) == 0
    assert by_spark(capsys, captures / "three", "tables") == expected


def test_files_that_cannot_be_read_are_named_and_the_others_reported(
    spark: Any, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    (captures / "random.pcap").write_bytes(bytes(range(256)))
    (captures / "short.pcap").write_bytes((captures / "adv-epochs.pcap").read_bytes()[:20])
    (captures / "cut.pcap").write_bytes((captures / "adv-epochs.pcap").read_bytes()[:20_000])
    names = ("random.pcap", "short.pcap", "cut.pcap", "adv-frames.pcap")
    expected = made(capsys, kshark.cli.main, captures / "one", *names, "--each")
    assert by_spark(capsys, captures / "two", *names, "--each") == expected
    assert sorted(expected[2]) == [
        *("captures/adv-frames.pcap.html", "captures/cut.pcap.html", "findings.parquet", "report.html", "report.json")
    ]
    expected = made(capsys, kshark.cli.main, captures / "one", *names[1:], "--each")
    assert kshark.cli.main(["export", *names[1:], "--each", "-o", "tables"]) == 2
    assert by_spark(capsys, captures / "three", "tables") == expected
    assert b"short.pcap could not be read" in expected[2]["report.html"]


def test_a_part_of_captures_is_reported_as_by_one_process(
    spark: Any, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    packets = incident()
    rotated = [
        str(written(captures, part, name)) for part, name in ((packets[:12], "1.pcap"), (packets[12:], "2.pcap"))
    ]
    for words in (
        [
            "adv-epochs.pcap",
            "share-restart.pcap",
            "--each",
            "--since",
            "+2s",
            "--until",
            "+20s",
            "-d",
            "tcp.port==9092,kafka",
        ],
        [*rotated, "-Y", "kafka.api == ShareFetch && kafka.error_code > 0"],
    ):
        assert by_spark(capsys, captures / "two", *words) == made(capsys, kshark.cli.main, captures / "one", *words)


def test_a_part_of_tables_cannot_be_reported(capsys: pytest.CaptureFixture[str], captures: Path) -> None:
    assert kshark.cli.main(["export", "adv-epochs.pcap", "-o", "tables"]) == 0
    capsys.readouterr()
    for words in (["--since", "+1s"], ["-Y", "kafka.api == Fetch"], ["-d", "tcp.port==9092,kafka"]):
        assert kshark_spark.cli.main(["report", "tables", "-o", "out", *words]) == 2
        assert "work with captures only" in capsys.readouterr().err


def test_bad_usage_is_one_sentence_and_leaves_the_earlier_report(
    capsys: pytest.CaptureFixture[str], captures: Path, tmp_path: Path
) -> None:
    made(capsys, kshark.cli.main, captures / "out", "adv-epochs.pcap")
    for words in (
        ["adv-epochs.pcap"],
        ["absent.pcap", "-o", "out"],
        ["adv-epochs.pcap", "-o", "out", "--select", "EPOCH_SKIP"],
        ["adv-epochs.pcap", "-o", "out", "-Y", "kafka.ap == 1"],
    ):
        assert kshark_spark.cli.main(["report", *words]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert (captures / "out/report.html").exists()
