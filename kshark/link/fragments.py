"""IP packets that come in fragments, put together again.

Sources: RFC 791, section 3.2; RFC 8200, section 4.5; RFC 5722 (fragments that overlap); RFC 4963 (identifications that
come again)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from kshark import limits
from kshark.link.packet import Datagram, Fragment

#: Longer than an IP packet can be.
_TOO_LONG = 1 << 16


class Lost(NamedTuple):
    """A packet that is given up: how many fragments of it there were, their bytes, the last one's number and time, and
    why."""

    fragments: int
    size: int
    number: int
    time_ns: int
    why: str


class Whole(NamedTuple):
    """A packet put together: what was captured of its payload's `size` bytes, up to the first that was not."""

    datagram: Datagram
    payload: bytes
    size: int


class _Pieces:
    """By place in the packet, a piece's size and what was captured of it; `end` is known from the last piece.

    `copies` counts exactly the same pieces again, `number` and `time_ns` are of the last fragment that came.
    """

    __slots__ = ("copies", "end", "held", "number", "since_ns", "size", "time_ns")

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.number = self.time_ns = self.size = self.copies = 0
        self.held: dict[int, tuple[int, bytes]] = {}
        self.end: int | None = None

    def lost(self, why: str) -> Lost:
        return Lost(len(self.held) + self.copies, self.size, self.number, self.time_ns, why)


class Fragments:
    """Holds pieces until their packet is whole, for a time and up to a number and size; those waiting longest are given
    up first.

    What of a whole packet comes again is a copy of its packets, as where a capture has everything twice: it is left
    out."""

    def __init__(self) -> None:
        self._waiting: dict[Datagram, _Pieces] = {}
        self._bytes = self._count = 0
        #: By packet that was whole, its pieces: place, size, CRC.
        self._whole: dict[Datagram, set[tuple[int, int, int]]] = {}
        self._known = 0

    def add(
        self, piece: Fragment, data: bytes, number: int, time_ns: int, clock_ns: int
    ) -> tuple[Whole | None, list[Lost]]:
        """The packet, if this completes it, and those given up; `data` is what was captured, `clock_ns` the latest time
        so far."""
        lost = [*self._old(clock_ns)]
        if (piece.at, piece.size, crc32(data)) in self._whole.get(piece.datagram, ()):
            return None, lost
        pieces = self._waiting.get(piece.datagram)
        if pieces is not None and pieces.held.get(piece.at, (piece.size, data)) != (piece.size, data):
            lost.append(self._taken(piece.datagram).lost("another packet took its identification"))
            pieces = None
        if pieces is None:
            pieces = self._waiting[piece.datagram] = _Pieces(clock_ns)
        pieces.number, pieces.time_ns = number, time_ns
        if piece.at in pieces.held:
            pieces.copies += 1
        else:
            pieces.held[piece.at] = piece.size, data
            pieces.size += piece.size
            self._bytes += len(data)
        self._count += 1
        if not piece.more:
            pieces.end = piece.at + piece.size
        whole = None
        if pieces.size >= (_TOO_LONG if pieces.end is None else pieces.end):
            whole = _joined(piece.datagram, self._taken(piece.datagram))
            if whole is None:
                lost.append(pieces.lost("they overlap"))
            else:
                self._remember(piece.datagram, pieces)
        return whole, [*lost, *self._beyond()]

    def close(self) -> Iterator[Lost]:
        """The capture ends; what waits is given up."""
        while self._waiting:
            yield self._taken(next(iter(self._waiting))).lost("the rest did not come")

    def _old(self, clock_ns: int) -> Iterator[Lost]:
        while self._waiting:
            datagram, pieces = next(iter(self._waiting.items()))
            if clock_ns - pieces.since_ns <= limits.FRAGMENT_NS:
                return
            yield self._taken(datagram).lost("the rest did not come")

    def _beyond(self) -> Iterator[Lost]:
        while self._bytes > limits.FRAGMENT_BYTES or self._count > limits.FRAGMENTS:
            yield self._taken(next(iter(self._waiting))).lost("too many wait at once")

    def _remember(self, datagram: Datagram, pieces: _Pieces) -> None:
        self._known -= len(self._whole.pop(datagram, ()))
        self._whole[datagram] = {(at, size, crc32(data)) for at, (size, data) in pieces.held.items()}
        self._known += len(pieces.held)
        while self._known > limits.FRAGMENTS:
            self._known -= len(self._whole.pop(next(iter(self._whole))))

    def _taken(self, datagram: Datagram) -> _Pieces:
        pieces = self._waiting.pop(datagram)
        self._bytes -= sum(len(data) for _, data in pieces.held.values())
        self._count -= len(pieces.held) + pieces.copies
        return pieces


def _joined(datagram: Datagram, pieces: _Pieces) -> Whole | None:
    """None if they overlap, or say that the packet is longer than one can be."""
    parts: list[bytes] = []
    due, cut = 0, False
    for at, (size, data) in sorted(pieces.held.items()):
        if at != due:
            return None
        due += size
        if not cut:
            parts.append(data)
        cut = cut or len(data) < size
    return Whole(datagram, b"".join(parts), due) if due == pieces.end else None
