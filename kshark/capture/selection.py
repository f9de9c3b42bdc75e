"""Packets chosen by connection and packet number, for copies of a part of a capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.model import ACK, SYN, Ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s, PacketBatch, Segments

_LAST: Final = (1 << 62) - 1


class Selection:
    """Stretches of connections: the packets between two ends from one packet number to another, both included.

    A connection is named by its ends, so that it is found again when the capture is read again. Fragmented IP packets
    within the selection are taken, whatever connection they belong to. `handshakes`: the opening of each
    chosen connection is taken, too. `begin` comes before the packets.
    """

    def __init__(self, *, handshakes: bool = False) -> None:
        self._stretches: dict[Ends, list[tuple[int, int]]] = {}
        self._handshakes = handshakes
        self._joined: dict[Ends, tuple[Int64s, Int64s]] = {}
        #: By pair of ends, as the link numbers it: its stretches, None if it has none.
        self._of_pair: dict[int, tuple[Int64s, Int64s] | None] = {}
        #: Pairs whose opening awaits its last packet.
        self._opening: set[int] = set()
        self.first, self.last = _LAST, 0

    def __len__(self) -> int:
        return len(self._stretches)

    @property
    def stretches(self) -> Iterator[tuple[Ends, int, int]]:
        """Yield the stretches with the ends of their connections, as `add` takes them."""
        return ((ends, *stretch) for ends, listed in self._stretches.items() for stretch in listed)

    def begin(self) -> None:
        """Begin to read the capture: connections have other numbers in each reading."""
        self._joined.clear()
        self._of_pair.clear()
        self._opening.clear()

    def add(self, ends: Ends, first: int, last: int) -> None:
        """Add the packets of a connection from `first` to `last`."""
        self._stretches.setdefault(min(ends, _turned(ends)), []).append((first, last))
        self.first, self.last = min(self.first, first), max(self.last, last)

    def rows(self, batch: PacketBatch, segments: Segments | None, fragments: Iterable[int]) -> NDArray[np.bool_]:
        """Return which rows of a batch are chosen. Batches come in the order of the capture.

        `segments` are those of the batch, `fragments` the numbers of its packets that are parts of others.
        """
        chosen = np.zeros(len(batch.number), bool)
        if segments is not None:
            packets = segments.packet[self._of_segments(segments)]
            chosen[np.searchsorted(batch.number, packets)] = True
        for number in fragments:
            if self.first <= number <= self.last:
                chosen[int(np.searchsorted(batch.number, number))] = True
        return chosen

    def _of_segments(self, segments: Segments) -> NDArray[np.bool_]:
        pairs, at = np.unique(segments.path >> 1, return_inverse=True)
        chosen = np.zeros(len(segments.path), bool)
        for index, pair in enumerate(pairs.tolist()):
            stretches = self._stretches_of(pair, segments)
            if stretches is None:
                continue
            rows = np.flatnonzero(at == index)
            packets = segments.packet[rows]
            before = np.searchsorted(stretches[0], packets, "right") - 1
            chosen[rows] = (before >= 0) & (packets <= stretches[1][before])
            if self._handshakes:
                self._open(pair, rows, segments, chosen)
        return chosen

    def _open(self, pair: int, rows: Int64s, segments: Segments, chosen: NDArray[np.bool_]) -> None:
        """Choose the packets that open a connection: those with SYN, and the first one after the answer to it."""
        for row, flags in zip(rows.tolist(), segments.flags[rows].tolist(), strict=True):
            if flags & SYN:
                chosen[row] = True
                if flags & ACK:
                    self._opening.add(pair)
            elif pair in self._opening:
                chosen[row] = True
                self._opening.discard(pair)

    def _stretches_of(self, pair: int, segments: Segments) -> tuple[Int64s, Int64s] | None:
        if pair not in self._of_pair:
            ends = segments.ends[pair]
            ends = min(ends, _turned(ends))
            found = self._stretches.get(ends)
            self._of_pair[pair] = None if found is None else self._joined.setdefault(ends, _joined(found))
        return self._of_pair[pair]


def _turned(ends: Ends) -> Ends:
    return Ends(ends.second, ends.first)


def _joined(stretches: list[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    """Return the beginnings and ends of stretches that do not overlap, in order."""
    begins: list[int] = []
    ends: list[int] = []
    for first, last in sorted(stretches):
        if ends and first <= ends[-1] + 1:
            ends[-1] = max(ends[-1], last)
        else:
            begins.append(first)
            ends.append(last)
    return np.array(begins, np.int64), np.array(ends, np.int64)
