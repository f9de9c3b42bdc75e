"""One of several files cannot be read: it is named, the rest is read, and the exit code says so where nothing worse was
found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kshark.capture import merge, source
from kshark.errors import UnreadableInput
from tests.cli.command import Run
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture in two rotated files, one that has just begun, one that is cut in its header, and what is no
    capture."""
    data = EPOCHS.read_bytes()
    (tmp_path / "1.pcap").write_bytes(data)
    (tmp_path / "2.pcap").write_bytes(data[:24])
    (tmp_path / "3.pcap").write_bytes(b"")
    (tmp_path / "4.pcap").write_bytes(data[:20])
    (tmp_path / "notes.txt").write_text("nothing to see")
    return tmp_path


WAYS = (
    ("check", "-q"),
    ("sessions",),
    ("stats",),
    ("read",),
    ("groups",),
)


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_rest_of_a_folder_is_read(kshark: Run, folder: Path, way: tuple[str, ...]) -> None:
    alone, done = kshark(*way, EPOCHS), kshark(*way, folder)
    assert done.code == (alone.code or 2)
    assert len(done.lines) == len(alone.lines)
    named = [line for line in done.err.splitlines() if line.endswith("; the other files are read")]
    assert [Path(line.removeprefix("kshark: ").partition(":")[0]).name for line in named] == ["3.pcap", "4.pcap"]


@pytest.mark.parametrize("locked", [".", "deep"])
def test_a_folder_that_may_not_be_looked_into_is_named(
    kshark: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: str
) -> None:
    (tmp_path / "deep").mkdir()
    refused, look = str(tmp_path / locked), os.scandir

    def scandir(path: str) -> Any:  # the tests may run as somebody who may look everywhere
        if str(path) == refused:
            raise PermissionError(13, "Permission denied", refused)
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    done = kshark("stats", folder)
    assert done.code == 2
    assert f"kshark: {Path(refused)}: " in done.err
    assert bool(done.out) == (locked == "deep")


def test_named_files_are_left_out_in_the_same_way(kshark: Run, folder: Path) -> None:
    done = kshark("stats", folder / "1.pcap", folder / "3.pcap", folder / "notes.txt")
    assert done.code == 2
    assert "3.pcap: no capture (pcap or pcapng), but an empty file; the other files are read" in done.err
    assert "notes.txt: no capture (pcap or pcapng), but text; the other files are read" in done.err
    assert done.out == kshark("stats", EPOCHS).out


def test_each_on_its_own_is_read_too(kshark: Run, folder: Path) -> None:
    done = kshark("stats", "--each", "-T", "json", folder)
    assert done.code == 2
    assert [Path(one["file"]).name for one in done.json] == ["1.pcap", "2.pcap", "4.pcap"]


def test_a_file_that_cannot_be_read_on_ends_there(kshark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk's error in the second file, behind its first packets."""
    other = folder / "5.pcap"
    other.write_bytes(EPOCHS.read_bytes())
    read = source.Plain.read
    opened = merge.open_capture

    def broken(self: source.Plain, size: int) -> bytes:
        if getattr(self, "broken", False) and self.bytes_read:
            raise OSError(5, "Input/output error")
        return read(self, size)

    def opening(path: str | Path, *rest: object) -> source.Capture:
        capture = opened(path, *rest)  # type: ignore[arg-type]
        setattr(capture._input, "broken", Path(path).name == "5.pcap")  # noqa: B010
        return capture

    monkeypatch.setattr(source.Plain, "read", broken)
    monkeypatch.setattr(merge, "open_capture", opening)
    done = kshark("stats", folder / "1.pcap", other)
    assert done.code == 2
    assert "5.pcap: input/output error; the other files are read" in done.err
    assert "113 answered" in done.out or "answered" in done.out


def test_where_nothing_is_left_that_is_the_error(kshark: Run, folder: Path) -> None:
    done = kshark("check", folder / "3.pcap", folder / "notes.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].endswith("notes.txt: no capture (pcap or pcapng), but text")


def test_a_mistyped_name_is_refused_before_anything_is_read_and_leaves_the_tables(
    kshark: Run, folder: Path, tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    assert kshark("export", "-q", folder / "1.pcap", "-o", tables).code == 0
    before = {path: path.stat().st_mtime_ns for path in tables.rglob("*")}
    done = kshark("export", folder / "1.pcap", folder / "mistyped.pcap", "-o", tables)
    assert done.code == 2
    assert done.err == f"kshark: {folder / 'mistyped.pcap'}: no such file or directory\n"
    assert {path: path.stat().st_mtime_ns for path in tables.rglob("*")} == before


def test_a_single_capture_that_cannot_be_read_leaves_the_tables(kshark: Run, folder: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    assert kshark("export", "-q", folder / "1.pcap", "-o", tables).code == 0
    before = sorted(tables.rglob("*"))
    assert kshark("export", folder / "4.pcap", "-o", tables).code == 2
    assert kshark("export", folder / "1.pcap", "--since", "+1h", "-o", tables).code == 2
    assert sorted(tables.rglob("*")) == before


def test_names_of_files_are_shown_without_what_a_terminal_obeys(kshark: Run, tmp_path: Path) -> None:
    red, turned = tmp_path / "\x1b[31mred.pcap", tmp_path / "\u202eeno.pcap"
    raw = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pcap")
    for path in (red, turned, Path(raw)):
        path.write_bytes(EPOCHS.read_bytes())
    (tmp_path / "\x1b[2Jempty.pcap").write_bytes(b"")
    (tmp_path / "\x1b[2Jnone").write_text("text")
    for way in (
        ("stats", "--each"),
        ("read", "-T", "json", "--each"),
        ("check", "-T", "json"),
        ("read", "-T", "json", "-c", "5"),
    ):
        done = kshark(*way, tmp_path)
        told = done.out + done.err
        assert not {"\x1b", "\u202e"} & set(told)
    assert '\\\\xff.pcap"' in kshark("read", "-T", "json", "--each", "-c", "1", tmp_path).out
    assert "\x1b" not in kshark("stats", tmp_path / "\x1b[2Jnone").err


def test_an_error_of_a_file_is_one_of_the_readers(tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(EPOCHS.read_bytes()[:10])
    with pytest.raises(UnreadableInput):
        merge.Lane(tmp_path / "cut.pcap", 0)


def test_the_files_of_each_folder_are_a_capture(kshark: Run, tmp_path: Path) -> None:
    """The rotated files of each host: connections continue from one to the next."""
    for host, name in (("b", "1"), ("a", "1"), ("b", "2")):
        (tmp_path / host).mkdir(exist_ok=True)
        (tmp_path / host / f"{name}.pcap").write_bytes(EPOCHS.read_bytes())
    done = kshark("check", tmp_path, "--each-folder", "-q")
    heads = [line for line in done.out.splitlines() if line.startswith("== ")]
    assert heads == [f"== {tmp_path}/a/1.pcap", f"== {tmp_path}/b (2 files)"]
    alone = kshark("check", tmp_path / "b", "-q").out
    assert done.out.endswith(alone)
    assert kshark("check", tmp_path, "--each-folder", "--each").code == 2
