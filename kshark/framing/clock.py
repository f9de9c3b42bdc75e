"""The capture's clock, at packets of a moment ago: how long something has been waited for."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque

from kshark import limits
from kshark.model import Moment, Segments

#: First packet of a batch, then its packets (None: one after the other, as mostly) and the clock at each.
_Batch = tuple[int, "array[int] | None", "array[int]"]


class Clock:
    """Knows the clock of the last packets: those of twice limits.HELD_NS, and of what was fed last."""

    def __init__(self) -> None:
        self._batches = deque[_Batch]()
        self.packet = 0
        self.now_ns = 0

    def feed(self, segments: Segments) -> None:
        if len(segments.packet):
            column = segments.packet
            first, last = int(column[0]), int(column[-1])
            packets = None if last - first == len(column) - 1 else array("q", column.tobytes())
            self._add(first, last, packets, array("q", segments.clock_ns.tobytes()))

    def close(self, end: Moment) -> None:
        """The capture ends there."""
        if end.packet > self.packet:
            self._add(end.packet, end.packet, None, array("q", [end.clock_ns]))

    def _add(self, first: int, last: int, packets: array[int] | None, clock_ns: array[int]) -> None:
        oldest = self.now_ns - 2 * limits.HELD_NS
        while len(self._batches) > 1 and self._batches[0][2][-1] < oldest:
            self._batches.popleft()
        self._batches.append((first, packets, clock_ns))
        self.packet, self.now_ns = last, clock_ns[-1]

    def at(self, packet: int) -> int:
        """The clock at that packet, in nanoseconds; 0 for one longer ago."""
        for first, packets, clock_ns in reversed(self._batches):
            if packet >= first:
                return clock_ns[
                    min(packet - first, len(clock_ns) - 1) if packets is None else bisect_right(packets, packet) - 1
                ]
        return 0
