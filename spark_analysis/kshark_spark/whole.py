"""Check a capture in one task."""

from __future__ import annotations

from collections.abc import Sequence

from kshark.capture import open_captures
from kshark.capture.numbering import add_places
from kshark.output.notes import Notes
from kshark.pipeline import Engine, Options
from kshark.run import Run
from kshark_spark.check import Checked


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
