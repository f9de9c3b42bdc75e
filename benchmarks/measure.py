"""Whole processes, measured by the operating system: CPU seconds, wall seconds and peak memory of each run, peers in turn."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Command = Sequence[str]


@dataclass(frozen=True)
class Run:
    """One process with all its children."""

    cpu_s: float
    wall_s: float
    memory_mb: float


#: As with an installed program: what Python compiled once is not compiled in every run, whatever this shell says.
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def kshark(*arguments: str) -> list[str]:
    """The command of this environment: the one beside the Python that runs."""
    return [str(Path(sys.executable).parent / "kshark"), *arguments]


def found(program: str) -> str | None:
    return shutil.which(program)


def run(command: Command) -> Run:
    """One run, its output thrown away. Raises SystemExit when it fails (exit code 1 is `check` that found something)."""
    begin = time.perf_counter()
    process = _started(command)
    _, status, usage = os.wait4(process.pid, 0)
    return _ended(process, status, usage, begin)


def watched(command: Command, every_s: float = 1.0) -> tuple[Run, list[float]]:
    """One run, and the resident MB of its process (not its children) while it ran."""
    begin, seen = time.perf_counter(), []
    process = _started(command)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        told = Path(f"/proc/{process.pid}/statm").read_text().split()
        seen.append(int(told[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20))
        time.sleep(every_s)
    return _ended(process, *ended[1:], begin), seen


def _started(command: Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)


def _ended(process: subprocess.Popen[bytes], status: int, usage: resource.struct_rusage, begin: float) -> Run:
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"exit {process.returncode}: {process.args!r}")
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def in_turn(commands: Mapping[str, Command], rounds: int) -> dict[str, list[Run]]:
    """Runs of each command, A B A B …, so that a machine whose speed drifts is fair to all."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(run(command))
    return runs


def first_line_ms(command: Command) -> float:
    """Milliseconds from the start of the process until a whole line has come out; then its pipe is closed."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"no output: {' '.join(command)}")
        came = time.perf_counter() - begin
        process.stdout.close()
    return came * 1000


def to_head_ms(command: Command) -> float:
    """Milliseconds until `command | head -1` is over, both processes gone."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        subprocess.run(["head", "-1"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        assert process.stdout is not None
        process.stdout.close()
    return (time.perf_counter() - begin) * 1000
