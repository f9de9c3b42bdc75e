"""The fast path of reassembly: which segments of a batch are plainly in order, found for all connections with array
operations.

Between a connection's handshake and its first FIN or RST, a direction needs no look at single segments as long as each
begins where the one before it ended: no hole, no retransmission, nothing cut. Where that holds for both directions,
each is moved on in one step. The segments before and after, and all segments of the other connections, are read one by
one."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from kshark.model import ACK, FIN, RST, SYN, Segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

_MASK: Final = 0xFFFFFFFF
_HALF: Final = 1 << 31
#: Segments of a connection between handshake and end below which the fast path does not pay: a direction costs as much
#: as five segments.
_WORTH_IT: Final = 8


class Stretches(Struct):
    """What the fast path takes, as columns with one value a direction; both directions of a connection follow each
    other.

    `seq` is the first sequence number of the stretch, `due` the one that follows its last byte; `size` counts payload
    bytes. The segments with payload are rows `first` to `behind` (exclusive) of the last four columns: `start` and
    `stop` in the batch's buffer, packet, time."""

    path: list[int]
    seq: list[int]
    due: list[int]
    ack: list[int]
    last_packet: list[int]
    last_time_ns: list[int]
    size: list[int]
    first: list[int]
    behind: list[int]
    start: list[int]
    stop: list[int]
    packet: list[int]
    time_ns: list[int]


