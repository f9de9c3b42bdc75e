"""Whole processes, measured by the operating system: CPU seconds, wall seconds and peak memory of each run, peers in turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Command = Sequence[str]


@dataclass(frozen=True)
class Run:
    """One process with all its children."""

    cpu_s: float
    wall_s: float
    memory_mb: float


def kshark(*arguments: str) -> list[str]:
    """The command of this environment: the one beside the Python that runs."""
    return [str(Path(sys.executable).parent / "kshark"), *arguments]


def found(program: str) -> str | None:
    return shutil.which(program)


def run(command: Command) -> Run:
    """One run, its output thrown away. Raises SystemExit when it fails (exit code 1 is `check` that found something)."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"no output: {' '.join(command)}")
        came = time.perf_counter() - begin
        process.stdout.close()
    return came * 1000


def to_head_ms(command: Command) -> float:
    """Milliseconds until `command | head -1` is over, both processes gone."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        subprocess.run(["head", "-1"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        assert process.stdout is not None
        process.stdout.close()
    return (time.perf_counter() - begin) * 1000


def memory_over_time(command: Command, every_s: float = 1.0) -> list[float]:
    """Resident MB of the process (not its children), looked at regularly while it runs."""
    seen = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            lines = [line for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
            seen += [int(line.split()[1]) / 1024 for line in lines]
            time.sleep(every_s)
    return seen
