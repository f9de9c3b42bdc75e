"""The check of tables on Spark, beside what nobody can do without: `python -m benchmarks.spark_tables [MEMBERS
REQUESTS]`.

In one run, on the same tables: to read the columns of `share_requests`, to bring each member's rows together and to
sort them; and the whole check. The check reads `acquired`, `acknowledgements` and `exchanges` besides, which the
baseline leaves out; Java starts before both, and compiles for both. CPU seconds are those of this process, the JVM and
its Python workers. Tables are made once, in benchmarks/work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.places import WORK
from benchmarks.share_tables import NAME, Group, make
from kshark_spark.check import check
from kshark_spark.session import cores_of, open_session
from kshark_spark.tables import exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Limit of the check's CPU seconds, relative to scan, shuffle and sort.
LIMIT: Final = 1.5
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: The columns that a screen of sessions by windows would need.
_SORTED: Final = (
    "capture", "flow_id", "packet", "group_id", "member_id", "session_key", "api", "epoch", "error_code", "outcome",
    "partitions",
    "forgotten",
)  # fmt: skip


def main() -> int:
    members, requests = map(int, sys.argv[1:] or ("10000", "1000"))
    spark = open_session("local[2]")
    missed = False
    print(f"{'tables':<28} {'sorted':>16} {'checked':>16} {'ratio':>6}  (CPU and wall seconds)")
    for group in (Group(members, requests), Group(members // 2, requests, heavy=True)):
        name = f"{members * requests / 1e6:g}M{', half of one member' if group.heavy else ''}"
        folder = WORK / f"tables-{group.members}-{group.requests}{'-heavy' if group.heavy else ''}"
        if not (folder / "manifest.json").exists():
            make(folder, group)
        sorted_s, checked_s = _measured(_sorted, spark, folder), _measured(_checked, spark, folder)
        ratio = checked_s[0] / sorted_s[0]
        missed = missed or (ratio > LIMIT and not group.heavy)
        print(
            f"{name:<28} {sorted_s[0]:>8.1f}{sorted_s[1]:>8.1f} {checked_s[0]:>8.1f}{checked_s[1]:>8.1f} {ratio:>6.2f}",
            flush=True,
        )
    return int(missed)


def _sorted(spark: SparkSession, folder: Path) -> None:
    """Scan, shuffle and sort: the first steps of any check by windows."""
    rows = exported(spark, folder)["share_requests"].select(*_SORTED)
    together = rows.repartition(4 * cores_of(spark), "session_key").sortWithinPartitions("session_key", "packet")
    together.write.format("noop").mode("overwrite").save()


def _checked(spark: SparkSession, folder: Path) -> None:
    found = check(exported(spark, folder), [NAME], 2 * cores_of(spark), named=True)
    if not found[NAME].findings:
        raise SystemExit(f"{folder}: somebody was refused, and nothing was found")


# -- CPU seconds


def _measured(work: Callable[[SparkSession, Path], None], spark: SparkSession, folder: Path) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = _cpu_s(), time.perf_counter()
    work(spark, folder)
    return _cpu_s() - cpu, time.perf_counter() - wall


def _cpu_s() -> float:
    """Return the CPU seconds of this process and all its descendants, including those that ended."""
    known = {process: (parent, ticks) for process, parent, ticks in _processes()}

    def below(process: int) -> int:
        return known[process][1] + sum(below(child) for child, (parent, _) in known.items() if parent == process)

    return below(os.getpid()) / _TICKS


def _processes() -> Iterator[tuple[int, int, int]]:
    """Number, parent and ticks of each process, with those of children that it has waited for."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        yield int(path.parent.name), int(told[1]), sum(map(int, told[11:15]))


if __name__ == "__main__":
    sys.exit(main())
