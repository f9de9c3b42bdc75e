"""Locks of acquired records, ordered by latest expiry, and the locks of a whole group.

There are many pairs of member and partition, but a member has locks in a few partitions only. When its session ends,
only these are checked. When its session may have ended, which is frequent, only the locks added since the last check
are checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Final

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import Partition
from kshark.analysis.states.partition.records_in_flight import Hold, May
from kshark.analysis.states.tables.in_flight import ACQUIRED
from kshark.offset_ranges import OffsetRanges

#: Number of stale locks that are kept in addition to one for each range: locks of records that were acknowledged.
_STALE: Final = 64
_NEVER: Final = 1 << 63
_number: Final = itemgetter(1)

#: A member of the group, and the leader of the partitions.
_Holder = tuple[str | None, Broker | None]


class GroupLocks:
    """The locks of all share partitions of a group: the members that may have some, and those that may have expired."""

    def __init__(self) -> None:
        self._count = 0
        #: Partitions by member and leader, each with its number in the order of its first use; and those with new
        #: locks.
        self._of: defaultdict[_Holder, dict[Partition, int]] = defaultdict(dict)
        self._news: defaultdict[_Holder, dict[Partition, int]] = defaultdict(dict)
        #: A heap: the scheduled expiry of a partition's first lock. The expiry itself may be later.
        self._due: list[tuple[int, int, Locks]] = []

    def number(self) -> int:
        """Return the number for a new partition."""
        self._count += 1
        return self._count

    def concern(
        self, member_id: str | None, leader: Broker | None, now_ns: int, over: Collection[Partition]
    ) -> list[Partition]:
        """Return the partitions to check, in the order of their numbers.

        These are the partitions in which the member may have new locks, those of `over` in which it may have any, and
        those in which a lock of any member has expired by that time.
        """
        held = self._of.get((member_id, leader), {})
        smaller, larger = (over, held) if len(over) < len(held) else (held, over)
        numbers = {partition: held[partition] for partition in smaller if partition in larger}
        numbers |= self._news.get((member_id, leader), {})
        numbers |= self._out(now_ns)
        return sorted(numbers, key=numbers.__getitem__)

    def _out(self, now_ns: int) -> dict[Partition, int]:
        due, expired, checked = self._due, {}, []
        while due and due[0][0] < now_ns:
            first_ns, number, locks = heappop(due)
            if first_ns == locks.scheduled_ns:
                checked.append(locks)
                if locks.first_ns < now_ns:
                    expired[locks.partition] = number
        for locks in checked:
            self.schedule(locks)
        return expired

    def schedule(self, locks: Locks) -> None:
        """Schedule the expiry of a partition's first lock."""
        locks.scheduled_ns = locks.first_ns
        if locks.first_ns < _NEVER:
            heappush(self._due, (locks.first_ns, locks.number, locks))

    def join(self, member_id: str | None, locks: Locks) -> None:
        """Note that the member may have new locks in the partition."""
        holder = member_id, locks.leader
        self._of[holder][locks.partition] = self._news[holder][locks.partition] = locks.number

    def leave(self, members: Iterable[str | None], locks: Locks, *, old: bool = False) -> None:
        """Remove members without locks in the partition. `old`: they have only old ones."""
        for member_id in members:
            holder = member_id, locks.leader
            for table in (self._news,) if old else (self._news, self._of):
                held = table[holder]
                held.pop(locks.partition, None)
                if not held:
                    del table[holder]


_Entry = tuple[int, int, int, int, Hold]


