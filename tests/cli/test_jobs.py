"""`--each --jobs N`: N processes print to the byte what one prints, in the order of the captures."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset, parquet

from kshark.capture import source as capture_source
from kshark.capture.files import open_file
from kshark.cli import check, export, processes
from kshark.cli.processes import ProcessLost, in_processes
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.output.manifest import read_manifest
from kshark.output.sink import Sink
from tests.cli.command import Done, Run
from tests.cli.doubled import doubled
from tests.shared import CAPTURES, ROOT

#: The first takes longest: what the others print has to wait.
FEW = [
    CAPTURES / name for name in ("share-java-explicit.pcap", "adv-epochs.pcap", "share-loss.pcap", "tcp-hostile.pcap")
]
COMMANDS = (
    "read",
    "read -T json",
    "read -T fields -e kafka.api -e kafka.error_code",
    "read -V -c 3",
    "read -q",
    "check",
    "check -T json --coverage --fail-on unknown",
    "check -q --since +1s --ignore SESSION_NOT_CLOSED",
    "sessions -V",
    "groups -T json",
    "deliveries",
    "stats",
    "stats --flows -T json",
    "stats --share",
)


def same(kshark: Run, *words: object, jobs: object = 2) -> Done:
    alone = kshark(*words)
    assert kshark(*words, "--jobs", jobs) == alone
    return alone


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_what_one_process_prints(kshark: Run, command: str) -> None:
    same(kshark, *command.split(), *FEW, "--each")


def test_more_processes_than_captures(kshark: Run) -> None:
    done = same(kshark, "check", *FEW[:3], "--each", "-q", jobs=5)
    assert [line for line in done.lines if line.startswith("==")] == [f"== {path}" for path in FEW[:3]]


def test_auto_is_one_for_each_core(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    same(kshark, "check", *FEW[1:3], "--each", jobs="auto")


@pytest.mark.parametrize("words", ["-1", "two", "1.5"])
def test_a_number_of_processes_is_a_number(kshark: Run, words: str) -> None:
    done = kshark("sessions", FEW[0], f"--jobs={words}")
    assert done.code == 2
    assert "not a number of processes" in done.err


# -- one capture


@pytest.mark.parametrize(
    ("words", "advice"), [(FEW[:2], "; add --each if every file is a separate capture"), ([FEW[1], "--each"], "")]
)
def test_one_capture_is_one_process(kshark: Run, words: list[object], advice: str) -> None:
    alone, together = kshark("check", *words), kshark("check", *words, "--jobs", 2)
    note = f"kshark: --jobs: a single capture is read by one process{advice}\n"
    assert (together.code, together.out, together.err) == (alone.code, alone.out, note + alone.err)


def test_a_pipe_is_read_by_one_process() -> None:
    command = f"{sys.executable} -m kshark check - {FEW[1]} --each -q --jobs 2 < {FEW[2]}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stderr.startswith("kshark: --jobs: a pipe, and all captures named with it, are read by one process\n")
    assert [line for line in done.stdout.splitlines() if line.startswith("==")] == ["== -", f"== {FEW[1]}"]


# -- captures that cannot be read


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


@pytest.fixture
def torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "torn.pcap"
    shutil.copy(FEW[0], path)
    monkeypatch.setattr(
        capture_source, "open_file", lambda given: Torn(open_file(given)) if given == str(path) else open_file(given)
    )
    return path


@pytest.mark.parametrize("command", ["read -T json", "check -T json", "stats"])
def test_a_capture_that_cannot_be_read_is_named_and_the_rest_is_read(
    kshark: Run, tmp_path: Path, torn: Path, command: str
) -> None:
    """One that is none, and one that cannot be read to its end."""
    none = tmp_path / "none.pcap"
    none.write_bytes(b"nothing of the kind")
    done = same(kshark, *command.split(), FEW[1], none, torn, FEW[2], "--each")
    assert done.code == (1 if command.startswith("check") else 2)
    assert f"kshark: {none}" in done.err
    assert f"kshark: {torn}" in done.err


@pytest.mark.parametrize("command", ["read", "check", "check -T json --coverage", "check -T junit", "sessions"])
@pytest.mark.parametrize("cut", [0, 4, 20, 24, 30])
def test_a_capture_without_a_packet_is_named_and_the_rest_is_read(
    kshark: Run, tmp_path: Path, command: str, cut: int
) -> None:
    cut_off = tmp_path / "cut_off.pcap"
    cut_off.write_bytes(FEW[2].read_bytes()[:cut])
    done = same(kshark, *command.split(), cut_off, FEW[2], cut_off, FEW[1], "--each")
    assert done.err.count(str(cut_off)) >= 2
    assert "Traceback" not in done.err


def test_an_error_ends_the_command_at_its_capture(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(source: Source, args: Namespace, sink: Sink) -> set[str]:
        if source.number == 1:
            raise UsageError("not this one")
        sink.text(f"read {source.number}\n")
        return set()

    monkeypatch.setattr(check, "_check", failing)
    done = same(kshark, "check", *FEW[:3], "--each")
    assert (done.code, done.err.splitlines()[-1]) == (2, "kshark: not this one")
    assert done.lines == [f"== {FEW[0]}", "read 0", f"== {FEW[1]}"]


# -- tables and reports


def exported(kshark: Run, folder: Path, *words: object) -> tuple[Done, dict[str, Any], Any]:
    done = kshark("export", *words, "-o", folder)
    manifest = read_manifest(folder)
    rows = {
        name: [row for file in table.files for row in parquet.read_table(folder / file.path).to_pylist()]
        for name, table in manifest.tables.items()
    }
    for row in rows["captures"]:
        del row["seconds"]
    return Done(done.code, done.out, done.err.replace(str(folder), "DIR")), rows, manifest.captures


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("words", [(), ("--records", "--since", "+1s"), ("--append",)])
def test_tables_have_the_same_rows_in_the_same_order(kshark: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    alone = exported(kshark, tmp_path / "one", *FEW, "--each", *words)
    assert exported(kshark, tmp_path / "two", *FEW, "--each", *words, "--jobs", 2) == alone
    assert dataset.dataset(tmp_path / "two/exchanges").count_rows() == len(alone[1]["exchanges"])


@pytest.mark.parametrize("jobs", [1, 2])
def test_captures_that_cannot_be_read_on_are_faults_and_the_others_are_exported(
    kshark: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torn: Path, jobs: int
) -> None:
    here, gone = tmp_path / "here.pcap", tmp_path / "gone.pcap"
    for path in (here, gone):
        shutil.copy(FEW[2], path)
    need = export.need_captures
    monkeypatch.setattr(export, "need_captures", lambda paths: (need(paths), gone.unlink(missing_ok=True)))
    done, rows, captures = exported(kshark, tmp_path / "tables", gone, torn, here, "--each", "--jobs", jobs)
    said = [f"{gone}: no such file or directory", f"{torn}: input/output error"]
    assert done.code == 2
    assert [line for line in done.err.splitlines() if line.startswith(f"kshark: {tmp_path}")][:2] == [
        f"kshark: {one}" for one in said
    ]
    assert [(row["capture"], row["code"], row["stage"], row["detail"]) for row in rows["faults"]] == [
        ("gone.pcap", "vanished", "hash", said[0]),
        ("torn.pcap", "unreadable", "read", said[1]),
    ]
    assert [capture.name for capture in captures] == ["here.pcap"]
    _, alone, _ = exported(kshark, tmp_path / "alone", here, "--each")
    assert rows | {"faults": []} == alone


def test_captures_that_are_there_are_left_out(kshark: Run, tmp_path: Path) -> None:
    kshark("export", *FEW[:2], "--each", "-o", tmp_path)
    done = kshark("export", *FEW[:3], "--each", "-o", tmp_path, "--resume", "--jobs", 2)
    assert "; 2 captures already in it" in done.err
    assert [capture.name for capture in read_manifest(tmp_path).captures] == [path.name for path in FEW[:3]]


@pytest.mark.sweep
def test_a_report_is_the_same(kshark: Run, tmp_path: Path) -> None:
    done = [kshark("report", *FEW, "--each", "-o", tmp_path / f"{jobs}", "--jobs", jobs) for jobs in (1, 2)]
    assert (done[0].code, done[0].out) == (done[1].code, done[1].out)
    assert done[0].err.replace(f"{tmp_path}/1", "") == done[1].err.replace(f"{tmp_path}/2", "")
    for name in ("report.json", "report.html"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    rows = [parquet.read_table(tmp_path / jobs / "findings.parquet") for jobs in ("1", "2")]
    assert rows[0].equals(rows[1])


# -- processes


def killed(number: int) -> Callable[[Source, Namespace, Sink], set[str]]:
    def show(source: Source, args: Namespace, sink: Sink) -> set[str]:
        sink.text(f"read {source.number}\n")
        if source.number == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return set()

    return show


def test_a_process_that_dies_is_an_error(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_check", killed(1))
    done = kshark("check", *FEW, "--each", "--jobs", 2)
    said = f"kshark: {FEW[1]}: the process that read it ended unexpectedly (exit code -9); try --jobs 1"
    assert (done.code, done.err.splitlines()[-1]) == (2, said)
    assert done.lines[:2] == [f"== {FEW[0]}", "read 0"]
    assert f"== {FEW[2]}" not in done.lines


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("forks", [True, False])
def test_results_and_output_come_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    """However much waits for the first."""
    monkeypatch.setattr(processes, "_MEMORY_BYTES", 1000)
    assert [*in_processes(doubled, [(str(item), item) for item in range(9)], 2, forks=forks)] == [*range(0, 18, 2)]
    said = capsys.readouterr()
    assert said.out == "".join(f"{item} " * 200_000 + "\n" for item in range(9))
    assert said.err == "".join(f"said {item}\n" for item in range(9))


def test_a_process_works_on_several_items() -> None:
    """Thus it imports and compiles once."""
    pids = [*in_processes(lambda item: os.getpid(), [(str(item), item) for item in range(20)], 3, forks=True)]
    assert len(pids) == 20
    assert len({*pids}) <= 3


def test_whoever_needs_no_more_ends_the_processes() -> None:
    results = in_processes(time.sleep, [("short", 0.0), ("long", 600.0)], 2, forks=True)
    assert next(results) is None
    begun = time.monotonic()
    results.close()
    assert time.monotonic() - begun < 60


def test_what_is_printed_before_a_process_dies_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def dying(item: int) -> None:
        print("begun", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ProcessLost, match=r"a\.pcap: the process that read it ended"):
        next(in_processes(dying, [("a.pcap", 0)], 2, forks=True))
    assert capsys.readouterr().out == "begun\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captures that take a while."""
    for number in range(12):
        shutil.copy(FEW[0], tmp_path / f"{number:02}.pcap")
    return tmp_path


def started(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kshark", "check", str(folder), "--each", "--jobs", "2"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=heeding_ctrl_c
    )


def heeding_ctrl_c() -> None:
    """Also where a shell started the tests in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not task.exists():
        pytest.skip("no /proc here")
    for _ in range(1200):
        if len(found := [int(number) for number in task.read_text().split()]) >= 2:
            return found
        time.sleep(0.025)
    raise AssertionError("no children")


def is_running(process: int) -> bool:
    """One that waits for its parent to look (Z) is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_with_the_first_process_all_end(folder: Path, number: int) -> None:
    with started(folder) as run:
        workers = children(run)
        run.send_signal(number)
        _, err = run.communicate(timeout=60)
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    assert b"Traceback" not in err
    for _ in range(1200):
        if not any(map(is_running, workers)):
            return
        time.sleep(0.025)
    raise AssertionError("processes are left")


@pytest.mark.sweep
def test_a_reader_that_has_enough_ends_all() -> None:
    command = f"{sys.executable} -m kshark read {FEW[0]} {FEW[1]} --each --jobs 2 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert re.fullmatch(r"== \S+\n", done.stdout)
    assert done.stderr == ""
