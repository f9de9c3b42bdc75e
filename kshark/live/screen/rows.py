"""Rows of the screen: members of groups, the partitions whose records they hold, and findings with one cause."""

from __future__ import annotations

from math import exp
from typing import Final, NamedTuple

from msgspec import Struct

from kshark.analysis import HeldRange
from kshark.model import Finding

#: Rates are means over about this time, and trouble fades in this time.
RATE_NS: Final = 10_000_000_000
TROUBLE_NS: Final = 60_000_000_000
#: The last requests of a member that are kept.
TALKS: Final = 12
#: A heartbeat is late after this many of its intervals.
_LATE_BEATS: Final = 2.5


class RowKey(NamedTuple):
    """A member of a group in a cluster, by the cluster's number; the group, if `member_id` is None."""

    cluster: int
    group_id: str
    member_id: str | None = None

    @property
    def group(self) -> RowKey:
        return RowKey(self.cluster, self.group_id)


#: The id of a topic, and the number of a partition.
Place = tuple[str, int]


class Fading(NamedTuple):
    """A value that fades with time."""

    value: float = 0.0
    time_ns: int = 0

    def at(self, now_ns: int, within_ns: int) -> float:
        """Return what is left of it."""
        value, time_ns = self
        return value * exp((time_ns - now_ns) / within_ns) if value and now_ns > time_ns else value

    def plus(self, value: float, now_ns: int, within_ns: int) -> Fading:
        return Fading(self.at(now_ns, within_ns) + value, max(now_ns, self.time_ns))


class Talk(NamedTuple):
    """A request of a member with its answer. `error`, `latency_ns`: None without an answer.

    `epoch`: of the share session, or of the member in a heartbeat.
    """

    time_ns: int
    api: str
    epoch: int | None
    error: int | None
    latency_ns: int | None


class About(NamedTuple):
    """The software and the address of a client, and the broker's end of its last connection."""

    software: str
    client: str
    broker: str


class Beat(NamedTuple):
    """The last heartbeat of a member, and the interval that the coordinator asked for; `left`: it left the group."""

    time_ns: int
    interval_ns: int
    epoch: int | None
    left: bool = False

    def is_late(self, now_ns: int) -> bool:
        return not self.left and now_ns - self.time_ns > _LATE_BEATS * self.interval_ns


class Row(Struct):
    """A member. Times are the packets'.

    `epoch`: of the last request of its share session. `rate`: ShareFetches, fading; `since_ns`: the first request.
    `refused`: requests, and records whose acknowledgement was refused. `again`, `expired`: records that were delivered
    before, and whose lock expired. `places`: partitions assigned to it, and those of which it got records.
    """

    key: RowKey
    client_id: str = ""
    about: About = About("", "", "")
    epoch: int | None = None
    rate: Fading = Fading()
    trouble: Fading = Fading()
    refused: int = 0
    again: int = 0
    expired: int = 0
    violations: int = 0
    since_ns: int = 0
    last_ns: int = 0
    beat: Beat | None = None
    talks: tuple[Talk, ...] = ()
    places: frozenset[Place] = frozenset()

    def fetches_per_second(self, now_ns: int) -> float:
        """Return the mean of the last ten seconds, of fewer if the first request was later."""
        span_ns = max(now_ns - self.since_ns, 1_000_000_000)
        return self.rate.at(now_ns, RATE_NS) / (RATE_NS / 1e9) / (1 - exp(-span_ns / RATE_NS))


class GroupRow(Row):
    """A group: the sums of its members; their number."""

    members: int = 1


class Holding(NamedTuple):
    """The records of a share partition that members hold. `start`: its start offset, None if it is unknown; `end`: the
    next offset to acquire. `due_ns`: when the first lock may expire."""

    group: RowKey
    topic_id: str
    partition: int
    start: int | None
    end: int | None
    ranges: tuple[HeldRange, ...]
    due_ns: int


class Held(NamedTuple):
    """The records that a member holds, and when the first of their locks may expire."""

    records: int
    until_ns: int


class Cause(Struct):
    """Findings with one code, verdict and cause about one member, client or broker, or joined (`key`: of the first).

    `who`: clients, or brokers. `finding`: the last one. `lasts`: an incident that lasts until now.
    """

    finding: Finding
    who: tuple[str, ...]
    key: RowKey | None
    weight: int
    first_ns: int
    last_ns: int
    count: int = 1
    lasts: bool = False

    @property
    def sort(self) -> tuple[str, ...]:
        """Return the properties by which a cursor finds it again."""
        finding = self.finding
        return finding.code, finding.verdict, finding.blame, finding.cause or "", "now" if self.lasts else ""
