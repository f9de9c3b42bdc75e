"""What is counted of share groups: of each member, partition and group. Two counts of the same kind add up by `update`.

Times are integer nanoseconds, offsets and records are counted in records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self, TypeVar

from kshark import limits
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Percentiles
from kshark_dissectors.enums import AcknowledgeType

K = TypeVar("K")
C = TypeVar("C")

#: What came of a fetch. RECORDS: it brought some; FAILED: refused, or a partition could not be fetched from; IDLE: it
#: waited as long as it allowed the broker to, and nothing came; EMPTY: nothing came, sooner; UNANSWERED; UNREAD: the
#: capture does not hold the whole answer.
RECORDS: Final = "records"
FAILED: Final = "failed"
IDLE: Final = "idle"
EMPTY: Final = "empty"
UNANSWERED: Final = "unanswered"
UNREAD: Final = "unread"
OUTCOMES: Final = (RECORDS, FAILED, IDLE, EMPTY, UNANSWERED, UNREAD)


class Summed:
    """Adds another one's fields to its own: numbers, and whatever has an `update`."""

    def update(self, other: Self, /) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if hasattr(mine, "update"):
                mine.update(theirs)
            else:
                setattr(self, each.name, mine + theirs)


class Latest:
    """What was said last, and when; None while nothing was."""

    def __init__(self) -> None:
        self.time_ns: int | None = None
        self.value: Any = None

    def put(self, time_ns: int, value: Any = None) -> None:
        if self.time_ns is None or time_ns >= self.time_ns:
            self.time_ns, self.value = time_ns, value

    def update(self, other: Latest, /) -> None:
        if other.time_ns is not None:
            self.put(other.time_ns, other.value)


class Drought:
    """What came of a member's fetches since the one that brought its last records: by outcome and error code."""

    def __init__(self) -> None:
        self.since_ns: int | None = None
        self.outcomes: Counter[tuple[str, int]] = Counter()

    def rain(self, time_ns: int) -> None:
        """Records came."""
        if self.since_ns is None or time_ns >= self.since_ns:
            self.since_ns = time_ns
            self.outcomes.clear()

    def update(self, other: Drought, /) -> None:
        if other.since_ns is not None and (self.since_ns is None or other.since_ns > self.since_ns):
            self.since_ns, self.outcomes = other.since_ns, Counter(other.outcomes)
        elif other.since_ns == self.since_ns:
            self.outcomes.update(other.outcomes)


class PartitionId(NamedTuple):
    """A partition by its topic's id."""

    topic_id: str
    partition: int


class GroupKey(NamedTuple):
    """A group by its id and the number of its cluster (kshark.clusters)."""

    group_id: str | None
    cluster: int = 0


#: Records by type of acknowledgement and what became of it: the error code of the answer, None where none was seen.
Acknowledged = Counter[tuple[int, int | None]]


def taken(acknowledged: Acknowledged, kind: int | None = None) -> int:
    """Records whose acknowledgement the broker took; of one type, or all that tell it something of a record."""
    return sum(
        count
        for (one, error), count in acknowledged.items()
        if error == 0 and (one == kind if kind is not None else one != AcknowledgeType.GAP)
    )


@dataclass(slots=True)
class MemberCounts(Summed):
    """What a member did; of several members it is what they did together.

    `latency` is from a fetch's last byte to its answer's first, by outcome; `work` the part of it in which there were
    records to be had, of those that brought records or failed; `idle` the rest, in which there was nothing."""

    fetches: Counter[str] = field(default_factory=Counter)
    latency: Percentiles = field(default_factory=Percentiles)
    work: Percentiles = field(default_factory=Percentiles)
    idle: Percentiles = field(default_factory=Percentiles)
    #: Fetches that failed, by error code.
    failed: Counter[int] = field(default_factory=Counter)
    #: Fetches that the broker may still be waiting with at the end of the capture.
    waiting: int = 0
    #: Of answers that brought records: how many, and the bytes of their records fields; of all answers: the throttle
    #: time in ms.
    records: Percentiles = field(default_factory=Percentiles)
    bytes: Percentiles = field(default_factory=Percentiles)
    throttled: Percentiles = field(default_factory=Percentiles)
    #: Records acquired by delivery count.
    acquired: Counter[int] = field(default_factory=Counter)
    acknowledged: Acknowledged = field(default_factory=Counter)
    #: Requests that acknowledge something, and those whose acknowledgements were refused.
    acknowledging: int = 0
    acknowledging_failed: int = 0
    #: What happened to records that it had acquired, and that were not acknowledged: lock_timeout, session_released.
    lost: Counter[str] = field(default_factory=Counter)
    #: Share sessions by how they ended, and partitions of those that are open.
    sessions: Counter[str] = field(default_factory=Counter)
    session_partitions: int = 0
    heartbeats: Percentiles = field(default_factory=Percentiles)
    #: Refused heartbeats by error code.
    refused: Counter[int] = field(default_factory=Counter)
    rebalances: int = 0
    #: Partitions that it was assigned: as a set; and whether it is in the group.
    assigned: Latest = field(default_factory=Latest)
    present: Latest = field(default_factory=Latest)
    last_heartbeat: Latest = field(default_factory=Latest)
    last_fetch: Latest = field(default_factory=Latest)
    drought: Drought = field(default_factory=Drought)
    #: Client id and address.
    client: Latest = field(default_factory=Latest)
    #: Partitions that it asked for records of.
    asked_for: set[PartitionId] = field(default_factory=set)


