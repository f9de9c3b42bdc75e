"""What a report counts, in parts that can be joined."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from kshark import limits
from kshark.analysis import ShareSession
from kshark.analysis.results.statistics import Percentiles
from kshark.model import Finding
from kshark.report.mergeable import Bins, Counts, Keyed, Sample, Smallest, Span


class Member(NamedTuple):
    """A member's sessions with one broker, in one capture."""

    capture: str
    broker: str
    group_id: str
    member_id: str


class Caller(NamedTuple):
    """A client as it named itself, and its host; texts are empty where it did not."""

    client_id: str
    software: str
    host: str


class Kind(NamedTuple):
    """Findings that say the same."""

    verdict: str
    code: str
    cause: str


class Tick(NamedTuple):
    """A share request as a point of its member's time line; `error` is None where no answer came."""

    time_ns: int
    packet: int
    api: str
    epoch: int
    error: int | None


class Found(NamedTuple):
    """A finding and its capture."""

    capture: str
    finding: Finding


class Sessions(list[tuple[str, ShareSession]]):
    """Sessions with their capture."""

    def update(self, other: Sessions, /) -> None:
        self.extend(other)


def order_of(found: Found) -> Any:
    """As `kshark check` shows findings: by packet, the one with a cause first."""
    it = found.finding
    return found.capture, it.packet, it.cause is None, it.code, it.flow, it.member_id or "", it.argument


def _rows() -> Any:
    return Counts(limits.STATISTICS_ROWS)


def _first() -> Smallest[Found]:
    return Smallest(limits.REPORT_FINDINGS, order_of)


@dataclass(slots=True)
class Collected:
    """Of any share of the events and findings of any captures; `a + b` is what one collector would have counted of both
    shares.

    Times are integer nanoseconds; a service is a Flow's.
    """

    #: Time span of each capture's connections.
    spans: Keyed[str, Span] = field(default_factory=lambda: Keyed(Span))
    outcomes: Counter[str] = field(default_factory=Counter)
    #: By service and what is counted: connections, bytes, gaps, older (began before the capture).
    connections: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By reason and what is counted: gaps, bytes.
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By code and what is counted: times, bytes.
    weirds: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Requests by broker.
    brokers: Counts[str] = field(default_factory=_rows)
    #: Answers to ApiVersions by broker and the highest version offered of each API.
    offers: Counts[tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=_rows)
    #: Requests by API key, version and the client's software.
    apis: Counts[tuple[int, int, str]] = field(default_factory=_rows)
    unanswered: Counter[int] = field(default_factory=Counter)
    #: By API key, and whether the broker waited as long as it was told to.
    latency: Keyed[tuple[int, bool], Percentiles] = field(default_factory=lambda: Keyed(Percentiles))
    #: By API key and error code, at any depth of an answer.
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    clients: Counts[Caller] = field(default_factory=_rows)
    #: Requests of a member by its caller and the answer's error, None without answer.
    steps: Counts[tuple[Member, Caller, int | None]] = field(default_factory=_rows)
    accepted: Sample[Member, Tick] = field(default_factory=lambda: Sample(limits.REPORT_TICKS))
    refused: Sample[Member, Tick] = field(default_factory=lambda: Sample(limits.REPORT_TICKS))
    sessions: Sessions = field(default_factory=Sessions)
    #: Findings by what they say, and who is to blame.
    kinds: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    shown: Keyed[Kind, Smallest[Found]] = field(default_factory=lambda: Keyed(_first))
    #: Findings by member, and by caller, each with the verdict.
    of_members: Counts[tuple[Member, str]] = field(default_factory=_rows)
    of_clients: Counts[tuple[Caller, str]] = field(default_factory=_rows)
    of_groups: Counts[tuple[str, str]] = field(default_factory=_rows)
    reasons: Counter[str] = field(default_factory=Counter)
    #: Findings over time: by dimension (cause, client, group), name and verdict.
    times: Bins = field(default_factory=lambda: Bins(limits.REPORT_CELLS))

    def __add__(self, other: Collected) -> Collected:
        both = Collected()
        for part in (self, other):
            for each in fields(Collected):
                getattr(both, each.name).update(getattr(part, each.name))
        return both
