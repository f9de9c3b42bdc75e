"""Histograms of durations for many rows, in two columns: 16 bytes for each row and bin."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshark import limits

#: Bins are 1/512 to 1/1024 of their duration wide: this many bits of it are kept, the first of which is always 1.
_BITS: Final = 10
#: Bits of a bin's number, below the row's.
_BIN_BITS: Final = 15
_LONGEST: Final = (1 << 62) - 1
#: Durations that wait before they are counted.
_WAITING: Final = 1 << 16

Cells = NDArray[np.int64]


class Histograms:
    """Histograms by row number. `update` adds another object's.

    The bins are the same whatever the order of the durations. Beyond limits.BREAKDOWN_CELLS all get twice as wide.
    """

    def __init__(self) -> None:
        self._waiting = array("q")
        #: Row and bin, ascending, and the number of durations in it.
        self._cells: Cells = np.zeros(0, np.int64)
        self._counts: Cells = np.zeros(0, np.int64)
        #: Two to this power bins were joined.
        self._joined = 0

    def add(self, row: int, ns: int) -> None:
        """Add a duration to a row."""
        if ns < 1 << _BITS:
            bin_ = max(0, ns)
        else:
            ns = min(ns, _LONGEST)
            shift = ns.bit_length() - _BITS
            bin_ = (shift << _BITS - 1) + (ns >> shift)
        self._waiting.append(row << _BIN_BITS | bin_ >> self._joined)
        if len(self._waiting) >= max(_WAITING, len(self._cells) >> 1):
            self._count()

    def update(self, other: Histograms, rows: Sequence[int], /) -> None:
        """Add other histograms; `rows` are the numbers here of their rows."""
        self._count()
        other._count()
        joined = max(self._joined, other._joined)
        self._join(joined)
        numbers = np.asarray(rows, np.int64)[other._cells >> _BIN_BITS]
        bins = (other._cells & (1 << _BIN_BITS) - 1) >> joined - other._joined
        self._put(numbers << _BIN_BITS | bins, other._counts)

    def percentiles(self, percents: Sequence[float], rows: Iterable[int]) -> dict[int, tuple[int, list[int]]]:
        """Return the number of durations of each row that has any, and its percentiles by nearest rank, in ns.

        Percentiles are the middle of a bin, to three significant digits.
        """
        self._count()
        before = np.concatenate([[0], np.cumsum(self._counts)])
        numbers = [*rows]
        low = np.searchsorted(self._cells, np.asarray(numbers, np.int64) << _BIN_BITS)
        high = np.searchsorted(self._cells, (np.asarray(numbers, np.int64) + 1) << _BIN_BITS)
        measured = {}
        for number, first, last in zip(numbers, low.tolist(), high.tolist(), strict=True):
            if (count := int(before[last] - before[first])) > 0:
                ranks = [before[first] + max(1, -int(-count * percent // 100)) for percent in percents]
                cells = np.searchsorted(before[first + 1 : last + 1], ranks) + first
                measured[number] = count, [self._middle(cell) for cell in self._cells[cells].tolist()]
        return measured

    def longer_than(self, ns: int, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many durations of each row are in bins after that of `ns`, and how many it has; rows without any
        are left out."""
        self._count()
        before = np.concatenate([[0], np.cumsum(self._counts)])
        first = np.asarray(rows, np.int64) << _BIN_BITS
        edges = (first, first + ((_bin(ns) >> self._joined) + 1), first + (1 << _BIN_BITS))
        begin, middle, end = (before[np.searchsorted(self._cells, edge)] for edge in edges)
        pairs = zip((end - middle).tolist(), (end - begin).tolist(), strict=True)
        return [(longer, count) for longer, count in pairs if count]

    def _middle(self, cell: int) -> int:
        bin_ = cell & (1 << _BIN_BITS) - 1
        middle = (_least(bin_ << self._joined) + _least((bin_ + 1) << self._joined) - 1) // 2
        scale = int(10 ** max(0, len(str(middle)) - 3))
        return (middle + scale // 2) // scale * scale

    def _count(self) -> None:
        if self._waiting:
            cells = np.frombuffer(self._waiting, np.int64)
            self._put(cells, np.ones(len(cells), np.int64))
            self._waiting = array("q")

    def _put(self, cells: Cells, counts: Cells) -> None:
        every, places = np.unique(np.concatenate([self._cells, cells]), return_inverse=True)
        totals = np.zeros(len(every), np.int64)
        np.add.at(totals, places, np.concatenate([self._counts, counts]))
        self._cells, self._counts = every, totals
        if len(every) > limits.BREAKDOWN_CELLS and self._joined < _BITS:
            self._join(self._joined + 1)

    def _join(self, joined: int) -> None:
        if joined > self._joined:
            cells, counts = self._cells, self._counts
            bins = (cells & (1 << _BIN_BITS) - 1) >> joined - self._joined
            self._cells, self._counts, self._joined = cells[:0], counts[:0], joined
            self._put(cells >> _BIN_BITS << _BIN_BITS | bins, counts)


def _bin(ns: int) -> int:
    """Return the bin of a duration before joining, as `add` does."""
    if ns < 1 << _BITS:
        return max(0, ns)
    ns = min(ns, _LONGEST)
    shift = ns.bit_length() - _BITS
    return (shift << _BITS - 1) + (ns >> shift)


def _least(bin_: int) -> int:
    """Return the least duration of a bin before joining."""
    shift = max(0, (bin_ >> _BITS - 1) - 1)
    return (bin_ - (shift << _BITS - 1)) << shift
