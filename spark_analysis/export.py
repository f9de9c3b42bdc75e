"""The export: each task writes its captures' part of every table as `kshark export` would, the driver commits all parts together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kshark.face import analysed, pages
from kshark.output.parquet_part import Attempt, Part, PartWriter
from kshark.pipeline import Options
from spark_analysis.rows import read_all, results
from spark_analysis.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kshark.output.export import Export

#: A task is given about so many bytes of small captures, so that they share files.
TASK_BYTES: Final = 512 << 20

#: A capture's name and its files.
Named = tuple[str, Sequence[str]]


def run(spark: SparkSession, export: Export, captures: Sequence[Sequence[str]], options: Options) -> None:
    """Writes the tables into a folder that driver and workers share. Raises UnreadableInput for a capture that cannot be read."""
    tasks = grouped([*zip(export.names(captures), captures, strict=True)], cores_of(spark))
    written = read_all(results(spark, tasks, partial(_write, attempt=export.attempt, options=options), len(tasks)))
    export.skipped = sum(skipped for _, skipped in written)
    export.commit(part for part, _ in written)


def grouped(captures: Sequence[Named], parallelism: int) -> list[list[Named]]:
    """The captures of each task: as many tasks as run at a time, more where there is more than TASK_BYTES for each."""
    size = [sum(map(os.path.getsize, files)) for _, files in captures]
    share = min(-(-sum(size) // parallelism), TASK_BYTES)
    tasks: list[list[Named]] = []
    filled = share
    for capture, bytes in zip(captures, size, strict=True):
        if filled >= share:
            tasks.append([])
            filled = 0
        tasks[-1].append(capture)
        filled += bytes
    return tasks


def _write(captures: list[Named], attempt: Attempt, options: Options) -> tuple[Part, int]:
    """The part of these captures, and how many of them are in the folder already."""
    part, skipped = PartWriter(attempt), 0
    for name, files in captures:
        capture = attempt.capture(name, files)
        if capture is None:
            skipped += 1
            continue
        part.begin(capture)
        for page, told in analysed(pages(files, options)):
            part.page(page)
            part.page(told)
    return part.close(), skipped
