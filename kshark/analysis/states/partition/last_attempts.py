"""Records that may have had their last delivery: they were given back after the highest delivery count seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kshark.analysis.states.partition.records_in_flight import May, RecordState
from kshark.analysis.states.tables.in_flight import ARCHIVED, GIVEN_BACK

#: Highest number of ranges that are kept; the oldest ones are forgotten first.
_MOST: Final = 64


class LastAttempt(NamedTuple):
    """Records that are delivered once more, or never.

    After a check: the possible states of the records, and the time since which they are certainly free.
    """

    first: int
    last: int
    may: May | None = None
    free_ns: int = 0


class LastAttempts:
    """The last attempts of a share partition."""

    def __init__(self) -> None:
        self.ranges: deque[LastAttempt] = deque(maxlen=_MOST)

    def give_back(self, first: int, last: int, back: Sequence[RecordState]) -> None:
        """Note given-back records, by their possible states; the last of these is archived."""
        if (
            not back
            or back[-1].stage is not ARCHIVED
            or back[-1].how not in GIVEN_BACK
            or back[-1].hold is None
            or back[-1].count is None
        ):
            return
        if self.ranges and self.ranges[-1].last == first - 1:
            first = self.ranges.pop().first
        self.ranges.append(LastAttempt(first, last))

    def keep(self, ranges: Iterable[LastAttempt]) -> None:
        """Replace the ranges."""
        self.ranges = deque(ranges, maxlen=_MOST)