class FastPath:
    """Splits one batch: first the rows `before`, read one by one; then `stretches`, taken at once; then the rows
    `after`, one by one."""

    def __init__(self, segments: Segments, known: Container[int]) -> None:
        """`known`: pairs of ends that have a connection already. Of a new one each direction's first segment is read by
        itself."""
        self._segments = segments
        count = len(segments.path)
        self._order = order = np.argsort(segments.path, kind="stable")
        path = segments.path[order]
        self._begin = begin = np.concatenate(([0], np.flatnonzero(path[1:] != path[:-1]) + 1))
        self._end = end = np.append(begin[1:], count)
        self._path = path = path[begin]
        pairs = path >> 1
        self._pair_begin = np.concatenate(([0], np.flatnonzero(pairs[1:] != pairs[:-1]) + 1))
        self._directions = np.diff(np.append(self._pair_begin, len(pairs)))
        self._columns()
        lower, upper = self._bounds(pairs[self._pair_begin], known)
        place = np.repeat(path, end - begin) * (count + 2) + order
        self._first = np.searchsorted(place, path * (count + 2) + lower, "right")
        self._behind = np.maximum(np.searchsorted(place, path * (count + 2) + upper, "left"), self._first)
        self._fast = self._eligible()
        self.before = self._rows(begin, np.where(self._fast, self._first, end))

    def after(self, failed: Collection[int]) -> Int64s:
        """The rows left, in the order of the capture; of the pairs `failed` their stretches too, which turned out not
        to be in order."""
        begin = np.where(self._fast, self._behind, self._end)
        if failed:
            begin = np.where(self._fast & np.isin(self._path >> 1, list(failed)), self._first, begin)
        return self._rows(begin, self._end)

    def _rows(self, begin: Int64s, end: Int64s) -> Int64s:
        """Rows of the places `begin` to `end` of every direction, in the order of the capture."""
        size = end - begin
        if not size.any():
            return np.empty(0, np.int64)
        places = np.arange(int(size.sum())) + np.repeat(begin - (np.cumsum(size) - size), size)
        return np.sort(self._order[places])

    def _columns(self) -> None:
        segments, order, begin = self._segments, self._order, self._begin
        flags = segments.flags[order]
        self._syn, self._over = (flags & SYN) != 0, (flags & (FIN | RST)) != 0
        self._seq, self._ack, self._length = seq, ack, length = (
            segments.seq[order],
            segments.ack[order],
            segments.length[order],
        )
        self._due = due = (seq + length) & _MASK
        self._odd = ((flags & (SYN | FIN | RST | ACK)) != ACK) | (segments.missing[order] != 0)
        leap = np.zeros(len(order), bool)
        leap[1:] = (seq[1:] != due[:-1]) | ((ack[1:] - ack[:-1]) & _MASK >= _HALF)
        leap[begin] = False
        #: By place, how many segments before it do not begin where the one before them ended.
        self._breaks = np.concatenate(([0], np.cumsum(self._odd | leap)))

    def _bounds(self, pairs: Int64s, known: Container[int]) -> tuple[Int64s, Int64s]:
        """By direction, the last row of its connection's handshake and the first of its end."""
        order, begin, count = self._order, self._begin, len(self._order)
        lower, upper = np.full(len(pairs), -1), np.full(len(pairs), count)
        if self._syn.any():
            lower = np.maximum.reduceat(np.maximum.reduceat(np.where(self._syn, order, -1), begin), self._pair_begin)
        if self._over.any():
            upper = np.minimum.reduceat(
                np.minimum.reduceat(np.where(self._over, order, count), begin), self._pair_begin
            )
        new = np.array([pair not in known for pair in pairs.tolist()])
        if new.any():
            both_seen = np.where(self._directions == 2, np.maximum.reduceat(order[begin], self._pair_begin), count)
            lower = np.where(new, np.maximum(lower, both_seen), lower)
        return np.repeat(lower, self._directions), np.repeat(upper, self._directions)

    def _eligible(self) -> NDArray[np.bool_]:
        """By direction, whether its connection takes the fast path: a direction without segments between the bounds
        hinders nothing."""
        first, behind, pair_begin = self._first, self._behind, self._pair_begin
        empty = first == behind
        odd = self._odd[np.minimum(first, len(self._odd) - 1)]
        plain = empty | (~odd & (self._breaks[behind] == self._breaks[np.minimum(first + 1, behind)]))
        early = np.concatenate(([0], np.cumsum(self._early())))
        plain &= early[behind] == early[first]
        whole = (first == self._begin) & (behind == self._end)
        worth = np.logical_and.reduceat(whole, pair_begin) | (np.add.reduceat(behind - first, pair_begin) >= _WORTH_IT)
        return np.repeat(worth & np.logical_and.reduceat(plain, pair_begin), self._directions)

    def _early(self) -> NDArray[np.bool_]:
        """By place, whether a segment acknowledges what the other side sends with a later one of its stretch."""
        order, size, path = self._order, self._end - self._begin, self._path
        other = np.minimum(np.searchsorted(path, path ^ 1), len(path) - 1)
        sends = (path[other] == path ^ 1) & (self._first[other] < self._behind[other])
        first = np.repeat(self._first[other], size)
        place = np.repeat(path, size) * (len(order) + 2) + order
        before = np.searchsorted(place, np.repeat(path ^ 1, size) * (len(order) + 2) + order) - 1
        due = np.where(before < first, self._seq[np.minimum(first, len(order) - 1)], self._due[before])
        early: NDArray[np.bool_] = np.repeat(sends, size) & (((self._ack - due - 1) & _MASK) < _HALF - 1)
        return early

    def stretches(self) -> Stretches | None:
        """What is taken at once; None where nothing is."""
        segments, order = self._segments, self._order
        chosen = np.flatnonzero(self._fast & (self._first < self._behind))
        if not len(chosen):
            return None
        first, behind = self._first[chosen], self._behind[chosen]
        last = order[behind - 1]
        sizes = np.concatenate(([0], np.cumsum(self._length)))
        loaded = np.flatnonzero(self._length)
        rows = order[loaded]
        start = segments.offset[rows]
        return Stretches(
            path=self._path[chosen].tolist(),
            seq=self._seq[first].tolist(),
            due=self._due[behind - 1].tolist(),
            ack=self._ack[behind - 1].tolist(),
            last_packet=segments.packet[last].tolist(),
            last_time_ns=segments.time_ns[last].tolist(),
            size=(sizes[behind] - sizes[first]).tolist(),
            first=np.searchsorted(loaded, first).tolist(),
            behind=np.searchsorted(loaded, behind).tolist(),
            start=start.tolist(),
            stop=(start + segments.length[rows]).tolist(),
            packet=segments.packet[rows].tolist(),
            time_ns=segments.time_ns[rows].tolist(),
        )
