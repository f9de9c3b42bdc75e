"""The export: each task writes its part of every table as `kshark export` would, the driver commits all parts together.

Small captures share a task. Of a large one the tasks of its shares write the rows of their connections, the tasks of
its buckets those of share sessions and their requests; the driver writes what belongs to no connection, and findings:
some are found in several buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from kshark.errors import UnreadableInput
from kshark.face import analysed as told_of
from kshark.face import pages
from kshark.facts import Fact, Question
from kshark.model import Opened
from kshark.output.manifest import Capture
from kshark.output.notes import Notes
from kshark.output.parquet_part import Attempt, Part, PartWriter
from kshark.pipeline import Options
from kshark.tables.captures import Named, grouped
from kshark.tables.events import PositionedEvent
from kshark_spark.buckets import Found
from kshark_spark.large import analysed
from kshark_spark.plan import Plan, Sizes, are_shared_out
from kshark_spark.rows import read_all, results
from kshark_spark.session import cores_of
from kshark_spark.shares import Parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export

DEFAULT: Final = Sizes()


class Written(NamedTuple):
    """What became of some captures: their part of the tables, and what was odd about each by its name."""

    part: Part = Part()
    notes: Sequence[tuple[str, Notes]] = ()


def run(
    spark: SparkSession, export: Export, captures: Sequence[Sequence[str]], options: Options, sizes: Sizes = DEFAULT
) -> list[Written]:
    """Writes the tables into a folder that driver and workers share."""
    attempt = export.attempt
    named = [*zip(export.names(captures), captures, strict=True)]
    # to which cluster a connection belongs others may tell: partitions by cluster are made by whoever sees them all
    cores = cores_of(spark)
    is_large = [one and "cluster" not in attempt.partition_by for one in are_shared_out(captures, cores, sizes)]
    large = [*compress(named, is_large)]
    tasks = grouped([one for one in named if one not in large], cores)
    made = read_all(results(spark, tasks, partial(_write, attempt=attempt, options=options), len(tasks)))
    made += _in_parts(spark, large, attempt, options, sizes)
    export.commit(one.part for one in made)
    return made


# -- small captures


def _write(captures: Sequence[Named], attempt: Attempt, options: Options) -> Written:
    """All tables of these captures."""
    part, notes = PartWriter(attempt), list[tuple[str, Notes]]()
    for name, files in captures:
        odd = Notes()
        try:
            capture = attempt.capture(name, files)
            if capture is None:
                part.skip()
                continue
            part.begin(capture)
            for page, told in told_of(pages(files, options)):
                odd.add(page)
                part.page(page)
                part.page(told)
        except UnreadableInput as error:
            part.fault(name, error)
        notes.append((name, odd))
    return Written(part.close(), notes)


# -- large captures


def _in_parts(
    spark: SparkSession, named: Sequence[Named], attempt: Attempt, options: Options, sizes: Sizes
) -> list[Written]:
    """By ranges, shares and buckets."""
    hashed = results(spark, named, lambda one: attempt.capture(*one), len(named))
    known = [
        (files, capture) for (_, files), capture in zip(named, hashed, strict=True) if isinstance(capture, Capture)
    ]
    captures, unread = [capture for _, capture in known], PartWriter(attempt)
    for (name, _), error in zip(named, hashed, strict=True):
        if isinstance(error, UnreadableInput):
            unread.fault(name, error)
    made = [Written(Part(skipped=hashed.count(None)))]
    beside, lister = partial(_Share, attempt, captures), partial(_Bucket, attempt, captures)
    for capture, one in zip(
        captures, analysed(spark, [files for files, _ in known], options, sizes, beside, lister), strict=True
    ):
        if isinstance(one, UnreadableInput):
            unread.fault(capture.name, one)
        else:
            made.append(Written(_joined(attempt, capture, one.parts, one.found), [(capture.name, one.parts.notes)]))
    return [*made, Written(unread.close())]


def _joined(attempt: Attempt, capture: Capture, parts: Parts, found: Found) -> Part:
    """A capture's part: what tasks wrote, and what belongs to none of them."""
    own = _part(attempt, capture, parts.facts, parts.common)
    own.page(parts.weirds)
    own.page(found.findings)
    written: list[Part] = [own.close(), *(share.beside for share in parts.shares), *found.made]
    return Part([file for part in written for file in part.files], [capture])


def _part(
    attempt: Attempt, capture: Capture, facts: Sequence[Fact], common: Sequence[PositionedEvent] = ()
) -> PartWriter:
    """A part of a capture; who is told what is `common` knows all connections."""
    part = PartWriter(attempt, asking=True)
    part.begin(capture)
    part.names.add_facts(facts)
    part.page([event for _, event in common if isinstance(event, Opened)])
    return part


class _Share:
    """Writes the rows of a share's connections (kshark.parallel.decoding.Beside)."""

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
    """Writes the rows of a bucket's share sessions and their requests (kshark_spark.buckets.Lister)."""

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
