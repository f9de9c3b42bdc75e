"""`tcpdump -w - | kshark check -`, and Ctrl-C: it is the end of the capture, and all that was found by then is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pytest

from kshark.capture import stop as stop_module
from kshark.capture.stop import Stop
from kshark.output.manifest import read_manifest
from tests.cli.command import Run
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT

CAPTURE = CAPTURES / "adv-epochs.pcap"


@contextmanager
def piped(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command with a pipe whose writer does not close it."""
    command = [sys.executable, "-m", "kshark", *words, "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        yield process
        process.kill()


def fed(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Writes all of it, and waits until it was read."""
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()
    left = array("i", [1])
    while left[0] and process.poll() is None:
        ioctl(process.stdin.fileno(), FIONREAD, left)
        time.sleep(0.01)


def ended(process: subprocess.Popen[bytes]) -> list[str]:
    """The rest of what it prints after Ctrl-C, which its writer does not hear of."""
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    lines = process.stdout.read().decode().splitlines()
    process.wait(PATIENCE_S)
    return lines


def test_findings_are_told_when_they_are_proved_and_the_summary_at_ctrl_c(kshark: Run) -> None:
    whole = CAPTURE.read_bytes()
    with piped("check", "-T", "json") as process:
        fed(process, whole)
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        lines = [first.rstrip("\n"), *ended(process)]
    assert process.returncode == 1
    assert json.loads(first)["verdict"] in ("violation", "unknown", "note")
    from_file = kshark("check", "-T", "json", CAPTURE).lines
    assert sorted(lines[:-1]) == sorted(from_file[:-1])
    assert lines[-1] == from_file[-1]


@pytest.mark.sweep
def test_for_people_the_first_of_each_sort_is_told_at_once(kshark: Run) -> None:
    with piped("check") as process:
        fed(process, CAPTURE.read_bytes())
        assert process.stdout is not None
        early = process.stdout.readline().decode()
        lines = [early.rstrip("\n"), *ended(process)]
    assert early.startswith("03:37:4")
    assert sum(" violation by " in line or "  violation" in line for line in lines) > 5
    assert lines[-4:] == kshark("check", CAPTURE).lines[-4:]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("words", [("sessions",), ("stats",), ("read", "-T", "json"), ("check", "-q")], ids=" ".join)
def test_ctrl_c_is_the_end_of_the_capture(kshark: Run, words: tuple[str, ...]) -> None:
    with piped(*words) as process:
        fed(process, CAPTURE.read_bytes())
        lines = ended(process)
    assert process.returncode == (words[0] == "check")
    assert lines == kshark(*words, CAPTURE).lines


def test_an_export_is_whole_after_ctrl_c(tmp_path: Path) -> None:
    with piped("export", "-q", "-o", str(tmp_path / "tables")) as process:
        fed(process, CAPTURE.read_bytes())
        assert ended(process) == []
    assert process.returncode == 0
    assert read_manifest(tmp_path / "tables").tables["exchanges"].rows == 113


def test_what_the_writer_hands_over_at_ctrl_c_is_read_too() -> None:
    """tcpdump gets the same key, and writes what it has kept back before it ends."""
    read, write = os.pipe()
    stop = Stop()
    with os.fdopen(read, "rb", buffering=0) as pipe:
        os.write(write, b"early")
        assert not stop.is_earlier(pipe)
        assert pipe.read(5) == b"early"
        stop.set()
        os.write(write, b"late")
        assert not stop.is_earlier(pipe)
        assert pipe.read(4) == b"late"
        assert stop.is_earlier(pipe)
    os.close(write)
    stop.close()


def test_a_writer_who_goes_on_is_not_heard_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_module, "_PATIENCE_S", 0.4)
    read, write = os.pipe()
    stop = Stop()
    with os.fdopen(read, "rb", buffering=0) as pipe:
        stop.set()
        rounds = 0
        os.write(write, b"more")
        while not stop.is_earlier(pipe):
            rounds += 1
        assert rounds > 1
    os.close(write)
    stop.close()
