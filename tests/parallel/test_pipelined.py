"""check and export in two processes: the same findings, the same files."""

from __future__ import annotations

import errno
import re
import shutil
from io import RawIOBase
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kshark.capture import source
from kshark.capture.files import open_file
from kshark.cli import export
from kshark.output.manifest import read_manifest
from tests.cli.command import Done, Run
from tests.parallel.test_read import ALL, FEW
from tests.shared import CAPTURES


def tables(folder: Path) -> dict[str, bytes]:
    """What each file holds; an attempt's name, which is in all of theirs, is left out."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    attempt = next(re.findall(r"-(\w+)\.parquet", name)[0] for name in files if name.endswith(".parquet"))
    return {
        name.replace(attempt, "ATTEMPT"): data.replace(attempt.encode(), b"ATTEMPT") for name, data in files.items()
    }


def same_check(kshark: Run, *words: object) -> None:
    assert kshark("check", *words, "--jobs", 2) == kshark("check", *words)


def same_export(kshark: Run, folder: Path, *words: object) -> None:
    def exported(name: str, *more: object) -> tuple[Done, dict[str, bytes]]:
        done = kshark("export", *words, "-o", folder / name, *more)
        return Done(done.code, done.out, done.err.replace(str(folder / name), "")), tables(folder / name)

    assert exported("two", "--jobs", 2) == exported("one")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", FEW[:3], ids=lambda path: path.name)
def test_findings_are_the_same(kshark: Run, capture: Path) -> None:
    same_check(kshark, capture, "-T", "json")


def test_findings_of_a_period_and_of_each_file_are_the_same(kshark: Run) -> None:
    same_check(kshark, *FEW[:2], "--each", "--since", "+1s", "--ignore", "SESSION_NOT_CLOSED")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", FEW[:3], ids=lambda path: path.name)
def test_tables_are_the_same(kshark: Run, capture: Path, tmp_path: Path) -> None:
    same_export(kshark, tmp_path, capture)


def test_tables_of_several_captures_are_the_same(kshark: Run, tmp_path: Path) -> None:
    same_export(kshark, tmp_path, *FEW[:2], "--each", "--records", "--since", "+1s")


class Torn(RawIOBase):
    """A file of a disk that gives no more than its beginning."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._file.tell() > 1 << 16:
            raise OSError(errno.EIO, "Input/output error")
        return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_captures_that_cannot_be_read_on_are_faults_and_the_others_are_exported(
    kshark: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int
) -> None:
    here, gone, torn = (tmp_path / name for name in ("here.pcap", "gone.pcap", "torn.pcap"))
    for path in (here, gone, torn):
        shutil.copy(CAPTURES / "share-loss.pcap", path)
    need = export.need_captures
    monkeypatch.setattr(export, "need_captures", lambda paths: (need(paths), gone.unlink(missing_ok=True)))
    monkeypatch.setattr(
        source, "open_file", lambda path: Torn(open_file(path)) if path == str(torn) else open_file(path)
    )
    done = kshark("export", gone, torn, here, "--each", "--jobs", jobs, "-o", tmp_path / "tables")
    said = [f"{gone}: no such file or directory", f"{torn}: input/output error"]
    assert done.code == 2
    assert [line.removeprefix("kshark: ") for line in done.err.splitlines() if line.startswith(f"kshark: {tmp_path}")][
        :2
    ] == said
    faults = parquet.read_table(tmp_path / "tables/faults").select(["capture", "code", "stage", "detail"]).to_pylist()
    assert [tuple(row.values()) for row in faults] == [
        ("gone.pcap", "vanished", "hash", said[0]),
        ("torn.pcap", "unreadable", "read", said[1]),
    ]
    manifest = read_manifest(tmp_path / "tables")
    assert [capture.name for capture in manifest.captures] == ["here.pcap"]
    alone = kshark("export", here, "--each", "-o", tmp_path / "alone")
    assert alone.code == 0
    left = {name: table.rows for name, table in manifest.tables.items()}
    assert left == {name: table.rows for name, table in read_manifest(tmp_path / "alone").tables.items()} | {
        "faults": 2
    }


def test_a_folder_that_holds_something_else_is_refused(kshark: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    alone, together = (kshark("export", FEW[0], "-o", tmp_path, "--jobs", jobs) for jobs in (1, 2))
    assert alone.code == 2
    assert together == alone


@pytest.mark.slow
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_every_capture_is_checked_and_exported_the_same(kshark: Run, capture: Path, tmp_path: Path) -> None:
    same_check(kshark, capture)
    same_export(kshark, tmp_path, capture, "--records")