class Locks:
    """The locks of a share partition, from acquisitions and renewals.

    `leader`: the leader of the partition. A new leader starts with no locks.
    """

    def __init__(self, partition: Partition, group: GroupLocks, leader: Broker | None = None) -> None:
        self.partition = partition
        self.leader = leader
        self.number = group.number()
        self._group = group
        #: A heap; a number makes its entries distinct.
        self._entries: list[_Entry] = []
        self._number = 0
        #: The expiry of the first lock, read by every request, so it is a field; and the time scheduled in the group,
        #: which is not later.
        self.first_ns = self.scheduled_ns = _NEVER
        #: Entries by member, ordered by number, including stale ones; the number up to which they are old; the highest
        #: possible count of all these entries.
        self._members: dict[str | None, list[_Entry]] = {}
        self._old: dict[str | None, int] = {}
        self._listed = 0
        #: Until this time a leader that read the state again may store results of earlier locks: seen on 4.1.2.
        self.forgotten_ns = 0

    def add(self, hold: Hold, first: int, last: int) -> None:
        """Add a lock."""
        self._number += 1
        entry = hold.late_ns, self._number, first, last, hold
        heappush(self._entries, entry)
        self._list(entry)
        if hold.late_ns < self.first_ns:
            self.first_ns = hold.late_ns
            if hold.late_ns < self.scheduled_ns:
                self._group.schedule(self)

    def _list(self, entry: _Entry) -> None:
        member_id = entry[4].step.member_id
        entries = self._members.get(member_id)
        if entries is None:
            entries = self._members[member_id] = []
        if not entries or entries[-1][1] <= self._old.get(member_id, 0):
            self._group.join(member_id, self)
        entries.append(entry)
        self._listed += 1

    def trim(self, records: OffsetRanges[May], count: int) -> None:
        """Drop stale locks when there are many.

        `records`: those of the partition; `count`: the number of their ranges.
        """
        entries = self._entries
        if len(entries) > 2 * count + _STALE:
            live = {id(record.hold) for piece in records for record in piece.value if record.stage is ACQUIRED}
            self._entries = entries = [entry for entry in entries if id(entry[4]) in live]
            heapify(entries)
            self.first_ns = entries[0][0] if entries else _NEVER
        if self._listed > 2 * len(entries) + _STALE:
            members, self._members, self._listed = self._members, {}, 0
            for entry in sorted(entries, key=_number):
                self._list(entry)
            self._group.leave(members.keys() - self._members.keys(), self)
            self._old = {member_id: number for member_id, number in self._old.items() if member_id in self._members}

    def out(self, now_ns: int) -> list[tuple[int, int, Hold]]:
        """Remove the locks that have certainly expired by that time.

        Return their first and last offset and acquisition, if some of the records may still be locked.
        """
        entries = self._entries
        expired: list[tuple[int, int, Hold]] = []
        while entries and entries[0][0] < now_ns:
            *_, first, last, hold = heappop(entries)
            if hold.left > 0:
                expired.append((first, last, hold))
                hold.left = 0
        self.first_ns = entries[0][0] if entries else _NEVER
        return expired

    def of(self, member_id: str | None, *, new: bool = False) -> list[tuple[int, int]]:
        """Return first and last offsets, in order, of the member's locks, including stale ones.

        `new`: only the locks added since the last call.
        """
        entries = self._members.get(member_id)
        if entries is None:
            return []
        at = bisect_right(entries, self._old.get(member_id, 0), key=_number) if new else 0
        live = [entry for entry in entries[at:] if entry[4].left > 0]
        self._listed -= len(entries) - at - len(live)
        entries[at:] = live
        self._old[member_id] = self._number
        self._group.leave((member_id,), self, old=len(entries) > 0)
        if not entries:
            del self._members[member_id], self._old[member_id]
        return sorted({entry[2:4] for entry in live})

    def clear(self, until_ns: int = 0) -> None:
        """Remove all locks. Unseen locks may last until `until_ns`."""
        self.forgotten_ns = max(self.forgotten_ns, until_ns, *(entry[0] for entry in self._entries))
        self._entries.clear()
        self.first_ns = _NEVER
        self._group.leave(self._members, self)
        self._members.clear()
        self._old.clear()
        self._listed = 0
