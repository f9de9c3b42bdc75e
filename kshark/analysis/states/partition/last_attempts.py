"""Records that may have been delivered for the last time: they were given back after as many deliveries as any
before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kshark.analysis.states.partition.records_in_flight import May, Record
from kshark.analysis.states.tables.in_flight import ARCHIVED, GIVEN_BACK

#: Ranges that are remembered; the first ones are forgotten first.
_MOST: Final = 64


class LastAttempt(NamedTuple):
    """Records that are to be handed out once more, or never.

    Of those that were looked at: the states that they may be in, and since when they are free for certain.
    """

    first: int
    last: int
    may: May | None = None
    free_ns: int = 0


class LastAttempts:
    """Those of a share partition."""

    def __init__(self) -> None:
        self.ranges: deque[LastAttempt] = deque(maxlen=_MOST)

    def give_back(self, first: int, last: int, back: Sequence[Record]) -> None:
        """What records may be in that were given back: at last archived."""
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
        """Forgets all others."""
        self.ranges = deque(ranges, maxlen=_MOST)
