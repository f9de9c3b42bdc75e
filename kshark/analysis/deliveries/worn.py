"""Records that may have been delivered for the last time: they were given back after as many deliveries as any before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from kshark.analysis.deliveries.records_in_flight import Record
from kshark.analysis.machines.in_flight import ARCHIVED, GIVEN_BACK

#: Ranges that are remembered; the first ones are forgotten first.
_MOST: Final = 64


class Worn:
    """Ranges of a share partition that are to be handed out once more, or never."""

    def __init__(self) -> None:
        self.ranges: deque[tuple[int, int]] = deque(maxlen=_MOST)

    def give_back(self, first: int, last: int, back: Sequence[Record]) -> None:
        """What records may be in that were given back: at last archived."""
        if not back or back[-1].stage is not ARCHIVED or back[-1].how not in GIVEN_BACK or back[-1].hold is None or back[-1].count is None:
            return
        if self.ranges and self.ranges[-1][1] == first - 1:
            first, _ = self.ranges.pop()
        self.ranges.append((first, last))

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Forgets all others."""
        self.ranges = deque(ranges, maxlen=_MOST)
