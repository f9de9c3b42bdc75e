"""The check of tables on Spark, beside one process: `python -m benchmarks.spark_tables [MEMBERS REQUESTS]`.

In one run, on the same tables: one process judges all members, from rows in the order of their packets; Spark judges
all members, as `kshark-spark check` does; and only suspects, as `kshark-spark check -q` does. Once with members of
equally many requests, and once with one member that has half of them, which one task judges. CPU seconds are those of
this process, the JVM and its Python workers. Tables are made once, in benchmarks/work."""

from __future__ import annotations

import heapq
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.places import WORK
from benchmarks.share_tables import NAME, Group, make
from kshark.registry import Registry
from kshark.run import Run
from kshark.tables import TABLES
from kshark.tables.events import EventTimeline, RowMap, position_of
from kshark_spark.check import check
from kshark_spark.session import cores_of, open_session
from kshark_spark.slices import FilePart, row_groups, rows_of
from kshark_spark.tables import exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Limit of Spark's CPU seconds, relative to one process.
LIMIT: Final = 1.5
#: Limit of the wall seconds if one member has half of the requests, relative to members of equally many.
SKEWED: Final = 1.5
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: CPU and wall seconds.
Seconds = tuple[float, float]
#: Events that one process judges together.
_PAGE: Final = 500


def main() -> int:
    members, requests = map(int, sys.argv[1:] or ("2000", "1000"))
    spark, clock = open_session("local[2]"), _Clock()
    print(
        f"{'tables':<28} {'one process':>16} {'all judged':>16} {'suspects':>16} {'ratio':>6}  (CPU and wall seconds)"
    )
    ratios, walls = list[float](), list[float]()
    for group in (Group(members, requests), Group(members // 2, requests, heavy=True)):
        name = f"{members * requests / 1e6:g}M{', half of one member' if group.heavy else ''}"
        folder = WORK / f"tables-{group.members}-{group.requests}{'-heavy' if group.heavy else ''}"
        if not (folder / "manifest.json").exists():
            make(folder, group)
        works = (by_one_process, partial(_checked, outcomes=True), partial(_checked, outcomes=False))
        one, everybody, suspects = (clock.measured(work, spark, folder) for work in works)
        ratios.append(everybody[0] / one[0])
        walls.append(everybody[1])
        seconds = "".join(f" {cpu:>8.1f}{wall:>8.1f}" for cpu, wall in (one, everybody, suspects))
        print(f"{name:<28}{seconds} {ratios[-1]:>6.2f}", flush=True)
    return int(max(ratios) > LIMIT or walls[1] > SKEWED * walls[0])


def by_one_process(spark: SparkSession, folder: Path) -> Run:
    """Judge all members, as kshark check judges the events of packets."""
    files, timeline, run = exported(spark, folder).files, EventTimeline(), Run(Registry())
    every = (_rows(name, files[name]) for name in ("exchanges", "flows", "weirds"))
    page = []
    for name, row in heapq.merge(*every, key=lambda named: position_of(*named)):
        page += timeline.feed(name, row)
        if len(page) > _PAGE:
            run.page(page)
            page = []
    run.page([*page, *timeline.close()])
    run.close()
    return run


def _rows(name: str, files: Sequence[tuple[str, int]]) -> Iterator[tuple[str, RowMap]]:
    columns = [column.name for column in TABLES[name].columns]
    for group in row_groups(name, [FilePart(path, rows, 0, rows) for path, rows in files]):
        every = np.ones(len(group.read(columns[:1])), np.bool_)
        yield from ((name, dict(zip(columns, row, strict=True))) for row in rows_of(group.chosen(columns, every)))


def _checked(spark: SparkSession, folder: Path, *, outcomes: bool) -> None:
    found = check(exported(spark, folder), [NAME], 2 * cores_of(spark), named=True, outcomes=outcomes)
    if not found[NAME].findings:
        raise SystemExit(f"{folder}: somebody was refused, and nothing was found")


# -- CPU seconds


class _Clock:
    """CPU seconds of this process and its descendants, sampled each second: Spark ends idle workers, and does not
    count what they took."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}
        self._lock = Lock()
        Thread(target=self._watch, daemon=True).start()

    def measured(self, work: Callable[[SparkSession, Path], object], spark: SparkSession, folder: Path) -> Seconds:
        cpu, wall = self._cpu_s(), time.perf_counter()
        work(spark, folder)
        return self._cpu_s() - cpu, time.perf_counter() - wall

    def _cpu_s(self) -> float:
        processes = [*_processes()]
        parents = {process: parent for process, parent, _ in processes}
        with self._lock:
            self._ticks |= {process: ticks for process, _, ticks in processes if _descends(process, parents)}
            return sum(self._ticks.values()) / _TICKS

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            self._cpu_s()


def _descends(process: int, parents: Mapping[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def _processes() -> Iterator[tuple[int, int, int]]:
    """Number, parent and ticks of each process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        yield int(path.parent.name), int(stat[1]), sum(map(int, stat[11:13]))


if __name__ == "__main__":
    sys.exit(main())
