"""Findings of one rule, one blamed party and one event, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark.analysis.rules.rule import Verdict
from kshark.anomaly import Blame
from kshark.endpoints import host_of, via
from kshark.incidents import ROWS
from kshark.model import Finding
from kshark.units import clock, counted, safe, shortened

INCIDENTS: Final = frozenset(row.code for row in ROWS)
#: Findings of these codes share a headline only if they have the same cause.
_BY_CAUSE: Final = INCIDENTS | {"REQUEST_UNANSWERED", "EPOCH_REFUSED", "SESSION_UNKNOWN", "INSTANCE_ID_TAKEN"}
#: So many findings in so much time are a streak.
_STREAK: Final = 3
_STREAK_NS: Final = 10_000_000_000
#: Findings that a member was removed from its group, by code and cause, with what helps.
REMOVED: Final = {
    ("GENERATION_STALE", "not_rejoined"): "A member joins again when its application polls: it took longer than "
    "max.poll.interval.ms (Java, librdkafka; of other clients the rebalance timeout). Fetch fewer records at a time "
    "(max.poll.records), or raise it.",
    (
        "GENERATION_STALE",
        "expired",
    ): "Look at the process and its host at this time: it was paused (garbage collection, "
    "CPU limits of a container, suspended) or cut off. If such pauses are ordinary, raise session.timeout.ms.",
}
#: Names that are kept, and shown.
_KEPT: Final = 100
_SHOWN: Final = 3

#: Names in the order of their first finding.
Names = dict[str, None]


class Sort(NamedTuple):
    """The properties that equal findings share. `event`: code and first packet of the incident that explains them.

    `cause`: of an event, and where causes matter to what people do. Other rules share a headline whatever the causes
    are.
    """

    code: str
    verdict: Verdict
    blame: Blame
    event: tuple[str, int] | None
    cause: str | None


class Alike(Struct):
    """Findings that share the properties of a Sort. `until`: the last packet and its time.

    `longest`: of events, the one that lasted longest, and `times_ns` the times that the shortest and the longest took.
    `lasts`: one of them lasted when the capture ended. `begins`: the first packets of events.
    """

    first: Finding
    longest: Finding
    count: int = 0
    times_ns: tuple[int, int] | None = None
    lasts: bool = False
    begins: set[int] = field(default_factory=set)
    until: tuple[int, int] = (0, 0)
    clients: Names = field(default_factory=dict)
    brokers: Names = field(default_factory=dict)
    groups: Names = field(default_factory=dict)
    software: Names = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        self.count += 1
        end = finding.packet, finding.time_ns
        self.lasts |= finding.until_ns is None
        if finding.code in INCIDENTS:
            self.begins.add(finding.packet)
        if isinstance(finding.until_ns, int):
            end = finding.until_packet or finding.packet, finding.until_ns
            self._last(finding, finding.until_ns - finding.time_ns)
        self.until = max(self.until, end, key=lambda it: (it[1], it[0]))
        if finding.client or finding.client_id:
            _name(self.clients, client_of(finding))
        _name(self.brokers, finding.broker)
        if finding.group_id:
            _name(self.groups, finding.group_id)
        if finding.software:
            _name(self.software, finding.software)

    def _last(self, finding: Finding, took_ns: int) -> None:
        """Take an event that lasted so long."""
        shortest_ns, longest_ns = self.times_ns or (took_ns, took_ns)
        if took_ns > longest_ns:
            self.longest = finding
        self.times_ns = min(shortest_ns, took_ns), max(longest_ns, took_ns)

    @property
    def span(self) -> str:
        """`23:34:16.123`, `23:34:16.123 to 23:35:25.002`, or to the end of the capture."""
        begin = clock(self.first.time_ns, 3)
        end = "the end of the capture" if self.lasts else clock(self.until[1], 3)
        return begin if begin == end else f"{begin} to {end}"

    @property
    def when(self) -> str:
        """The span, with the number if there are several."""
        return self.span if self.count == 1 else f"{counted(self.count, 'time')}, {self.span}"

    @property
    def names(self) -> tuple[Names, ...]:
        return self.clients, self.brokers, self.groups, self.software

    @property
    def lasted_ns(self) -> int:
        """The time from the first to the last."""
        return self.until[1] - self.first.time_ns

    @property
    def is_streak(self) -> bool:
        """True if it happened again and again for a while."""
        return self.count >= _STREAK and self.lasted_ns >= _STREAK_NS


def joined(parts: Sequence[Alike]) -> Alike:
    """Return the sum of findings of one rule without a duration, in the order of their first ones."""
    first = parts[0].first
    whole = Alike(first, first)
    for part in parts:
        whole.count += part.count
        whole.until = max(whole.until, part.until, key=lambda it: (it[1], it[0]))
        for names, others in zip(whole.names, part.names, strict=True):
            for name in others:
                _name(names, name)
    return whole


def sort_of(finding: Finding) -> Sort:
    """Return the properties that equal findings share."""
    event = None
    if finding.event_code is not None and finding.event_packet is not None:
        event = finding.event_code, finding.event_packet
    is_by_cause = finding.code in _BY_CAUSE or (finding.code, finding.cause) in REMOVED
    cause = finding.cause if is_by_cause else None
    return Sort(finding.code, finding.verdict, finding.blame, event, cause)


def client_of(finding: Finding) -> str:
    """Return the client's own name, or its address."""
    return finding.client_id or safe(via(host_of(finding.client), finding.proxy and host_of(finding.proxy)))


def few(names: Names, length: int = 40) -> str:
    """Return `a, b, c and 4 more`."""
    shown = ", ".join(shortened(name, length) for name in [*names][:_SHOWN])
    if len(names) <= _SHOWN:
        return shown
    return f"{shown} and {'many' if len(names) >= _KEPT else len(names) - _SHOWN} more"


def named(noun: str, names: Names) -> str:
    """Return `client a`, or `4 clients (a, b, c and 1 more)`."""
    if len(names) == 1:
        return f"{noun} {few(names)}"
    return f"{'many' if len(names) >= _KEPT else len(names)} {noun}s ({few(names)})"


def _name(names: Names, name: str) -> None:
    if len(names) < _KEPT:
        names[name] = None
