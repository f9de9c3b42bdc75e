"""The capture's clock, at packets of a moment ago: how long something has been waited for."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from kshark import limits
from kshark.model import Moment, Segments

#: First packet of a batch, then its packets (mostly one after the other, which takes no room) and the clock at each.
_Batch = tuple[int, Sequence[int], "array[int]"]
_first: Final = itemgetter(0)


class Clock:
    """Knows the clock of the last packets: those of twice limits.HELD_NS, and of what was fed last."""

    def __init__(self) -> None:
        self._batches = deque[_Batch]()
        self.packet = 0
        self.now_ns = 0

    def feed(self, segments: Segments) -> None:
        if len(segments.packet):
            column = segments.packet
            plain = bool((column[1:] - column[:-1] == 1).all())
            packets = range(int(column[0]), int(column[-1]) + 1) if plain else array("q", column.tobytes())
            self._add(packets, array("q", segments.clock_ns.tobytes()))

    def close(self, end: Moment) -> None:
        """The capture ends there."""
        if end.packet > self.packet:
            self._add(array("q", [end.packet]), array("q", [end.clock_ns]))

    def _add(self, packets: Sequence[int], clock_ns: array[int]) -> None:
        oldest = self.now_ns - 2 * limits.HELD_NS
        while len(self._batches) > 1 and self._batches[0][2][-1] < oldest:
            self._batches.popleft()
        self._batches.append((packets[0], packets, clock_ns))
        self.packet, self.now_ns = packets[-1], clock_ns[-1]

    def at(self, packet: int) -> int:
        """The clock at that packet, in nanoseconds; 0 for one longer ago."""
        batch = bisect_right(self._batches, packet, key=_first) - 1
        if batch < 0:
            return 0
        _, packets, clock_ns = self._batches[batch]
        return clock_ns[bisect_right(packets, packet) - 1]
