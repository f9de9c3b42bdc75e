"""Compare kshark-spark on this machine with one kshark process, on the same files in the same run: `make bench-spark`.

    python -m benchmarks.spark [--rounds N] [--only ROW] [--huge] [--quick]

Prints a table; a run of all rows also writes benchmarks/SPARK.md. Needs a quiet machine: wall times are compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.event_log import SETTINGS, Stage, stages
from benchmarks.inputs import INPUTS
from benchmarks.measure import Run, family, kshark
from benchmarks.places import CAPTURES, WORK

HERE: Final = Path(__file__).resolve().parent
CORES: Final = 2
#: Number of copies of small captures.
SMALL: Final = 500


@dataclass(frozen=True)
class Row:
    """A kind of work: its words for both commands, and what it reads. `most`: the wall time that is asked for, beside
    one process."""

    name: str
    words: tuple[str, ...]
    input: str
    megabytes: int
    most: float | None = 1.1
    huge: bool = False


ROWS: Final = (
    Row("check, share RPCs", ("check", "-q"), "share-rpc", 300, None),
    Row("check, share RPCs", ("check", "-q"), "share-rpc", 1000),
    Row("check, share RPCs", ("check", "-q"), "share-rpc", 5000, huge=True),
    Row("check, records", ("check", "-q"), "zstd", 1000),
    Row("export, share RPCs", ("export", "-q", "-o", "{folder}"), "share-rpc", 300, None),
    Row(f"check, {SMALL} small captures", ("check", "-q", "--each"), "small", 0, 1.5),
)


@dataclass(frozen=True)
class Outcome:
    """The least times of both, and Spark's work in its best run."""

    row: Row
    megabytes: float
    one: Run
    spark: Run
    stages: list[Stage]

    @property
    def ratio(self) -> float:
        return self.spark.wall_s / self.one.wall_s


def measured(row: Row, rounds: int, quick: bool) -> Outcome:
    paths = _inputs(row, quick)
    size = sum(path.stat().st_size for path in paths) / 1e6
    ones, sparks = list[Run](), list[tuple[Run, list[Stage]]]()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            words = [word.format(folder=f"{folder}/tables") for word in row.words]
            ones.append(family([*kshark(*words), *map(str, paths)]))
            shutil.rmtree(f"{folder}/tables", ignore_errors=True)
            Path(folder, "log").mkdir()
            settings = [word for setting in SETTINGS for word in ("--conf", setting.format(folder=f"{folder}/log"))]
            command = [
                str(Path(sys.executable).parent / "kshark-spark"),
                *words,
                "--master",
                f"local[{CORES}]",
                *settings,
            ]
            sparks.append((family([*command, *map(str, paths)]), stages(Path(folder, "log"))))
    best, told = min(sparks, key=lambda pair: pair[0].wall_s)
    return Outcome(row, size, min(ones, key=lambda run: run.wall_s), best, told)


def _inputs(row: Row, quick: bool) -> list[Path]:
    if row.input != "small":
        return [INPUTS[row.input].path(30 if quick else row.megabytes)]
    folder = WORK / "small"
    folder.mkdir(parents=True, exist_ok=True)
    some = sorted(path for path in CAPTURES.glob("*.pcap") if path.stat().st_size < 500_000)
    for number in range(20 if quick else SMALL):
        link = folder / f"{number:03}.pcap"
        if not link.exists():
            link.symlink_to(some[number % len(some)])
    return sorted(folder.glob("*.pcap"))[: 20 if quick else SMALL]


def _markdown(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "# kshark-spark beside one process\n"
    yield (
        f"Made by `make bench-spark`: local[{CORES}] on {os.cpu_count()} cores, the commands in turn, the least wall "
        f"time of each; CPU"
    )
    yield "seconds and memory are of all processes together, Spark's start included.\n"
    yield "| work | MB | one process: wall | CPU | MB | Spark: wall | CPU | MB | wall, beside one | at most | |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for one in outcomes:
        cells = [one.row.name, f"{one.megabytes:.0f}"]
        cells += [
            cell
            for run in (one.one, one.spark)
            for cell in (f"{run.wall_s:.1f} s", f"{run.cpu_s:.1f} s", f"{run.memory_mb:.0f}")
        ]
        most = "" if one.row.most is None else f"{one.row.most:g}x"
        met = "" if one.row.most is None else "met" if one.ratio <= one.row.most else "missed"
        yield f"| {' | '.join([*cells, f'**{one.ratio:.2f}x**', most, met])} |"
    yield "\n## What Spark did\n"
    yield "`skew`: the longest task beside the median one.\n"
    yield "| work | MB | stage | begins | takes | tasks | longest | skew | shuffle read | written | spilled |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for one in outcomes:
        for each in one.stages:
            cells = [
                one.row.name,
                f"{one.megabytes:.0f}",
                str(each.number),
                f"{each.begin_s:.1f} s",
                f"{each.wall_s:.1f} s",
                str(each.tasks),
            ]
            cells += [
                f"{each.longest_s:.1f} s",
                f"{each.skew:.1f}",
                *(f"{mb:.0f} MB" for mb in (each.read_mb, each.written_mb, each.spilled_mb)),
            ]
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each row (2)")
    parser.add_argument(
        "--only", action="append", help="rows whose name or input begins so (repeatable); nothing written"
    )
    parser.add_argument("--huge", action="store_true", help="5 GB too: ten minutes more")
    parser.add_argument(
        "--quick", action="store_true", help="30 MB and 20 captures, one round, nothing written: start-up decides"
    )
    asked = parser.parse_args()
    outcomes = []
    for row in ROWS:
        chosen = not asked.only or any(row.name.startswith(only) or row.input.startswith(only) for only in asked.only)
        if chosen and (asked.huge or not row.huge):
            outcomes.append(measured(row, 1 if asked.quick or row.huge else asked.rounds, asked.quick))
            print(f"{row.name} {row.megabytes or ''}: {outcomes[-1].ratio:.2f}x", file=sys.stderr, flush=True)
    text = "\n".join(_markdown(outcomes)) + "\n"
    print(text, end="")
    if not asked.quick and not asked.only:
        (HERE / "SPARK.md").write_text(text)


if __name__ == "__main__":
    main()
