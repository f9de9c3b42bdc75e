"""What one engine makes of a whole capture: events, rows of all tables, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kshark.analysis import Analyzer, MemberKey, Observed, Observer, Outcomes, in_packet_order, joined_outcomes
from kshark.capture import open_captures
from kshark.incidents import Incidents
from kshark.model import Event, Finding, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from kshark.tables import Rows

Table = Counter[tuple[Any, ...]]


@dataclass
class Told:
    """What came of a capture: events in the order of the time line, rows of all tables, findings."""

    events: list[Event] = field(default_factory=list)
    rows: Table = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    outcomes: dict[MemberKey, Outcomes] = field(default_factory=dict)

    #: All that the analysis tells, as text.
    told: Table = field(default_factory=Counter)
    observed: Observed = field(default_factory=Observed)


def add(rows: Rows, page: Iterable[Event], to: Table) -> None:
    for name, block in (*rows.page(page), *rows.rest()):
        to.update((name, *map(str, row)) for row in block.rows())


def as_one(batches: Sequence[PacketBatch | Weird], options: Options) -> Told:
    """The whole capture, by one engine."""
    told, rows, analyzer = Told(), Rows("c"), Analyzer(sessions=True, steps=True, coverage=True)
    for page in Engine(options).pages(batches):
        told.events += page
        add(rows, page, told.rows)
    found = [*analyzer.page(told.events), *analyzer.close()]
    told.told = Counter(map(str, [*found, *analyzer.listed()]))
    observer, incidents = Observer(Registry()), Incidents(Registry())
    refusals = observer.page(told.events)
    observer.explain(found)
    found += [*incidents.page(told.events, refusals), *incidents.close()]
    told.findings = [*map(incidents.explanations.explained, in_packet_order(found))]
    told.outcomes = joined_outcomes([analyzer.outcomes.of])
    told.observed = observer.observed
    told.observed.explained.update(incidents.refusals)
    told.observed.sessions = analyzer.summary()["sessions"]
    told.observed.coverage = analyzer.coverage
    return told


def capture_of(path: Path) -> list[PacketBatch | Weird]:
    return [*open_captures([path])]
