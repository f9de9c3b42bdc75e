"""Export tables: each task writes its part of every table as `kshark export` does; the driver commits all parts at
once.

One task reads a capture; small captures share a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kshark.capture import open_captures
from kshark.capture.captures import Packets
from kshark.capture.host import host_of
from kshark.errors import UnreadableInput
from kshark.face import analysed as analysed_pages
from kshark.output.notes import Notes
from kshark.output.parquet_part import Attempt, Part, PartWriter
from kshark.pipeline import Engine, Options
from kshark.tables.captures import Named, grouped
from kshark_spark.rows import read_all, results
from kshark_spark.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export


class Written(NamedTuple):
    """The result of some captures: their part of the tables, and the notes on each by name."""

    part: Part = Part()
    notes: Sequence[tuple[str, Notes]] = ()


def run(spark: SparkSession, export: Export, captures: Sequence[Sequence[str]], options: Options) -> list[Written]:
    """Write the tables into a folder that driver and workers share."""
    attempt = export.attempt
    named = [*zip(export.names(captures), captures, strict=True)]
    tasks = grouped(named, cores_of(spark))
    write = partial(_write, attempt=attempt, options=options)
    made = read_all(results(spark, tasks, write, len(tasks), "write tables"))
    export.commit(written.part for written in made)
    return made


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
            packets = Packets(open_captures([*files]))
            for page, results in analysed_pages(Engine(options).pages(packets)):
                own.add(page)
                part.page(page)
                part.page(results)
            part.end(packets.count, host_of(files))
        except UnreadableInput as error:
            part.fault(name, error)
        notes.append((name, own))
    return Written(part.close(), notes)
