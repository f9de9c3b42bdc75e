"""The counts of a report, in parts that can be added."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Self

from kshark import limits
from kshark.analysis import ShareSession
from kshark.analysis.results.statistics import Percentiles
from kshark.model import Finding
from kshark.report.mergeable import Bins, Counts, Firsts, Keyed, Sample
from kshark.tables.capture_summary import CaptureSummary


class Member(NamedTuple):
    """A member's sessions with one broker, in one capture."""

    capture: str
    broker: str
    group_id: str
    member_id: str


class Caller(NamedTuple):
    """A client's id, software and host, and the cluster that it talked to; texts are empty if unknown."""

    client_id: str
    software: str
    host: str
    cluster: str = ""


class Server(NamedTuple):
    """A broker by its address, in its cluster: two clusters may use the same addresses. Empty: unknown."""

    cluster: str
    address: str


class GroupName(NamedTuple):
    """A group by its name, in its cluster."""

    cluster: str
    name: str


class Kind(NamedTuple):
    """The properties that equal findings share."""

    verdict: str
    code: str
    cause: str


class Tick(NamedTuple):
    """A share request as a point of its member's time line; `error` is None without a response."""

    time_ns: int
    packet: int
    api: str
    epoch: int
    error: int | None


class CapturedFinding(NamedTuple):
    """A finding, its capture, and the cluster of its broker."""

    capture: str
    finding: Finding
    cluster: str


class Sessions(list[tuple[str, ShareSession]]):
    """Sessions with their captures."""

    def update(self, other: Sessions, /) -> None:
        self.extend(other)


def order_of(captured: CapturedFinding) -> Any:
    """Return the sort key of findings in `kshark check`: by packet, findings with a cause first."""
    finding = captured.finding
    return (
        captured.capture,
        finding.packet,
        finding.cause is None,
        finding.code,
        finding.flow,
        finding.member_id or "",
        finding.argument,
    )


def _rows() -> Any:
    return Counts(limits.STATISTICS_ROWS)


def _first() -> Firsts[Kind, CapturedFinding]:
    return Firsts(limits.REPORT_FINDINGS, order_of)


@dataclass(slots=True)
class Collected:
    """Counts of any captures; `a + b` gives the counts of both. Brokers, clients and groups are counted by cluster.

    Times are integer nanoseconds; a service is a Flow's.
    """

    #: Each capture by its name, whole.
    captures: dict[str, CaptureSummary] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    #: By service and quantity: connections, bytes, gaps, older (began before the capture).
    connections: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By reason and quantity: gaps, bytes.
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By code and quantity: times, bytes.
    weirds: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Requests by broker.
    brokers: Counts[Server] = field(default_factory=_rows)
    #: ApiVersions responses by broker and the highest offered version of each API.
    offers: Counts[tuple[Server, tuple[tuple[int, int], ...]]] = field(default_factory=_rows)
    #: Requests by API key, version and the client's software.
    apis: Counts[tuple[int, int, str]] = field(default_factory=_rows)
    unanswered: Counter[int] = field(default_factory=Counter)
    #: By API key, and True if the broker waited for the whole max_wait_ms.
    latency: Keyed[tuple[int, bool], Percentiles] = field(default_factory=lambda: Keyed(Percentiles))
    #: By API key and error code, at any depth of a response.
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    clients: Counts[Caller] = field(default_factory=_rows)
    #: Requests of a member by its caller and the response's error, None without response.
    steps: Counts[tuple[Member, Caller, int | None]] = field(default_factory=_rows)
    accepted: Sample[Member, Tick] = field(default_factory=lambda: Sample(limits.REPORT_TICKS))
    refused: Sample[Member, Tick] = field(default_factory=lambda: Sample(limits.REPORT_TICKS))
    sessions: Sessions = field(default_factory=Sessions)
    #: Findings by kind, and by the blamed party.
    kinds: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    shown: Firsts[Kind, CapturedFinding] = field(default_factory=_first)
    #: Findings by member, and by caller, each with the verdict.
    of_members: Counts[tuple[Member, str]] = field(default_factory=_rows)
    of_clients: Counts[tuple[Caller, str]] = field(default_factory=_rows)
    of_groups: Counts[tuple[GroupName, str]] = field(default_factory=_rows)
    #: Findings by cluster, with the verdict.
    of_clusters: Counts[tuple[str, str]] = field(default_factory=_rows)
    reasons: Counter[str] = field(default_factory=Counter)
    #: Findings over time: by dimension (cause, client, group), name and verdict.
    times: Bins = field(default_factory=lambda: Bins(limits.REPORT_CELLS))

    def __add__(self, other: Collected) -> Collected:
        both = Collected()
        both += self
        both += other
        return both

    def __iadd__(self, other: Collected) -> Self:
        for field_ in fields(Collected):
            getattr(self, field_.name).update(getattr(other, field_.name))
        return self
