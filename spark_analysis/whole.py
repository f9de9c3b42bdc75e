"""A capture checked by one task."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.topics import NAMING_APIS
from kshark.analysis import Audit
from kshark.capture import open_captures
from kshark.capture.numbering import place
from kshark.model import Finding, Message
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.pipeline import Engine, Options
from spark_analysis.check import Checked


def whole(files: Sequence[str], options: Options, *, coverage: bool = False) -> Checked:
    """What was found in a capture; `coverage`: whether that is counted. Raises UnreadableInput where it cannot be
    read."""
    captures, engine = open_captures(files), Engine(options)
    audit, names = Audit(engine.registry, coverage=coverage), TopicNames(engine.registry)
    notes, found = Notes(), list[Finding]()
    for page in engine.pages(captures):
        notes.add(page)
        found += audit.page(page)
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                names.learn(event)
    found += audit.close()
    checked = Checked.of(found, names.known, notes, audit.observed)
    if len(files) > 1:
        place(checked.findings, captures.numbering.locate)
    return checked
