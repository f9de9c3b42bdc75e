"""check and export in two processes: the same findings, the same files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import Done, Run
from tests.parallel.test_read import ALL, FEW


def tables(folder: Path) -> dict[str, bytes]:
    """What each file holds; an attempt's name, which is in all of theirs, is left out."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    attempt = next(re.findall(r"-(\w+)\.parquet", name)[0] for name in files if name.endswith(".parquet"))
    return {name.replace(attempt, "ATTEMPT"): data.replace(attempt.encode(), b"ATTEMPT") for name, data in files.items()}


def same_check(kshark: Run, *words: object) -> None:
    assert kshark("check", *words, "--jobs", 2) == kshark("check", *words)


def same_export(kshark: Run, folder: Path, *words: object) -> None:
    def exported(name: str, *more: object) -> tuple[Done, dict[str, bytes]]:
        done = kshark("export", *words, "-o", folder / name, *more)
        return Done(done.code, done.out, done.err.replace(str(folder / name), "")), tables(folder / name)

    assert exported("two", "--jobs", 2) == exported("one")


@pytest.mark.parametrize("capture", FEW[:3], ids=lambda path: path.name)
def test_findings_are_the_same(kshark: Run, capture: Path) -> None:
    same_check(kshark, capture, "-T", "json")


def test_findings_of_a_period_and_of_each_file_are_the_same(kshark: Run) -> None:
    same_check(kshark, *FEW[:2], "--each", "--since", "+1s", "--ignore", "SESSION_NOT_CLOSED")


@pytest.mark.parametrize("capture", FEW[:3], ids=lambda path: path.name)
def test_tables_are_the_same(kshark: Run, capture: Path, tmp_path: Path) -> None:
    same_export(kshark, tmp_path, capture)


def test_tables_of_several_captures_are_the_same(kshark: Run, tmp_path: Path) -> None:
    same_export(kshark, tmp_path, *FEW[:2], "--each", "--records", "--since", "+1s")


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
