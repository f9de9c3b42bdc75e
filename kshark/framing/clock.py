"""The capture's clock, at packets of a moment ago: how long something has been waited for."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark import limits
from kshark.model import Segments

if TYPE_CHECKING:
    from kshark.model import Int64s

#: First packet of a batch, then packets and clock as columns.
_Batch = tuple[int, "Int64s", "Int64s"]
_first: Final = itemgetter(0)


class Clock:
    """Knows the clock of the last packets: those of twice limits.HELD_NS, and of what was fed last."""

    def __init__(self) -> None:
        self._batches = deque[_Batch]()
        self.packet = 0
        self.now_ns = 0

    def feed(self, segments: Segments) -> None:
        packets, clock_ns = segments.packet, segments.clock_ns
        if not len(packets):
            return
        oldest = self.now_ns - 2 * limits.HELD_NS
        while len(self._batches) > 1 and self._batches[0][2][-1] < oldest:
            self._batches.popleft()
        self._batches.append((int(packets[0]), packets, clock_ns))
        self.packet, self.now_ns = int(packets[-1]), int(clock_ns[-1])

    def at(self, packet: int) -> int:
        """The clock at that packet, in nanoseconds; of a packet longer ago, that of the first one known."""
        if not self._batches:
            return self.now_ns
        batch = max(bisect_right(self._batches, packet, key=_first) - 1, 0)
        _, packets, clock_ns = self._batches[batch]
        return int(clock_ns[max(int(np.searchsorted(packets, packet, "right")) - 1, 0)])
