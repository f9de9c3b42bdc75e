"""Export tables: each task writes its part of every table as `kshark export` does; the driver commits the parts of some
captures at once.

One task reads a capture; small captures share a task. The captures of a commit are a job of Spark, and the next job
runs beside it, so that no core waits for the last task of a commit. A capture that fails, or kills its worker, is a row
in `faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kshark.capture.captures import Captures
from kshark.capture.host import host_of
from kshark.errors import Error, UnreadableInput
from kshark.face import analysed
from kshark.output.notes import Notes
from kshark.output.parquet_part import Attempt, Part, PartWriter
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from kshark.tables.captures import Named, grouped
from kshark_spark.rows import read_all, results
from kshark_spark.tasks import by_halves, failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export

#: Jobs of Spark at the same time.
_JOBS: Final = 2


class Written(NamedTuple):
    """The result of some captures: their part of the tables, the notes on each by name, and errors of files among
    several of one capture, which were left out.
    """

    part: Part = Part()
    notes: Sequence[tuple[str, Notes]] = ()
    left_out: Sequence[UnreadableInput] = ()


def run(
    spark: SparkSession,
    export: Export,
    captures: Sequence[Sequence[str]],
    options: Options,
    cores: int,
    every: int | None = None,
    parts: Sequence[Part] = (),
    *,
    stored: bool = False,
) -> Iterator[Written]:
    """Write the tables into a folder that driver and workers share, and yield the results of each commit.

    `every`: captures of a commit, or as many as there are cores, unless an export is replaced; None: all.
    `parts`: others for the first commit. `stored`: the captures are log segments.
    """
    named = [*zip(export.names(captures), captures, strict=True)]
    several = len(named) if every is None or export.replaces else max(every, cores)
    work = partial(_job, spark, export.attempt, options, cores, stored)
    for written in _in_order([named[at : at + several] for at in range(0, len(named), several)], work):
        export.commit([*parts, written.part])
        parts = ()
        yield written


def _in_order(jobs: Sequence[Sequence[Named]], work: Callable[[Sequence[Named]], Written]) -> Iterator[Written]:
    """Yield the result of each job, of which some run at the same time."""
    pool = ThreadPoolExecutor(_JOBS)
    try:
        for running in [pool.submit(copy_context().run, work, job) for job in jobs]:
            yield running.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _job(
    spark: SparkSession, attempt: Attempt, options: Options, cores: int, stored: bool, captures: Sequence[Named]
) -> Written:
    """Write the tables of these captures by Spark's workers."""
    write = partial(_write, attempt=attempt, options=options, stored=stored)

    def job(captures: Sequence[Named]) -> list[Written]:
        tasks = grouped(captures, cores)
        return read_all(results(spark, tasks, write, len(tasks), "write tables"))

    return _joined(by_halves(captures, job, partial(_failed, attempt)))


# -- in a task


def _write(captures: Sequence[Named], attempt: Attempt, options: Options, *, stored: bool = False) -> Written:
    """Write all tables of these captures; if one of them fails, each alone."""
    try:
        return (_segments if stored else _together)(captures, attempt, options)
    except (Error, OSError):  # nothing can be written
        raise
    except Exception as error:
        if len(captures) == 1:
            return _failed(attempt, captures[0], failed(captures[0][0], error))
        return _joined(_write([capture], attempt, options, stored=stored) for capture in captures)


def _together(captures: Sequence[Named], attempt: Attempt, options: Options) -> Written:
    """Write all tables of these captures into shared files."""
    part, notes, left_out = PartWriter(attempt), list[tuple[str, Notes]](), list[UnreadableInput]()
    for name, files in captures:
        own = Notes()
        try:
            capture = attempt.capture(name, files)
            if capture is None:
                part.skip()
                continue
            part.begin(capture)
            own_left_out: list[UnreadableInput] = []
            engine = Engine(options)
            for page, results in analysed(
                engine.pages(Captures(files, own_left_out.append if len(files) > 1 else None))
            ):
                own.add(page)
                part.page(page)
                part.page(results)
            part.end(engine.front.link.packets, host_of(files), own_left_out)
            left_out += own_left_out
        except UnreadableInput as error:
            part.fault(name, error)
        notes.append((name, own))
    return Written(part.close(), notes, left_out)


def _segments(captures: Sequence[Named], attempt: Attempt, options: Options) -> Written:
    """Write the records of coordinators' logs in log segments; each counts as a capture without packets."""
    from kshark.segments import Segment, SegmentBatch, weirds_of

    part, notes, registry = PartWriter(attempt), list[tuple[str, Notes]](), Registry()
    for name, files in captures:
        own = Notes()
        try:
            capture = attempt.capture(name, files)
            if capture is None:
                part.skip()
                continue
            part.begin(capture)
            for page in Segment(files[0], registry, secrets=options.secrets):
                own.add([*weirds_of(page)])
                for item in page:
                    if isinstance(item, SegmentBatch):
                        part.stored(item.topic, item.partition, [item.batch])
            own.messages = 1  # "no Kafka messages" is about packets
            part.end(0)
        except UnreadableInput as error:
            part.fault(name, error)
        notes.append((name, own))
    return Written(part.close(), notes)


def _failed(attempt: Attempt, capture: Named, error: UnreadableInput) -> Written:
    """Return a part that only says why this capture has no rows."""
    name, _ = capture
    part = PartWriter(attempt)
    part.fault(name, error)
    return Written(part.close(), [(name, Notes())])


def _joined(made: Iterable[Written]) -> Written:
    made = [*made]
    parts = [written.part for written in made]
    return Written(
        Part(
            [file for part in parts for file in part.files],
            [capture for part in parts for capture in part.captures],
            [fault for part in parts for fault in part.faults],
            sum(part.skipped for part in parts),
        ),
        [note for written in made for note in written.notes],
        [error for written in made for error in written.left_out],
    )
