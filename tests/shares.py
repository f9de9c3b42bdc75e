"""A capture as Spark reads it, in one process: packets in ranges to segments, segments in shares to events and rows,
all joined again.

Nothing of it may be told from what one engine makes of the whole capture.
"""

from __future__ import annotations

import heapq
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from kshark.analysis import Analyzer, MemberKey, Observed, Observer, Outcomes, in_packet_order, joined_outcomes
from kshark.capture import open_captures
from kshark.facts import Fact, Facts, Question
from kshark.incidents import Incidents
from kshark.link import Link
from kshark.link.ends import EndsTable
from kshark.link.ranges import together
from kshark.model import (
    BEGIN,
    Closed,
    Event,
    Exchange,
    Finding,
    Flow,
    HalfClosed,
    Late,
    Message,
    Moment,
    Opened,
    PacketBatch,
    Weird,
)
from kshark.parallel.judging import Judging, Watching
from kshark.parallel.segments import Piece, split_into_shares, unpack
from kshark.parallel.sorting import Packed, Sorter, numbered
from kshark.pipeline import Engine, Options, Share
from kshark.reassembly import Copies
from kshark.registry import Registry
from kshark.tables import Rows
from tests.copies import chosen, joined

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


# -- map


def mapped(
    whole: PacketBatch, edges: Sequence[int], shares: int, random: Random
) -> tuple[list[list[Piece]], list[list[Weird]], Moment]:
    """By share its pieces in order, by range what the link stage said, and where the capture ends."""
    pieces: list[list[Piece]] = [[] for _ in range(shares)]
    said: list[list[Any]] = []
    end = BEGIN
    clock = np.maximum.accumulate(whole.time_ns)
    if (clock != whole.time_ns).any():  # kshark.capture.ranges splits no file that must be sorted by time
        edges = []
    for first, behind in zip([0, *edges], [*edges, len(whole.number)], strict=True):
        begin = Moment(int(whole.number[first - 1]), int(clock[first - 1])) if first else BEGIN
        link, weirds, at = Link(begin=begin, is_part=True), list[Any](), first
        while at < behind:
            some = min(behind, at + random.choice([1, 7, 100, 1000, 5000]))
            segments, more = link.feed(chosen(whole, slice(at, some)))
            weirds += more
            for number, piece in [] if segments is None else split_into_shares(segments, link.ends, shares):
                pieces[number].append(piece)
            at = some
        said.append([*weirds, *link.held()])
        end = max(end, link.end)
    return pieces, said, end


# -- reduce


@dataclass
class Reduced:
    """What came of a share."""

    events: list[Event]
    rows: Table
    copies: Copies
    taught: list[Fact]
    asked: list[Question]
    common: bytes
    packed: list[Packed]
    observed: Observed


def reduced(
    pieces: Iterable[Piece], options: Options, end: Moment, facts: Iterable[Fact], buckets: int, random: Random
) -> Reduced:
    known = [*facts]
    sorter, packed = Sorter(buckets), list[Packed]()
    share, ends, rows, table, events = (
        Share(options, facts=known),
        EndsTable(),
        Rows("c", asking=True),
        Counter[Any](),
        list[Event](),
    )
    rows.names.add_facts(known)
    observer = Observer(Registry())

    def pages() -> Iterator[list[Event]]:
        left = [*pieces]
        while left:
            some = random.choice([1, 1, 2, 7])
            yield from share.feed(unpack(left[:some], ends))
            left = left[some:]
        yield from share.close(end)

    for page in pages():
        events += page
        add(rows, page, table)
        packed += sorter.page(page, observer.page(page))
    packed += sorter.close()
    taught, asked = [*share.taught, *rows.names.taught], [*share.asked, *rows.names.asked]
    return Reduced(events, table, share.copies, taught, asked, pickle.dumps(sorter.common), packed, observer.observed)


