"""The window of a share partition: its offsets in flight.

A broker limits their number (Kafka: SharePartition.canAcquireRecords).
"""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.facts.releases import Release
from kshark.analysis.states.partition.records_in_flight import May, Piece
from kshark.analysis.states.tables.in_flight import TERMINAL
from kshark.offset_ranges import OffsetRanges

#: Default limit of offsets in flight, by release (group.share.partition.max.record.locks); 2000 for other releases.
_SMALL: Final = {Release.V4_0: 200}
USUAL: Final = 2_000
#: Narrower windows are never full.
LEAST: Final = min(_SMALL.values())


class Window:
    """The offsets from `low`, below which all records are ended, to the last acquired one, `last`.

    `by` acquired the newest of them, from `tip` on. The start offset may be lower than the first seen record, so the
    real window may be wider.
    """

    def __init__(self) -> None:
        self.low = 0
        self.tip = self.last = -1
        self.by: ShareStep | None = None

    def acquire(self, step: ShareStep, first: int, last: int) -> None:
        """Note an acquisition of new records, or of records below all others."""
        if self.by is None or first < self.low:
            self.low = first
        if last > self.last:
            self.tip, self.last, self.by = first, last, step

    @property
    def width(self) -> int:
        """Number of offsets in flight."""
        return self.last - self.low + 1

    def first_left(self, records: OffsetRanges[May]) -> Piece | None:
        """Return the first records that are not ended. The start offset cannot pass them."""
        piece = records.range_from(self.low)
        while piece is not None and all(record.stage in TERMINAL for record in piece.value):
            self.low = piece.last + 1
            piece = records.range_from(self.low)
        return piece


def usual_size(releases: frozenset[Release]) -> int:
    """Return the highest default limit of offsets in flight of these releases."""
    return max(_SMALL.get(release, USUAL) for release in releases)
