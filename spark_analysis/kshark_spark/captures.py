"""Check captures, each in one task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kshark.capture import open_captures
from kshark.capture.numbering import add_places
from kshark.errors import UnreadableInput
from kshark.output.notes import Notes
from kshark.pipeline import Engine, Options
from kshark.run import Run
from kshark_spark.check import Checked
from kshark_spark.rows import results
from kshark_spark.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checked(
    spark: SparkSession, captures: Sequence[Sequence[str]], options: Options, *, coverage: bool = False
) -> list[Checked | UnreadableInput]:
    """Return the result of each capture, or why it cannot be read; `coverage`: count the coverage of rules."""
    work = partial(whole, options=options, coverage=coverage)
    return results(spark, captures, work, min(len(captures), 2 * cores_of(spark)), "read and judge")


def whole(files: Sequence[str], options: Options, *, coverage: bool = False) -> Checked:
    """Return the result of a capture; `coverage`: count the coverage of rules. Raises UnreadableInput."""
    captures, engine, notes = open_captures(files), Engine(options), Notes()
    run = Run(engine.registry, coverage=coverage, named=True)
    for page in engine.pages(captures):
        notes.add(page)
        run.page(page)
    run.close()
    checked = Checked([*run.findings], run.topics, run.observed, notes, run.outcomes)
    if len(files) > 1:
        add_places(checked.findings, captures.numbering.locate)
    return checked
