"""The fast path of reassembly: find the segments of a batch that are plainly in order, by array operations.

Between the handshake and the first FIN or RST, single segments of a direction need no check if each begins where the
one before it ended: no hole, no retransmission, no cut. If that is true for both directions, each is advanced in one
step. The segments before and after, and all segments of the other connections, are read one by one.
"""

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
#: The least number of segments of a connection between handshake and end: a direction costs as much as five segments.
_WORTH_IT: Final = 8


class Stretches(Struct):
    """The segments that the fast path takes, as columns with one value a direction; both directions of a connection are
    adjacent.

    `seq` is the first sequence number of the stretch, `due` the one after its last byte; `size` counts payload bytes.
    The segments with payload are rows `first` to `end` (exclusive) of the last columns: `start` and `stop` in the
    batch's buffer, packet, time, `knows` as in Run, the acknowledgement, and the entry of Direction.unacked. The
    senders of the first `older` rows know of no packet of this batch. `heard` is the row of the other direction up to
    which the direction acknowledges, -1 if none of this batch. Rows from `unacked` on are not acknowledged in it.
    """

    path: list[int]
    seq: list[int]
    due: list[int]
    ack: list[int]
    last_packet: list[int]
    last_time_ns: list[int]
    size: list[int]
    first: list[int]
    end: list[int]
    older: list[int]
    heard: list[int]
    unacked: list[int]
    start: list[int]
    stop: list[int]
    packet: list[int]
    time_ns: list[int]
    knows: list[int]
    acks: Int64s
    entries: Int64s


