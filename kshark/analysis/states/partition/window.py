"""The window of a share partition: the offsets in flight, of which a broker allows so many (Kafka:
SharePartition.canAcquireRecords)."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.calls import Step
from kshark.analysis.facts.releases import Release
from kshark.analysis.states.partition.records_in_flight import May, Piece
from kshark.analysis.states.tables.in_flight import TERMINAL
from kshark.offset_ranges import OffsetRanges

#: How many offsets may be in flight by default, by release (group.share.partition.max.record.locks); in the others
#: 2000.
_SMALL: Final = {Release.V4_0: 200}
USUAL: Final = 2_000
#: Narrower windows are never full.
LEAST: Final = min(_SMALL.values())


class Window:
    """From `low`, below which all is done with, to `last`, the last one acquired; `by` acquired the newest of them,
    from `tip` on.

    The start offset may be lower than the first record seen: the window is that wide, or wider.
    """

    def __init__(self) -> None:
        self.low = 0
        self.tip = self.last = -1
        self.by: Step | None = None

    def acquire(self, step: Step, first: int, last: int) -> None:
        """Records that are new, or that come before all others."""
        if self.by is None or first < self.low:
            self.low = first
        if last > self.last:
            self.tip, self.last, self.by = first, last, step

    @property
    def width(self) -> int:
        """How many offsets are in flight."""
        return self.last - self.low + 1

    def first_left(self, records: OffsetRanges[May]) -> Piece | None:
        """The first records that are not done with: no start offset passes them."""
        found = records.range_from(self.low)
        while found is not None and all(one.stage in TERMINAL for one in found.value):
            self.low = found.last + 1
            found = records.range_from(self.low)
        return found


def usual_size(releases: frozenset[Release]) -> int:
    """How many offsets brokers of any of these releases let be in flight by default."""
    return max(_SMALL.get(release, USUAL) for release in releases)
