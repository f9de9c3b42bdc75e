"""The locks of a share partition's acquired records, by the time at which they are out at the latest."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from kshark.analysis.deliveries.offset_ranges import OffsetRanges
from kshark.analysis.deliveries.records_in_flight import Hold, May
from kshark.analysis.machines.in_flight import ACQUIRED

#: So many locks may be of records that were acknowledged since, beside as many as there are ranges.
_STALE: Final = 64
_NEVER: Final = 1 << 63


class Locks:
    """`add` takes acquisitions and renewals, `out` gives back those that are out; others stay until many are of no use any more."""

    def __init__(self) -> None:
        #: A heap; its entries are told apart by a number.
        self._entries: list[tuple[int, int, int, int, Hold]] = []
        self._number = 0
        #: When the first of them is out: asked of every request, without a call.
        self.first_ns = _NEVER
        #: Whose they are, and of some that are gone whose they were.
        self._members: set[str | None] = set()
        #: Until then a leader that began anew may store what becomes of locks of before: seen on 4.1.2.
        self.forgotten_ns = 0

    def add(self, hold: Hold, first: int, last: int, records: OffsetRanges[May]) -> None:
        """`records` are those of the partition: who of them is still acquired."""
        self._number += 1
        heappush(self._entries, (hold.late_ns, self._number, first, last, hold))
        self._members.add(hold.step.member_id)
        if len(self._entries) > 2 * len(records) + _STALE:
            live = {id(record.hold) for one in records for record in one.value if record.stage is ACQUIRED}
            self._entries = [entry for entry in self._entries if id(entry[4]) in live]
            heapify(self._entries)
        self.first_ns = self._entries[0][0] if self._entries else _NEVER
        if len(self._members) > 2 * len(self._entries) + _STALE:
            self._members = {entry[4].step.member_id for entry in self._entries}

    def out(self, now_ns: int) -> Iterator[tuple[int, int, Hold]]:
        """First and last offset, and the acquisition, of each that is out for certain by that time."""
        while self.first_ns < now_ns:
            *_, first, last, hold = heappop(self._entries)
            self.first_ns = self._entries[0][0] if self._entries else _NEVER
            yield first, last, hold

    def concern(self, member_id: str | None, now_ns: int) -> bool:
        """Whether the member may have any, or one of anybody's is out by that time."""
        return member_id in self._members or self.first_ns < now_ns

    def of(self, member_id: str | None) -> list[tuple[int, int]]:
        """First and last offsets, in their order, of those that the member has, or had."""
        return sorted({(first, last) for _, _, first, last, hold in self._entries if hold.step.member_id == member_id})

    def clear(self) -> None:
        self.forgotten_ns = max((entry[0] for entry in self._entries), default=self.forgotten_ns)
        self._entries.clear()
        self.first_ns = _NEVER
        self._members.clear()
