"""Counts of share groups: for each member, partition and group. `update` adds two counts of the same kind.

Times are integer nanoseconds; offsets and records are numbers of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self, TypeVar

from kshark import limits
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Percentiles
from kshark_dissectors.enums import AcknowledgeType

K = TypeVar("K")
C = TypeVar("C")

#: The outcome of a fetch. RECORDS: it returned records; FAILED: an error of the request or of a partition; IDLE: no
#: records within max_wait_ms; EMPTY: no records, and the response came earlier; UNANSWERED: no response; UNREAD: the
#: response is not complete in the capture.
RECORDS: Final = "records"
FAILED: Final = "failed"
IDLE: Final = "idle"
EMPTY: Final = "empty"
UNANSWERED: Final = "unanswered"
UNREAD: Final = "unread"
OUTCOMES: Final = (RECORDS, FAILED, IDLE, EMPTY, UNANSWERED, UNREAD)


class Summed:
    """Adds another object's fields to its own: numbers, and values with an `update`."""

    def update(self, other: Self, /) -> None:
        for field_ in fields(self):  # type: ignore[arg-type]
            own, theirs = getattr(self, field_.name), getattr(other, field_.name)
            if hasattr(own, "update"):
                own.update(theirs)
            else:
                setattr(self, field_.name, own + theirs)


class Latest:
    """The value with the latest time; None until there is one."""

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
    """The outcomes of a member's fetches since its last records, by outcome and error code."""

    def __init__(self) -> None:
        self.since_ns: int | None = None
        self.outcomes: Counter[tuple[str, int]] = Counter()

    def rain(self, time_ns: int) -> None:
        """Record a fetch with records: start again."""
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


#: Records by type of acknowledgement and the error code of the response; None without a response.
Acknowledged = Counter[tuple[int, int | None]]


def accepted_records(acknowledged: Acknowledged, kind: int | None = None) -> int:
    """Return the records whose acknowledgement the broker accepted: of one type, or of all types but gaps."""
    return sum(
        count
        for (type_, error), count in acknowledged.items()
        if error == 0 and (type_ == kind if kind is not None else type_ != AcknowledgeType.GAP)
    )


@dataclass(slots=True)
class MemberCounts(Summed):
    """Counts of a member, or the sum of several members.

    `latency` is the time from a fetch's last byte to its response's first. `work` is the part of it during which
    records were available, for fetches that returned records or failed; `idle` is the rest, when there were no records.
    """

    fetches: Counter[str] = field(default_factory=Counter)
    latency: Percentiles = field(default_factory=Percentiles)
    work: Percentiles = field(default_factory=Percentiles)
    idle: Percentiles = field(default_factory=Percentiles)
    #: Fetches that failed, by error code.
    failed: Counter[int] = field(default_factory=Counter)
    #: Fetches that the broker may still hold at the end of the capture.
    waiting: int = 0
    #: Responses with records: the number of records and the bytes of their records fields. All responses: the throttle
    #: time in ms.
    records: Percentiles = field(default_factory=Percentiles)
    bytes: Percentiles = field(default_factory=Percentiles)
    throttled: Percentiles = field(default_factory=Percentiles)
    #: Records acquired by delivery count.
    acquired: Counter[int] = field(default_factory=Counter)
    acknowledged: Acknowledged = field(default_factory=Counter)
    #: Requests with acknowledgements, and those whose acknowledgements were rejected.
    acknowledging: int = 0
    acknowledging_failed: int = 0
    #: Acquired records that were not acknowledged, by event: lock_timeout, session_released.
    lost: Counter[str] = field(default_factory=Counter)
    #: Share sessions by their end, and the partitions of open sessions.
    sessions: Counter[str] = field(default_factory=Counter)
    session_partitions: int = 0
    heartbeats: Percentiles = field(default_factory=Percentiles)
    #: Heartbeats with an error, by error code.
    refused: Counter[int] = field(default_factory=Counter)
    rebalances: int = 0
    #: The set of assigned partitions; True if the member is in the group, None if that is unknown.
    assigned: Latest = field(default_factory=Latest)
    present: Latest = field(default_factory=Latest)
    last_heartbeat: Latest = field(default_factory=Latest)
    last_fetch: Latest = field(default_factory=Latest)
    drought: Drought = field(default_factory=Drought)
    #: Client id and address.
    client: Latest = field(default_factory=Latest)
    #: Partitions that it listed in its fetches.
    asked_for: set[PartitionId] = field(default_factory=set)