def in_shares(
    batches: Sequence[PacketBatch | Weird], options: Options, edges: Sequence[int], shares: int, random: Random
) -> Told:
    """The same, ranges and shares apart."""
    whole = joined([item for item in batches if isinstance(item, PacketBatch)])
    pieces, said, end = mapped(whole, edges, shares, random)
    facts = Facts([])
    buckets = random.choice([1, 3, 8])
    parts = [reduced(each, options, end, facts, buckets, random) for each in pieces]
    for _ in range(5):
        facts = Facts(fact for part in parts for fact in part.taught)
        again = [number for number, part in enumerate(parts) if any(map(facts.changed, part.asked))]
        for number in again:
            parts[number] = reduced(pieces[number], options, end, facts, buckets, random)
        if not again:
            break
    else:
        raise AssertionError(f"shares {again} learn something new for ever")
    weirds: list[Event] = [item for item in batches if isinstance(item, Weird)]
    weirds += together(said)
    weirds += sum((part.copies for part in parts), Copies()).weirds(end)
    told = Told(merged([renumbered([part.events for part in parts]), [weirds]]))
    for part in parts:
        told.rows += part.rows
        told.observed.join(part.observed)
    add(Rows("c"), weirds, told.rows)
    for weird in weirds:
        told.observed.weird(weird)
    analysed(told, parts, weirds, buckets)
    return told


def analysed(told: Told, parts: Sequence[Reduced], weirds: Sequence[Weird], buckets: int) -> None:
    """Each bucket's exchanges through the analysis; what is told of what is common, every bucket tells, and it counts
    once."""
    common = numbered([pickle.loads(part.common) for part in parts], weirds)
    packed = sorted((each for part in parts for each in part.packed), key=lambda each: each.since)
    outcomes = []
    for bucket in range(buckets):
        judging = Judging(common, Registry(), first=bucket == 0, listed=True, coverage=True)
        found = [one for each in packed if each.bucket == bucket for one in judging.feed(each.since, each.exchanges)]
        found += judging.close()
        told.observed.join(judging.observed)
        told.told |= Counter(map(str, found))
        told.findings += [one for one in found if isinstance(one, Finding) and one not in told.findings]
        outcomes.append(judging.outcomes)
    watching = Watching(common, Registry())
    for each in packed:
        if each.bucket == buckets:
            told.findings += watching.feed(each.since, each.exchanges)
    told.findings += watching.close()
    told.observed.join(watching.observed)
    told.findings = [*map(watching.explanations.explained, in_packet_order(told.findings))]
    told.outcomes = joined_outcomes(outcomes)


# -- joined


def renumbered(shares: list[list[Event]]) -> list[list[Event]]:
    """Connections numbered in the order of their first packets, over all shares."""
    flows = [{event.flow.id: event.flow for event in events if isinstance(event, Opened)} for events in shares]
    numbers = {
        flow.first_packet: number
        for number, flow in enumerate(sorted((f for each in flows for f in each.values()), key=_first))
    }
    for events, known in zip(shares, flows, strict=True):
        for event in events:
            if isinstance(event, (Late, Message, Weird)) and event.flow is not None:
                event.flow = numbers[known[event.flow].first_packet]
    for known in flows:
        for flow in known.values():
            flow.id = numbers[flow.first_packet]
    return shares


def _first(flow: Flow) -> int:
    return flow.first_packet


def merged(parts: list[list[list[Event]]]) -> list[Event]:
    """All in the order of the time line."""
    lines = [[*_placed(events)] for part in parts for events in part]
    return [event for _, event in heapq.merge(*lines, key=lambda placed: placed[0])]


def _placed(events: list[Event]) -> Iterator[tuple[tuple[int, int, int], Event]]:
    """Each event with its place: packet, whether known late, before its messages, with them or at the end of a
    connection, connection."""
    places: list[tuple[int, int, int]] = []
    ending: tuple[int, int] | None = None
    for event in reversed(events):
        packet, flow = _packet(event), _flow(event)
        if isinstance(event, Late):
            places.append((packet, -1, flow))
            continue
        if isinstance(event, (Closed, HalfClosed)):
            ending = packet, flow
        elif ending != (packet, flow) or not (
            isinstance(event, Weird) or getattr(event, "outcome", "") == "unanswered"
        ):
            ending = None
        places.append((packet, 2 if ending else int(isinstance(event, (Message, Exchange))), flow))
    latest = (0, 0, -1)
    for place, event in zip(reversed(places), events, strict=True):
        latest = max(latest, place)
        yield latest, event


def _packet(event: Event) -> int:
    packet: int = event.packet  # type: ignore[union-attr]
    return packet


def _flow(event: Event) -> int:
    if isinstance(event, (Late, Message, Weird)):
        return -1 if event.flow is None else event.flow
    return event.flow.id  # type: ignore[union-attr]


def capture_of(path: Path) -> list[PacketBatch | Weird]:
    return [*open_captures([path])]
