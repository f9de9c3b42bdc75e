"""Whole processes, measured by the operating system: CPU seconds and peak memory of each run, peers in turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    cpu_s: float
    wall_s: float
    memory_mb: float


def kshark(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "kshark"), *arguments]


def tshark(*arguments: str) -> list[str] | None:
    """tshark's command line, None where it is not installed."""
    found = shutil.which("tshark")
    return [found, *arguments] if found else None


def run(command: Sequence[str]) -> Run:
    """One run, its output thrown away; raises SystemExit when it fails."""
    import time

    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    return Run(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin, usage.ru_maxrss / 1024)


def in_turn(commands: Sequence[Sequence[str]], rounds: int) -> list[list[Run]]:
    """Runs of each command, A B A B …, so that a machine whose speed drifts is fair to all."""
    runs: list[list[Run]] = [[] for _ in commands]
    for _ in range(rounds):
        for mine, command in zip(runs, commands, strict=True):
            mine.append(run(command))
    return runs
