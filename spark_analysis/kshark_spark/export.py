"""Export tables: each task writes its part of every table as `kshark export` does; the driver commits all parts at
once.

Small captures share a task. For a large capture, the tasks of its shares write the rows of their connections, and the
tasks of its buckets write the rows of share sessions and their requests. The driver writes rows outside connections,
and findings, because several buckets may report the same finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from kshark.errors import UnreadableInput
from kshark.face import analysed as analysed_pages
from kshark.face import pages
from kshark.facts import Fact, Question
from kshark.model import Opened
from kshark.output.manifest import Capture
from kshark.output.notes import Notes
from kshark.output.parquet_part import Attempt, Part, PartWriter
from kshark.pipeline import Options
from kshark.tables.captures import Named, grouped
from kshark.tables.events import PositionedEvent
from kshark_spark.buckets import JudgedCapture
from kshark_spark.large import analysed
from kshark_spark.plan import Plan, Sizes, are_split
from kshark_spark.rows import read_all, results
from kshark_spark.session import cores_of
from kshark_spark.shares import Parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export

DEFAULT: Final = Sizes()


class Written(NamedTuple):
    """The result of some captures: their part of the tables, and the notes on each by name."""

    part: Part = Part()
    notes: Sequence[tuple[str, Notes]] = ()


def run(
    spark: SparkSession, export: Export, captures: Sequence[Sequence[str]], options: Options, sizes: Sizes = DEFAULT
) -> list[Written]:
    """Write the tables into a folder that driver and workers share."""
    attempt = export.attempt
    named = [*zip(export.names(captures), captures, strict=True)]
    # other connections may reveal the cluster of a connection: one task must see all of them to partition by cluster
    cores = cores_of(spark)
    is_large = [shared and "cluster" not in attempt.partition_by for shared in are_split(captures, cores, sizes)]
    large = [*compress(named, is_large)]
    tasks = grouped([capture for capture in named if capture not in large], cores)
    made = read_all(results(spark, tasks, partial(_write, attempt=attempt, options=options), len(tasks)))
    made += _in_parts(spark, large, attempt, options, sizes)
    export.commit(written.part for written in made)
    return made


# -- small captures


def _write(captures: Sequence[Named], attempt: Attempt, options: Options) -> Written:
    """Write all tables of these captures."""
    part, notes = PartWriter(attempt), list[tuple[str, Notes]]()
    for name, files in captures:
        own = Notes()
        try:
            capture = attempt.capture(name, files)
            if capture is None:
                part.skip()
                continue
            part.begin(capture)
            for page, results in analysed_pages(pages(files, options)):
                own.add(page)
                part.page(page)
                part.page(results)
        except UnreadableInput as error:
            part.fault(name, error)
        notes.append((name, own))
    return Written(part.close(), notes)


# -- large captures


def _in_parts(
    spark: SparkSession, named: Sequence[Named], attempt: Attempt, options: Options, sizes: Sizes
) -> list[Written]:
    """Write the tables of large captures by ranges, shares and buckets."""
    hashed = results(spark, named, lambda capture: attempt.capture(*capture), len(named))
    readable = [
        (files, capture) for (_, files), capture in zip(named, hashed, strict=True) if isinstance(capture, Capture)
    ]
    captures, unread = [capture for _, capture in readable], PartWriter(attempt)
    for (name, _), error in zip(named, hashed, strict=True):
        if isinstance(error, UnreadableInput):
            unread.fault(name, error)
    made = [Written(Part(skipped=hashed.count(None)))]
    beside, lister = partial(_Share, attempt, captures), partial(_Bucket, attempt, captures)
    results_of = analysed(spark, [files for files, _ in readable], options, sizes, beside, lister)
    for capture, result in zip(captures, results_of, strict=True):
        if isinstance(result, UnreadableInput):
            unread.fault(capture.name, result)
        else:
            part = _joined(attempt, capture, result.parts, result.judged)
            made.append(Written(part, [(capture.name, result.parts.notes)]))
    return [*made, Written(unread.close())]


def _joined(attempt: Attempt, capture: Capture, parts: Parts, judged: JudgedCapture) -> Part:
    """Join the parts that tasks wrote with the rows that the driver writes."""
    own = _part(attempt, capture, parts.facts, parts.common)
    own.page(parts.weirds)
    own.page(judged.findings)
    written: list[Part] = [own.close(), *(share.beside for share in parts.shares), *judged.made]
    return Part([file for part in written for file in part.files], [capture])


def _part(
    attempt: Attempt, capture: Capture, facts: Sequence[Fact], common: Sequence[PositionedEvent] = ()
) -> PartWriter:
    """Begin a part of a capture; the connections in `common` are known to it."""
    part = PartWriter(attempt, asking=True)
    part.begin(capture)
    part.names.add_facts(facts)
    part.page([event for _, event in common if isinstance(event, Opened)])
    return part


class _Share:
    """Write the rows of a share's connections (kshark.parallel.decoding.PageReader)."""

    def __init__(self, attempt: Attempt, captures: Sequence[Capture], plan: Plan, facts: Sequence[Fact]) -> None:
        self._part = _part(attempt, captures[plan.number], facts)
        self.page = self._part.page

    @property
    def taught(self) -> Iterable[Fact]:
        return self._part.names.taught

    @property
    def asked(self) -> Iterable[Question]:
        return self._part.names.asked

    def close(self) -> Part:
        return self._part.close()


class _Bucket:
    """Write the rows of a bucket's share sessions and their requests (kshark_spark.buckets.Lister)."""

    def __init__(
        self,
        attempt: Attempt,
        captures: Sequence[Capture],
        plan: Plan,
        facts: Sequence[Fact],
        common: Sequence[PositionedEvent],
    ) -> None:
        part = _part(attempt, captures[plan.number], facts, common)
        self.page, self.close = part.page, part.close
