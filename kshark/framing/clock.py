"""The capture's clock at recent packets: measures how long something has waited."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from kshark import limits

if TYPE_CHECKING:
    from kshark.model import Int64s

#: First packet of a batch; its packet numbers (None: consecutive, the usual case); the clock at each.
_Batch = tuple[int, "array[int] | None", "array[int]"]


class Clock:
    """The clock at recent packets: those of the last 2 * limits.HELD_NS, and at least the last batch."""

    def __init__(self) -> None:
        self._batches = deque[_Batch]()
        self.packet = 0
        self.now_ns = 0

    def feed(self, packets: Int64s, clock_ns: Int64s) -> None:
        """Add the packets of a batch and the clock at each.

        The packet at the capture's end may be one that was fed before.
        """
        if not len(packets) or (last := int(packets[-1])) <= self.packet:
            return
        oldest = self.now_ns - 2 * limits.HELD_NS
        while len(self._batches) > 1 and self._batches[0][2][-1] < oldest:
            self._batches.popleft()
        first = int(packets[0])
        numbers = None if last - first == len(packets) - 1 else array("q", packets.tobytes())
        self._batches.append((first, numbers, array("q", clock_ns.tobytes())))
        self.packet, self.now_ns = last, max(self.now_ns, int(clock_ns[-1]))

    def tick(self, clock_ns: int) -> None:
        """Let time pass without a packet."""
        self.now_ns = max(self.now_ns, clock_ns)

    def at(self, packet: int) -> int:
        """Return the clock at that packet in nanoseconds; 0 if the packet is older than the kept ones."""
        for first, packets, clock_ns in reversed(self._batches):
            if packet >= first:
                return clock_ns[
                    min(packet - first, len(clock_ns) - 1) if packets is None else bisect_right(packets, packet) - 1
                ]
        return 0