@dataclass(slots=True)
class PartitionCounts(Summed):
    """Counts of the records of a share partition.

    `ranges`: sizes of ranges that were delivered for the first time. `failed`: fetches that could not read it, by
    error. `start`, `end`: offsets of the records in flight at the end of the capture. `held`: records that each member
    has acquired at that time. `waiting`: the open transaction that it has come to, in words; None if there is none.
    """

    acquired: Counter[int] = field(default_factory=Counter)
    acknowledged: Acknowledged = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    ranges: Percentiles = field(default_factory=Percentiles)
    lost: Counter[str] = field(default_factory=Counter)
    start: Latest = field(default_factory=Latest)
    end: Latest = field(default_factory=Latest)
    held: Counter[str | None] = field(default_factory=Counter)
    waiting: Latest = field(default_factory=Latest)


class Epochs:
    """The lowest and the highest member epoch in a group; None before the first."""

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
    """Counts of a group's coordinators: writes and reads of its state by partition leaders, and epochs.

    `unset`: partitions whose leader read that no start offset is stored; `unset_last`: the last such time. `reset`: the
    value of share.auto.offset.reset, and the time at which the capture shows it.
    """

    writes: Percentiles = field(default_factory=Percentiles)
    loads: Percentiles = field(default_factory=Percentiles)
    epochs: Epochs = field(default_factory=Epochs)
    unset: set[PartitionId] = field(default_factory=set)
    unset_last: Latest = field(default_factory=Latest)
    reset: Latest = field(default_factory=Latest)


class CountedSpan:
    """The time span of the messages that were counted."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, time_ns: int) -> None:
        self.first_ns = time_ns if self.first_ns is None else min(self.first_ns, time_ns)
        self.last_ns = time_ns if self.last_ns is None else max(self.last_ns, time_ns)

    def update(self, other: CountedSpan, /) -> None:
        if other.first_ns is not None and other.last_ns is not None:
            self.add(other.first_ns)
            self.add(other.last_ns)

    @property
    def seconds(self) -> float:
        """The length of the span; 0 with fewer than two times."""
        return 0.0 if self.first_ns is None or self.last_ns is None else (self.last_ns - self.first_ns) / 1e9


#: Stands for partitions beyond limits.STATISTICS_ROWS, as OTHERS does for groups and members.
_OTHER_PARTITIONS: Final = PartitionId(OTHERS, -1)
_OTHER_GROUPS: Final = GroupKey(OTHERS)


@dataclass(slots=True)
class Counted:
    """Counts of any part of a capture's members and share partitions; `update` adds another part.

    `clusters`: the ids of clusters by number.
    """

    span: CountedSpan = field(default_factory=CountedSpan)
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


class CountedByGroup(Counted):
    """Counts in which all members of a group are one: their number has no bound over weeks."""

    def member(self, group: GroupKey, member_id: str | None) -> MemberCounts:
        return super().member(group, None)

    def drop(self, groups: Collection[GroupKey]) -> None:
        """Forget groups: their counts begin anew with their next events."""
        for group in groups:
            self.groups.pop(group, None)
            self.members.pop((group, None), None)
        for key in [key for key in self.partitions if key[0] in groups] if groups else ():
            del self.partitions[key]


def _cell(cells: dict[K, C], key: K, others: K, made: Callable[[], C]) -> C:
    """Return the counts for a key; the counts for `others` if there are too many keys."""
    if (cell := cells.get(key)) is None:
        if len(cells) >= limits.STATISTICS_ROWS:
            key = others
        cell = cells.setdefault(key, made())
    return cell
