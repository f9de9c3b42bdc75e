"""Partitions of a share session, and the records that its member has acquired and not acknowledged.

They are known from an epoch 0 on, as long as no request or answer is missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_LATER,
    FAILED_REOPEN,
    FINAL,
    INITIAL,
    NOTHING,
    UNANSWERED,
    UNCLEAR,
    Answer,
    Partition,
    Reply,
    ShareStep,
)

#: From this ShareFetch version on every listed partition enters the session. Before, one with partition_max_bytes 0
#: does not.
_ALL_LISTED_ENTER: Final = 1


#: When there is no room for another range, ranges with expired locks are dropped. This is done once for this part of
#: the limit.
_PART: Final = 10
#: Default lock duration (group.share.record.lock.duration.ms).
_LOCK_NS: Final = 30_000_000_000
#: The partitions of a new session: an own empty set would take 216 bytes.
_NONE: Final = frozenset[Partition]()
#: After these replies the partitions of the session are unknown.
_UNCERTAIN: Final = frozenset({FAILED_LATER, FAILED_REOPEN, UNCLEAR, UNANSWERED})


def nothing() -> dict[Any, Any]:
    """Return the shared empty dictionary. The owner replaces it when it has an entry."""
    return NOTHING


class HeldRange(Struct, eq=False, gc=False):
    """Records that are acquired and not acknowledged; their lock expires at `until_ns`."""

    first: int
    last: int
    until_ns: int


class InFlight:
    """The partitions and held records of a session.

    `partitions`: None if they are unknown.
    `acknowledged_only`: partitions that were listed only to acknowledge, and the step.
    `closed`: the partitions of the session that the last request closed; None if it closed none, or if they are
    unknown.
    `held`: ranges in the order of their offsets; `ranges`: their number.
    `full`: how often there was no room for another range.
    """

    __slots__ = ("acknowledged_only", "closed", "full", "held", "partitions", "ranges")

    def __init__(self) -> None:
        self.partitions: set[Partition] | frozenset[Partition] | None = None
        self.closed: set[Partition] | frozenset[Partition] | None = None
        self.acknowledged_only: dict[Partition, ShareStep] = nothing()
        self.held: dict[Partition, list[HeldRange]] = nothing()
        self.ranges: int = 0
        self.full: int = 0

    def take(self, step: ShareStep, reply: Reply) -> None:
        """Apply the effect of a step on partitions and records."""
        if reply is not ACCEPTED:
            if reply in _UNCERTAIN:
                self._begin(None)
            return
        if step.kind is INITIAL:
            self._begin(_NONE)
        if step.listed or step.forgotten:
            self._take_listed(step)
        if step.answer is not None and step.answer.acquired:
            self._take_acquired(step, step.answer)

    def _take_listed(self, step: ShareStep) -> None:
        for listed in step.listed:
            for batch in listed.acknowledged:
                if not batch.renews:
                    self._end(listed.partition, batch.first, batch.last)
        if step.is_fetch and step.kind is not FINAL and self.partitions is not None:
            self.partitions = partitions = self.partitions if isinstance(self.partitions, set) else set()
            self._update(step, partitions)

    def _take_acquired(self, step: ShareStep, answer: Answer) -> None:
        for partition, first, last, _ in answer.acquired:
            if self.partitions is not None and partition not in self.partitions:
                # An unseen request opened the session again, or the partition was forgotten before a late delivery.
                self._begin(None)
            if self.acknowledged_only and not any(listed.partition == partition for listed in step.listed):
                self.acknowledged_only.pop(partition, None)  # report once
            self._acquire(partition, first, last, answer.time_ns, answer.lock_ns or _LOCK_NS)

    def _begin(self, partitions: frozenset[Partition] | None) -> None:
        self.partitions = partitions
        self.acknowledged_only.clear()

    def _update(self, step: ShareStep, partitions: set[Partition]) -> None:
        """Update the partitions as ShareSession.update does in Kafka.

        Forgotten partitions are removed after listed ones are added: a request may acknowledge a partition and remove
        it.
        """
        for listed in step.listed:
            if not listed.acknowledged:
                self.acknowledged_only.pop(listed.partition, None)
            elif listed.partition not in partitions and step.version >= _ALL_LISTED_ENTER:
                self.acknowledged_only = self.acknowledged_only or {}
                self.acknowledged_only[listed.partition] = step
            partitions.add(listed.partition)
        for partition in step.forgotten:
            partitions.discard(partition)
            self.acknowledged_only.pop(partition, None)
        if len(partitions) > limits.SESSION_PARTITIONS:
            self._begin(None)

    def _acquire(self, partition: Partition, first: int, last: int, now_ns: int, lock_ns: int) -> None:
        """Add a range. Records that are acquired again have the new lock only."""
        held = self.held.get(partition)
        if held and held[-1].last >= first:
            self._end(partition, first, last)
        if self.ranges >= limits.HELD_RANGES:
            if self.full % (limits.HELD_RANGES // _PART or 1) == 0:
                self._forget_unlocked(now_ns)
                held = self.held.get(partition)
            self.full += 1
        if first <= last and self.ranges < limits.HELD_RANGES:
            if held is None:
                self.held = self.held or {}
                held = self.held[partition] = []
            added = HeldRange(first, last, now_ns + lock_ns)
            if not held or held[-1].last < first:
                held.append(added)
            else:
                insort(held, added, key=_first)
            self.ranges += 1

    def _end(self, partition: Partition, first: int, last: int) -> None:
        """Remove offsets; the rest on both sides stays held."""
        held = self.held.get(partition)
        if not held or first > last or held[-1].last < first:
            return
        if held[0].first == first and held[0].last == last:
            del held[0]  # usual: the first acquisition, as a whole
            self.ranges -= 1
            return
        low = bisect_left(held, first, key=_last)
        high = bisect_right(held, last, lo=low, key=_first)
        rest = _without(held[low:high], first, last)
        if self.ranges + len(rest) > limits.HELD_RANGES + high - low:
            rest = rest[-1:]  # no room for both sides
        held[low:high] = rest
        self.ranges += low - high + len(rest)

    def _forget_unlocked(self, now_ns: int) -> None:
        unlocked = {
            partition: [held for held in ranges if held.until_ns > now_ns] for partition, ranges in self.held.items()
        }
        self.held = {partition: ranges for partition, ranges in unlocked.items() if ranges}
        self.ranges = sum(map(len, self.held.values()))

    def unacknowledged(self, partition: Partition, step: ShareStep) -> int:
        """Return the number of records of the partition that are still acquired after this step."""
        left = [held for held in self.held.get(partition, ()) if held.until_ns > step.time_ns]
        for listed in step.listed:
            for batch in listed.acknowledged if listed.partition == partition else ():
                left = _without(left, batch.first, batch.last)
        return sum(held.last - held.first + 1 for held in left)

    def close(self) -> None:
        """Note that the session ended with its final epoch."""
        closed = self.partitions
        self.forget()
        self.closed = closed

    def forget(self) -> None:
        """Note that the session is over, or that a part of it is missing."""
        self._begin(None)
        self.closed = None
        self.held.clear()
        self.ranges = 0


_first: Final = attrgetter("first")
_last: Final = attrgetter("last")


def _without(ranges: list[HeldRange], first: int, last: int) -> list[HeldRange]:
    """Return the ranges without the offsets from `first` to `last`."""
    rest = []
    for held in ranges:
        if held.last < first or held.first > last:
            rest.append(held)
            continue
        if held.first < first:
            rest.append(HeldRange(held.first, first - 1, held.until_ns))
        if held.last > last:
            rest.append(HeldRange(last + 1, held.last, held.until_ns))
    return rest