@dataclass(slots=True)
class PartitionCounts(Summed):
    """What happened to records of a share partition.

    `ranges` are the sizes of ranges that were delivered for the first time; `failed` counts fetches that could not
    fetch from it, by error.
    `start` and `end` are the offsets between which records are in flight at the end of the capture, `held` how many
    records which member has acquired then."""

    acquired: Counter[int] = field(default_factory=Counter)
    acknowledged: Acknowledged = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    ranges: Percentiles = field(default_factory=Percentiles)
    lost: Counter[str] = field(default_factory=Counter)
    start: Latest = field(default_factory=Latest)
    end: Latest = field(default_factory=Latest)
    held: Counter[str | None] = field(default_factory=Counter)


class Epochs:
    """Member epochs that a group gave: the lowest that it had, and the highest; None while none was seen."""

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.highest: int | None = None

    def add(self, lowest: int, highest: int) -> None:
        self.lowest = lowest if self.lowest is None else min(self.lowest, lowest)
        self.highest = highest if self.highest is None else max(self.highest, highest)

    def update(self, other: Epochs, /) -> None:
        if other.lowest is not None and other.highest is not None:
            self.add(other.lowest, other.highest)


@dataclass(slots=True)
class GroupCounts(Summed):
    """What coordinators did for a group: writes and reads of its state by leaders of its partitions, and epochs."""

    writes: Percentiles = field(default_factory=Percentiles)
    loads: Percentiles = field(default_factory=Percentiles)
    epochs: Epochs = field(default_factory=Epochs)


class Span:
    """The time of the messages that were counted."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, time_ns: int) -> None:
        self.first_ns = time_ns if self.first_ns is None else min(self.first_ns, time_ns)
        self.last_ns = time_ns if self.last_ns is None else max(self.last_ns, time_ns)

    def update(self, other: Span, /) -> None:
        if other.first_ns is not None and other.last_ns is not None:
            self.add(other.first_ns)
            self.add(other.last_ns)

    @property
    def seconds(self) -> float:
        """0 where there is no time between any two."""
        return 0.0 if self.first_ns is None or self.last_ns is None else (self.last_ns - self.first_ns) / 1e9


#: Stands for partitions beyond limits.STATISTICS_ROWS, as OTHERS does for groups and members.
_OTHER_PARTITIONS: Final = PartitionId(OTHERS, -1)
_OTHER_GROUPS: Final = GroupKey(OTHERS)


@dataclass(slots=True)
class Counted:
    """Of any share of a capture's members and share partitions; `update` adds what was counted of another share.

    `clusters`: the ids of clusters by their numbers.
    """

    span: Span = field(default_factory=Span)
    clusters: dict[int, str] = field(default_factory=dict)
    groups: dict[GroupKey, GroupCounts] = field(default_factory=dict)
    members: dict[tuple[GroupKey, str | None], MemberCounts] = field(default_factory=dict)
    partitions: dict[tuple[GroupKey, PartitionId], PartitionCounts] = field(default_factory=dict)

    def group(self, group: GroupKey) -> GroupCounts:
        return _cell(self.groups, group, _OTHER_GROUPS, GroupCounts)

    def member(self, group: GroupKey, member_id: str | None) -> MemberCounts:
        return _cell(self.members, (group, member_id), (_OTHER_GROUPS, OTHERS), MemberCounts)

    def partition(self, group: GroupKey, partition: PartitionId) -> PartitionCounts:
        return _cell(self.partitions, (group, partition), (_OTHER_GROUPS, _OTHER_PARTITIONS), PartitionCounts)

    def update(self, other: Counted, /) -> None:
        self.span.update(other.span)
        self.clusters.update(other.clusters)
        for group, of_group in other.groups.items():
            self.group(group).update(of_group)
        for (group, member_id), member in other.members.items():
            self.member(group, member_id).update(member)
        for (group, partition), counts in other.partitions.items():
            self.partition(group, partition).update(counts)


def _cell(cells: dict[K, C], key: K, others: K, made: Callable[[], C]) -> C:
    """What is counted of one of them; beyond the limit, of all others together."""
    if (found := cells.get(key)) is None:
        if len(cells) >= limits.STATISTICS_ROWS:
            key = others
        found = cells.setdefault(key, made())
    return found
