"""Run all benchmarks: create the inputs, measure the rows in turn, then the figures with a limit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.inputs import INPUTS, Input
from benchmarks.measure import Command, first_line_ms, found, in_turn, kshark, run, to_head_ms, watched
from benchmarks.places import ROOT, WORK
from benchmarks.results import Compared, Figure, Results
from benchmarks.rows import ROWS, commands_of

#: Limits of the figures: MB of any run, ms until the first line, ms of `--help`'s CPU time.
MEMORY_MB = 200.0
FIRST_LINE_MS = 300.0
HELP_MS = 150.0
#: Huge files: sizes in MB, and the limit of the larger one's time, relative to ten times that of the smaller.
HUGE = (500, 5000)
LINEAR = 1.1
HUGE_ROUNDS = 3


@dataclass
class Bench:
    """Measure the inputs named in `only`; None: all inputs."""

    quick: bool
    rounds: int
    only: list[str] | None = None
    huge: bool = False
    results: Results = field(init=False)
    #: By command and input.
    peaks_mb: dict[str, dict[str, float]] = field(default_factory=dict)

    def run(self) -> Results:
        self.results = Results(self.rounds, self.quick)
        for traffic in INPUTS.values():
            if self.only is None or traffic.name in self.only:
                self._input(traffic)
        for what, peaks in self.peaks_mb.items():
            name, peak = max(peaks.items(), key=lambda pair: pair[1])
            self._figure(f"peak memory of {what}, the highest of all inputs ({name})", peak, "MB", MEMORY_MB)
        if self.only is None:
            self._start()
            self._others()
        if self.huge:
            self._huge()
        return self.results

    def _input(self, traffic: Input) -> None:
        """Measure all rows of an input; their commands take turns."""
        path = self._path(traffic)
        commands = commands_of([row for row in ROWS if row.input == traffic.name], traffic, str(path))
        self._show(traffic.name, commands)
        runs = in_turn(commands, self.rounds)
        shutil.rmtree(WORK / "tables", ignore_errors=True)
        for row in ROWS:
            if row.input == traffic.name and row.own in runs:
                if row.peer in runs:
                    self.results.compared.append(Compared.of(row, runs[row.own], runs[row.peer]))
                else:
                    self.results.left_out.append(f"{row.input}, {row.what}: the peer ({row.peer}) is not here")
        for name, command in commands.items():
            if "tshark" not in name:
                peaks = self.peaks_mb.setdefault(command[1], {})
                peaks[traffic.name] = max([peaks.get(traffic.name, 0.0), *(one.memory_mb for one in runs[name])])

    def _path(self, traffic: Input) -> Path:
        path = traffic.path(traffic.quick_megabytes if self.quick else traffic.megabytes)
        self.results.inputs[path.name] = f"{path.stat().st_size / 1e6:.0f} MB: {traffic.what}"
        return path

    def _start(self) -> None:
        """Measure latencies: help, the first line, few messages, a reader that closes its pipe."""
        path = str(self._path(INPUTS["large"]))
        few, one = kshark("read", "-c", "10", path), kshark("read", path)
        self._show("start", {"help": kshark("--help"), "few": few, "one": [*one, "|", "head", "-1"]})
        least = max(self.rounds, 3)
        self._figure(
            "kshark --help, CPU time", min(run(kshark("--help")).cpu_s for _ in range(least)) * 1000, "ms", HELP_MS
        )
        size = f"{Path(path).stat().st_size / 1e6:.0f} MB"
        self._figure(
            f"first line of read on {size}, wall time",
            min(first_line_ms(one) for _ in range(least)),
            "ms",
            FIRST_LINE_MS,
        )
        self._figure(
            f"read -c 10 on {size}, wall time", min(run(few).wall_s for _ in range(least)) * 1000, "ms", FIRST_LINE_MS
        )
        self._figure(
            f"read piped to head -1 on {size}, wall time",
            min(to_head_ms(one) for _ in range(least)),
            "ms",
            FIRST_LINE_MS,
        )

    def _others(self) -> None:
        """Measure figures without a target: reading packets only, other decoders, the stages."""
        old = self._path(INPUTS["old-versions"])
        if (tcpdump := found("tcpdump")) is not None:
            copy = [tcpdump, "-r", str(old), "-w", "/dev/null"]
            self._show("floor", {"tcpdump": copy})
            cpu = min(run(copy).cpu_s for _ in range(self.rounds))
            self._figure("tcpdump copies the packets of old-versions, CPU time: the floor", cpu, "s")
        else:
            self.results.left_out.append("the floor of reading packets: tcpdump is not here")
        self._duckdb(old)
        if not self.quick:
            for traffic in (INPUTS[name] for name in ("old-versions", "share-rpc", "zstd")):
                file = traffic.path(traffic.quick_megabytes)
                self._module(f"Stages on {file.name}", "benchmarks.stages", str(file), "--rounds", "3")
            self._module("Bodies: kshark's readers beside kio's", "benchmarks.codec")

    def _duckdb(self, path: Path) -> None:
        if self.results.machine["duckdb"] == "missing":
            self.results.left_out.append("DuckDB reading our Parquet: the package duckdb is not here")
            return
        tables = WORK / "tables"
        run(kshark("export", "-q", "-o", str(tables), str(path)))
        query = f"select api, count(*) from '{tables}/exchanges/*.parquet' group by 1"
        cpu = min(
            run([sys.executable, "-c", f"import duckdb; duckdb.sql({query!r}).fetchall()"]).cpu_s
            for _ in range(self.rounds)
        )
        self._figure("DuckDB counts the exported exchanges of old-versions by API, CPU time", cpu, "s")
        shutil.rmtree(tables)

    def _huge(self) -> None:
        """Check that a file of ten times the size takes ten times as long, and no more memory."""
        small, large = (str(INPUTS["large"].path(size)) for size in HUGE)
        own = [run(kshark("read", "-T", "json", small)) for _ in range(HUGE_ROUNDS)]
        whole, series = watched(kshark("read", "-T", "json", large))
        share = whole.cpu_s / min(one.cpu_s for one in own) / (HUGE[1] / HUGE[0])
        self._figure(f"CPU time of {HUGE[1]} MB over ten times that of {HUGE[0]} MB", share, "", LINEAR)
        self._figure(f"peak memory at {HUGE[1]} MB", whole.memory_mb, "MB", MEMORY_MB)
        self.results.series[f"Resident MB, each second of reading {HUGE[1]} MB"] = series

    def _module(self, title: str, name: str, *arguments: str) -> None:
        """Return the output of another benchmark of this folder."""
        done = subprocess.run(
            [sys.executable, "-m", name, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.results.left_out.append(f"{title}: {name} failed: {' '.join(done.stderr.splitlines()[-1:])}")
        else:
            self.results.texts[title] = _anonymous(done.stdout.rstrip())

    def _figure(self, what: str, value: float, unit: str, limit: float | None = None) -> None:
        self.results.figures.append(Figure(what, value, unit, limit))

    def _show(self, name: str, commands: dict[str, Command]) -> None:
        """Record the exact commands, without this machine's folders."""
        lines = [_anonymous(" ".join([Path(line[0]).name, *line[1:]])) for line in commands.values()]
        self.results.commands[name] = lines
        print("\n".join(lines), file=sys.stderr, flush=True)


def _anonymous(text: str) -> str:
    return text.replace(f"{WORK}/", "benchmarks/work/").replace(f"{ROOT}/", "")
