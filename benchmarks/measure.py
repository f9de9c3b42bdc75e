"""Measure whole processes with the operating system: CPU seconds, wall seconds and peak memory; peers take turns."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Command = Sequence[str]


@dataclass(frozen=True)
class Run:
    """The measurements of one process with all its children."""

    cpu_s: float
    wall_s: float
    memory_mb: float


#: As with an installed program: what Python compiled once is not compiled in every run, whatever this shell says.
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def kshark(*arguments: str) -> list[str]:
    """Return the kshark command of this environment, next to its Python."""
    return [str(Path(sys.executable).parent / "kshark"), *arguments]


def found(program: str) -> str | None:
    return shutil.which(program)


def run(command: Command) -> Run:
    """Measure one run without its output. Raises SystemExit if it fails (exit code 1 of `check` is a violation)."""
    begin = time.perf_counter()
    process = _started(command)
    _, status, usage = os.wait4(process.pid, 0)
    return _ended(process, status, usage, begin)


def watched(command: Command, every_s: float = 1.0) -> tuple[Run, list[float]]:
    """Measure one run, and the resident MB of its process (without children) over time."""
    begin, seen = time.perf_counter(), []
    process = _started(command)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        told = Path(f"/proc/{process.pid}/statm").read_text().split()
        seen.append(int(told[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20))
        time.sleep(every_s)
    return _ended(process, *ended[1:], begin), seen


def family(command: Command, every_s: float = 0.2) -> Run:
    """One run with all processes that it starts, also those that leave it (a JVM and its workers): their CPU, and the
    most memory that they held together, a page that n processes share counted 1/n for each (proportional set size,
    proc(5): smaps_rollup). It takes as long as the command itself; CPU that the others use afterwards counts.

    Others than the command are looked at now and then: what they did in their last moments is not seen.
    """
    _adopt()
    begin, most = time.perf_counter(), 0.0
    process = _started(command)
    others: dict[int, float] = {}
    ended = None
    while ended is None or others.keys() & set(_below(os.getpid())):
        seen = {pid: told for pid in set(_below(os.getpid())) if (told := _told(pid)) is not None}
        most = max(most, sum(memory for _, memory in seen.values()))
        others |= {pid: cpu_s for pid, (cpu_s, _) in seen.items() if pid != process.pid}
        if ended is None:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            ended = _ended(process, status, usage, begin) if pid else None
        time.sleep(every_s)
        _bury(process.pid)
    return Run(ended.cpu_s + sum(others.values()), ended.wall_s, most)


def _adopt() -> None:
    """Orphans below this process become its children. Linux: prctl(2), PR_SET_CHILD_SUBREAPER."""
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:
        raise SystemExit("this system does not tell what all processes of a command take: Linux does")


def _below(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()
        ]
    except OSError:  # it is gone
        return []


def _told(pid: int) -> tuple[float, float] | None:
    """CPU seconds and proportional MB of a process; None when it is gone. proc(5): times are fields 14 and 15 of
    stat."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        held = re.search(r"^Pss: *(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 0.0 if held is None else int(held[1]) / 1024


def _bury(own: int) -> None:
    """Wait for orphans that have ended, but not for the command itself, `own`."""
    for pid in _children(os.getpid()):
        if pid != own:
            os.waitpid(pid, os.WNOHANG)


def _started(command: Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)


def _ended(process: subprocess.Popen[bytes], status: int, usage: resource.struct_rusage, begin: float) -> Run:
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"exit {process.returncode}: {process.args!r}")
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def in_turn(commands: Mapping[str, Command], rounds: int) -> dict[str, list[Run]]:
    """Run the commands in turn, A B A B …, so that a change of the machine's speed affects all equally."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(run(command))
    return runs


def first_line_ms(command: Command) -> float:
    """Return milliseconds from the start of the process to its first whole line; then close its pipe."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"no output: {' '.join(command)}")
        came = time.perf_counter() - begin
        process.stdout.close()
    return came * 1000


def to_head_ms(command: Command) -> float:
    """Return milliseconds until both processes of `command | head -1` have ended."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        subprocess.run(["head", "-1"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        assert process.stdout is not None
        process.stdout.close()
    return (time.perf_counter() - begin) * 1000
