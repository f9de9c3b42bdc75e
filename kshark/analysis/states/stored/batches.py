"""Stored batches of a share partition, combined like the share coordinator does (Kafka:

PersisterStateBatchCombiner).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from kshark.analysis.facts.state_steps import StateBatch, StateStep
from kshark.offset_ranges import OffsetRanges, Ranged

#: Writes that are kept uncombined. The start offset passes most of them before the combined batches are read.
_AS_WRITTEN: Final = 32
#: Offsets are signed 64-bit numbers on the wire.
_LOWEST: Final = -(1 << 63)


class Kept(NamedTuple):
    """The stored state of a range of offsets, and the step that stored it."""

    delivery_count: int
    state: int
    by: StateStep


#: Where batches overlap, the one with the higher rank stays: delivery count and state.
rank_of: Final[Callable[[Kept], tuple[int, int]]] = itemgetter(0, 1)
#: Creates the NamedTuple in C; see offset_ranges.
_kept: Final[Callable[[tuple[int, int, StateStep]], Kept]] = partial(tuple.__new__, Kept)


#: Batches of one exchange, their highest offset, the exchange, and its start offset (below zero: none).
_Written = tuple[Sequence[StateBatch], int, StateStep, int]


class StoredBatches:
    """The stored batches. `add` adds written batches; `over` and iteration return the combined ones.

    `size`: the number of ranges and batches in memory.
    """

    __slots__ = ("_ranges", "_written", "highest", "size")

    def __init__(self) -> None:
        self._ranges: OffsetRanges[Kept] = OffsetRanges()
        self._written: deque[_Written] = deque()
        self.size = 0
        #: The highest offset that was ever stored.
        self.highest = -1

    def __iter__(self) -> Iterator[Ranged[Kept]]:
        return iter(self._combined())

    def over(self, first: int, last: int) -> list[Ranged[Kept]]:
        """Return the stored ranges between two offsets, cut at these offsets."""
        return self._combined().over(first, last)

    def add(self, batches: Sequence[StateBatch], by: StateStep, start: int | None = None) -> None:
        """Store batches, and drop everything below the start offset."""
        if batches:
            highest = max(batches, key=itemgetter(1))[1]
            if highest > self.highest:
                self.highest = highest
        else:
            highest = -1
        low = -1 if start is None else start
        written = self._written
        while written and written[0][1] < low:
            self.size -= len(written.popleft()[0])
        written.append((batches, highest, by, low))
        self.size += len(batches)
        if len(written) > _AS_WRITTEN:
            self._combined()

    def clear(self) -> None:
        """Remove all batches."""
        self.__init__()  # type: ignore[misc]

    def _combined(self) -> OffsetRanges[Kept]:
        ranges = self._ranges
        for batches, _, by, start in self._written:
            for first, last, state, delivery_count in batches:
                ranges.improve(first, last, _kept((delivery_count, state, by)), rank_of)
            if start >= 0:
                ranges.drop(_LOWEST, start - 1)
        self._written.clear()
        self.size = len(ranges)
        return ranges
