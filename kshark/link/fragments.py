"""Reassemble fragmented IP packets.

Sources: RFC 791, section 3.2; RFC 8200, section 4.5; RFC 5722 (overlapping fragments); RFC 4963 (repeated
identifications).
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from msgspec import Struct

from kshark import limits
from kshark.link.packet import Datagram, Fragment

#: More than the greatest length of an IP packet.
_TOO_LONG = 1 << 16


class Lost(Struct, frozen=True):
    """A packet that is given up: its number of fragments, their bytes, the last one's packet number and time, and the
    reason.
    """

    fragments: int
    size: int
    number: int
    time_ns: int
    why: str


class Whole(Struct, frozen=True):
    """A reassembled packet: the captured part of its payload's `size` bytes, up to the first byte not captured."""

    datagram: Datagram
    payload: bytes
    size: int


class _Pieces:
    """By position in the packet, a piece's size and its captured bytes; `end` is known from the last piece.

    `copies` counts exact repetitions of pieces; `number` and `time_ns` belong to the last fragment received.
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
    """Holds pieces until their packet is whole, for a limited time, number and size; the oldest are given up first.

    A piece of a whole packet that comes again is a copy, as in a capture that has everything twice: it is left out.
    """

    def __init__(self) -> None:
        self._waiting: dict[Datagram, _Pieces] = {}
        self._bytes = self._count = 0
        #: Pieces of each packet that was whole: position, size, CRC.
        self._whole: dict[Datagram, set[tuple[int, int, int]]] = {}
        self._whole_pieces = 0

    def add(
        self, piece: Fragment, data: bytes, number: int, time_ns: int, clock_ns: int
    ) -> tuple[Whole | None, list[Lost]]:
        """Add a piece; return the packet if this completes it, and the packets given up.

        `data` is the captured part, `clock_ns` the latest time so far.
        """
        lost = [*self._old(clock_ns)]
        if (piece.at, piece.size, crc32(data)) in self._whole.get(piece.datagram, ()):
            return None, lost
        pieces = self._waiting.get(piece.datagram)
        if pieces is not None and pieces.held.get(piece.at, (piece.size, data)) != (piece.size, data):
            lost.append(self._pop(piece.datagram).lost("another packet took its identification"))
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
            whole = _joined(piece.datagram, self._pop(piece.datagram))
            if whole is None:
                lost.append(pieces.lost("they overlap"))
            else:
                self._remember(piece.datagram, pieces)
        return whole, [*lost, *self._beyond()]

    def close(self) -> Iterator[Lost]:
        """End the capture: give up the waiting packets."""
        while self._waiting:
            yield self._pop(next(iter(self._waiting))).lost("the rest did not come")

    def _old(self, clock_ns: int) -> Iterator[Lost]:
        while self._waiting:
            datagram, pieces = next(iter(self._waiting.items()))
            if clock_ns - pieces.since_ns <= limits.FRAGMENT_NS:
                return
            yield self._pop(datagram).lost("the rest did not come")

    def _beyond(self) -> Iterator[Lost]:
        while self._bytes > limits.FRAGMENT_BYTES or self._count > limits.FRAGMENTS:
            yield self._pop(next(iter(self._waiting))).lost("too many wait at once")

    def _remember(self, datagram: Datagram, pieces: _Pieces) -> None:
        self._whole_pieces -= len(self._whole.pop(datagram, ()))
        self._whole[datagram] = {(at, size, crc32(data)) for at, (size, data) in pieces.held.items()}
        self._whole_pieces += len(pieces.held)
        while self._whole_pieces > limits.FRAGMENTS:
            self._whole_pieces -= len(self._whole.pop(next(iter(self._whole))))

    def _pop(self, datagram: Datagram) -> _Pieces:
        pieces = self._waiting.pop(datagram)
        self._bytes -= sum(len(data) for _, data in pieces.held.values())
        self._count -= len(pieces.held) + pieces.copies
        return pieces


def _joined(datagram: Datagram, pieces: _Pieces) -> Whole | None:
    """Return the whole packet; None if pieces overlap, or announce an impossible length."""
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