class FastPath:
    """Splits one batch: the rows `before`, read one by one; then `stretches`, applied at once; then `after`, one by
    one.
    """

    def __init__(self, segments: Segments, known: Container[int]) -> None:
        """Sort the batch by direction.

        `known`: pairs of ends that have a connection. Of a new pair the first segment of each direction is read by
        itself.
        """
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
        sort_key = np.repeat(path, end - begin) * (count + 2) + order
        self._first = np.searchsorted(sort_key, path * (count + 2) + lower, "right")
        self._stop = np.maximum(np.searchsorted(sort_key, path * (count + 2) + upper, "left"), self._first)
        self._fast = self._eligible()
        self.before = self._rows(begin, np.where(self._fast, self._first, end))

    def after(self, failed: Collection[int]) -> Int64s:
        """Return the remaining rows in capture order, with the stretches of the pairs `failed`, which were not in
        order.
        """
        begin = np.where(self._fast, self._stop, self._end)
        if failed:
            begin = np.where(self._fast & np.isin(self._path >> 1, list(failed)), self._first, begin)
        return self._rows(begin, self._end)

    def _rows(self, begin: Int64s, end: Int64s) -> Int64s:
        """Return the rows of positions `begin` to `end` of every direction, in capture order."""
        size = end - begin
        if not size.any():
            return np.empty(0, np.int64)
        positions = np.arange(int(size.sum())) + np.repeat(begin - (np.cumsum(size) - size), size)
        return np.sort(self._order[positions])

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
        #: By position, the number of earlier segments that do not begin where the one before them ended.
        self._breaks = np.concatenate(([0], np.cumsum(self._odd | leap)))

    def _bounds(self, pairs: Int64s, known: Container[int]) -> tuple[Int64s, Int64s]:
        """Return by direction the last row of its connection's handshake and the first row of its end."""
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
        """True by direction if its connection takes the fast path; a direction without segments is no obstacle."""
        first, stop, pair_begin = self._first, self._stop, self._pair_begin
        empty = first == stop
        odd = self._odd[np.minimum(first, len(self._odd) - 1)]
        plain = empty | (~odd & (self._breaks[stop] == self._breaks[np.minimum(first + 1, stop)]))
        early = np.concatenate(([0], np.cumsum(self._early())))
        plain &= early[stop] == early[first]
        whole = (first == self._begin) & (stop == self._end)
        worth = np.logical_and.reduceat(whole, pair_begin) | (np.add.reduceat(stop - first, pair_begin) >= _WORTH_IT)
        return np.repeat(worth & np.logical_and.reduceat(plain, pair_begin), self._directions)

    def _early(self) -> NDArray[np.bool_]:
        """True by position if a segment acknowledges bytes that the other side sends later in its stretch."""
        order, size, path = self._order, self._end - self._begin, self._path
        self._other = other = np.minimum(np.searchsorted(path, path ^ 1), len(path) - 1)
        sends = (path[other] == path ^ 1) & (self._first[other] < self._stop[other])
        first = np.repeat(self._first[other], size)
        sort_key = np.repeat(path, size) * (len(order) + 2) + order
        before = np.searchsorted(sort_key, np.repeat(path ^ 1, size) * (len(order) + 2) + order) - 1
        due = np.where(before < first, self._seq[np.minimum(first, len(order) - 1)], self._due[before])
        early: NDArray[np.bool_] = np.repeat(sends, size) & (((self._ack - due - 1) & _MASK) < _HALF - 1)
        return early

    def stretches(self) -> Stretches | None:
        """Return the stretches; None if there are none."""
        segments, order = self._segments, self._order
        chosen = np.flatnonzero(self._fast & (self._first < self._stop))
        if not len(chosen):
            return None
        first, stop = self._first[chosen], self._stop[chosen]
        last = order[stop - 1]
        sizes = np.concatenate(([0], np.cumsum(self._length)))
        loaded = np.flatnonzero(self._length)
        rows = order[loaded]
        start = segments.offset[rows]
        packet = segments.packet[rows]
        begin, end = np.searchsorted(loaded, first), np.searchsorted(loaded, stop)
        covered, heard, unacked = self._acknowledged(loaded, chosen)
        older = np.concatenate(([0], np.cumsum(covered < 0)))
        return Stretches(
            path=self._path[chosen].tolist(),
            seq=self._seq[first].tolist(),
            due=self._due[stop - 1].tolist(),
            ack=self._ack[stop - 1].tolist(),
            last_packet=segments.packet[last].tolist(),
            last_time_ns=segments.time_ns[last].tolist(),
            size=(sizes[stop] - sizes[first]).tolist(),
            first=begin.tolist(),
            end=end.tolist(),
            older=(older[end] - older[begin]).tolist(),
            heard=heard.tolist(),
            unacked=np.maximum(begin, unacked).tolist(),
            start=start.tolist(),
            stop=(start + segments.length[rows]).tolist(),
            packet=packet.tolist(),
            time_ns=segments.time_ns[rows].tolist(),
            knows=packet[covered].tolist() if len(packet) else [],
            acks=self._ack[loaded],
            entries=(packet << 32) + self._due[loaded],
        )

    def _acknowledged(self, loaded: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return for each loaded row the last row of the other direction that it acknowledges, with all its bytes.

        Then the same for each chosen direction as a whole, and its first row that is not acknowledged. -1: none.
        """
        first, other, path = self._first, self._other, self._path
        base = self._seq[np.minimum(first, len(self._seq) - 1)]
        of_loaded = np.searchsorted(self._begin, loaded, "right") - 1
        rows = np.flatnonzero(self._fast[of_loaded] & (first[of_loaded] <= loaded) & (loaded < self._stop[of_loaded]))
        direction = of_loaded[rows]
        ends = (direction << 33) + ((self._due[loaded[rows]] - base[direction]) & _MASK)

        def covered(by: Int64s, ack: Int64s) -> Int64s:
            sender = other[by]
            size = ((ack - base[sender] + _HALF) & _MASK) - _HALF
            at = np.searchsorted(ends, (sender << 33) + np.maximum(size, 0), "right") - 1
            known = (at >= 0) & (path[sender] == path[by] ^ 1)
            known[known] = direction[at[known]] == sender[known]
            return np.where(known, rows[at], -1) if len(rows) else np.full(len(by), -1)

        heard = np.full(len(path), -1)
        heard[chosen] = covered(chosen, self._ack[self._stop[chosen] - 1])
        return (
            covered(of_loaded, self._ack[loaded]),
            heard[chosen],
            np.where(path[other] == path ^ 1, heard[other] + 1, 0)[chosen],
        )
