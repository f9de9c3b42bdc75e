"""Check captures, each in one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kshark.capture.captures import Captures
from kshark.errors import UnreadableInput
from kshark.output.notes import Notes
from kshark.pipeline import Engine, Options
from kshark.run import Run
from kshark.tables.captures import Named
from kshark_spark.check import Checked
from kshark_spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checked(
    spark: SparkSession, captures: Sequence[Named], options: Options, cores: int, *, coverage: bool = False
) -> Iterator[Checked | UnreadableInput]:
    """Yield the result of each capture, in order, or why it cannot be read; `coverage`: count the coverage of rules."""
    return results(spark, captures, partial(_whole, options=options, coverage=coverage), cores, "read and judge")


def _whole(capture: Named, options: Options, *, coverage: bool) -> Checked:
    return whole(capture[1], options, coverage=coverage)


def whole(files: Sequence[str], options: Options, *, coverage: bool = False) -> Checked:
    """Return the result of a capture; `coverage`: count the coverage of rules.

    A file among several that cannot be read, or not to its end, is left out. Raises UnreadableInput.
    """
    left_out: list[UnreadableInput] = []
    captures = Captures(files, left_out.append if len(files) > 1 else None)
    engine, notes = Engine(options), Notes()
    run = Run(engine.registry, coverage=coverage, named=True)
    for page in engine.pages(captures):
        notes.add(page)
        run.page(page)
    run.close()
    checked = Checked([*run.findings], run.topics, run.observed, notes, run.outcomes, left_out=left_out)
    checked.packets = engine.front.link.packets
    captures.place(checked.findings)
    if captures.log_lines is not None:
        notes.name_lines(captures.log_lines)
    return checked
