"""Results: comparisons with a peer, figures with a limit, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Run, found, kshark
from benchmarks.places import ROOT
from benchmarks.rows import Row


@dataclass(frozen=True)
class Compared:
    """A row and its outcome: least times of both, the ratio of these, and the ratios of the single rounds."""

    row: Row
    own: float
    peer: float
    lowest: float
    highest: float
    own_mb: float
    peer_mb: float

    @classmethod
    def of(cls, row: Row, own: Sequence[Run], peer: Sequence[Run]) -> Compared:
        mine, theirs = ([getattr(run, row.measure) for run in runs] for runs in (own, peer))
        ratios = [other / one for one, other in zip(mine, theirs, strict=True)]
        memory = [max(run.memory_mb for run in runs) for runs in (own, peer)]
        return cls(row, min(mine), min(theirs), min(ratios), max(ratios), *memory)

    @property
    def ratio(self) -> float:
        return self.peer / self.own

    @property
    def met(self) -> bool:
        return self.ratio >= self.row.at_least


@dataclass(frozen=True)
class Figure:
    """A value that must not exceed its limit; without a limit, it is only for information."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def met(self) -> bool:
        return self.limit is None or self.value <= self.limit

    @property
    def shown(self) -> str:
        """Return small numbers with two decimals, large ones with none."""
        return f"{self.value:.{2 if self.value < 10 else 0}f} {self.unit}".rstrip()


@dataclass
class Results:
    """All results of a run of the benchmarks."""

    rounds: int
    quick: bool = False
    compared: list[Compared] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    commands: dict[str, list[str]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=lambda: machine())

    def plain(self) -> dict[str, Any]:
        """As JSON's types."""
        compared = [{**asdict(one), "ratio": round(one.ratio, 3), "met": one.met} for one in self.compared]
        figures = [{**asdict(one), "met": one.met} for one in self.figures]
        return {**asdict(self), "compared": compared, "figures": figures}


def machine() -> dict[str, str]:
    """Date, processor, and versions of everybody; peers that are not here are named as missing."""
    info = Path("/proc/cpuinfo")
    models = (
        [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores",
        "load": f"{os.getloadavg()[0]:.1f} at the start (what others kept busy: wall times mean nothing above 0.5)",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "kshark": f"{_said(kshark('--version'))}, commit "
        f"{_said(['git', '-C', str(ROOT), 'rev-parse', '--short', 'HEAD'])}",
        "tshark": _said(["tshark", "--version"]),
        "tcpdump": _said(["tcpdump", "--version"]),
        **{name: _version(name) for name in ("duckdb", "kio", "pyarrow", "msgspec", "numpy")},
    }


def _said(command: list[str]) -> str:
    """The first line that it prints."""
    if found(command[0]) is None:
        return "missing"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else "unknown"


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
