"""Spread captures over tasks, about the same number of bytes each; one that fails does not end the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from kshark.capture.files import sizes_of
from kshark.cli.ending import fault
from kshark.errors import Error, Failed, UnreadableInput, WorkerLost
from kshark.tables.captures import Named
from kshark_spark import rows
from kshark_spark.failures import is_worker_lost
from kshark_spark.rows import fault_of, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
Made = TypeVar("Made")
#: What a task does with a capture.
Work = Callable[[Named], Result]

#: Bytes of captures for one task: some seconds of work, of which Spark's share is a hundredth.
TASK_BYTES: Final = 32 << 20
#: Tasks for each core, so that few cores are idle while the last tasks end.
_TASKS_PER_CORE: Final = 4
#: Captures of one job of Spark, whose results come at its end: at least this number, and so many for each core.
_JOB_CAPTURES: Final = 100
_JOB_CAPTURES_PER_CORE: Final = 16


def spread(sizes: Sequence[int], cores: int) -> list[list[int]]:
    """Return the items of each task, by index: the largest first, each to the task with the fewest bytes so far.

    The longest task takes at most 4/3 of the best distribution's (R. L. Graham, Bounds on Multiprocessing Timing
    Anomalies, 1969), and at most 1.5 times the mean, unless it has a single item.
    """
    number = max(1, min(len(sizes), max(_TASKS_PER_CORE * cores, -(-sum(sizes) // TASK_BYTES))))
    while True:
        tasks = _spread(sizes, number)
        longest = max(tasks, key=lambda task: sum(sizes[item] for item in task))
        if len(longest) <= 1 or number * sum(sizes[item] for item in longest) <= 1.5 * sum(sizes):
            return tasks
        number += 1 + number // 8


def _spread(sizes: Sequence[int], number: int) -> list[list[int]]:
    """Return the items of `number` tasks."""
    filled = [(0, task) for task in range(number)]
    heapify(filled)
    tasks: list[list[int]] = [[] for _ in range(number)]
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        size, task = heappop(filled)
        tasks[task].append(item)
        heappush(filled, (size + sizes[item], task))
    return tasks


def results(
    spark: SparkSession, captures: Sequence[Named], work: Work[Result], cores: int, step: str
) -> Iterator[Result | UnreadableInput]:
    """Yield the result of `work` for each capture, in order; for one that cannot be read, or failed, its error.

    `step`: see kshark_spark.steps. If a process of Spark is killed, its captures are found by halves, and the one that
    cannot be read by any process yields WorkerLost.
    """
    at_once = max(_JOB_CAPTURES, _JOB_CAPTURES_PER_CORE * cores)
    job = partial(_of_job, spark, work, cores, step)
    for first in range(0, len(captures), at_once):
        yield from by_halves(captures[first : first + at_once], job, lambda _, error: error)


def by_halves(
    captures: Sequence[Named],
    job: Callable[[Sequence[Named]], Sequence[Made]],
    lost: Callable[[Named, WorkerLost], Made],
) -> Iterator[Made]:
    """Yield what a job of Spark makes of these captures; if a process of Spark is killed, what it makes of each half.

    `lost`: what stands for the capture that kills each process which reads it.
    """
    try:
        made = job(captures)
    except Exception as error:
        if not is_worker_lost(error):
            raise
    else:
        yield from made
        return
    if len(captures) == 1:
        (capture,) = captures
        yield lost(
            capture, WorkerLost(f"{capture[0]}: the process that read it was killed (out of memory, or by a crash)")
        )
        return
    half = len(captures) // 2
    for part in (captures[:half], captures[half:]):
        yield from by_halves(part, job, lost)


def failed(name: str, error: Exception) -> Failed:
    """Return the fault of a capture whose reading a bug ended."""
    return Failed(f"{name}: {fault(error)}")


def _of_job(
    spark: SparkSession, work: Work[Result], cores: int, step: str, captures: Sequence[Named]
) -> list[Result | UnreadableInput]:
    """Return the result of each capture."""
    tasks = spread(sizes_of([files for _, files in captures]), cores)

    def task(items: Sequence[int]) -> list[tuple[int, Result | UnreadableInput]]:
        return [(item, _result(work, captures[item])) for item in items]

    made = chain.from_iterable(read_all(rows.results(spark, tasks, task, len(tasks), step)))
    return [result for _, result in sorted(made, key=itemgetter(0))]


def _result(work: Work[Result], capture: Named) -> Result | UnreadableInput:
    try:
        return work(capture)
    except (Error, OSError) as error:
        return fault_of(error)
    except Exception as error:
        return failed(capture[0], error)
