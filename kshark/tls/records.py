"""Cut the bytes of one side into TLS records: type, version, length, then that many bytes.

After a hole, a record is found again where its protection proves it: every position that looks like a record is tried
with all keys and sequence numbers that may be next, within limits.TLS_TRIES. Source: RFC 8446, section 5.1; RFC 5246,
section 6.2.1.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kshark import limits
from kshark.model import Side
from kshark.tls.protection import Opened, Protection

CHANGE_CIPHER_SPEC: Final = 20
APPLICATION_DATA: Final = 23

HEADER: Final = 5
#: The longest record that TLS 1.2 allows, without its header.
_LONGEST: Final = (1 << 14) + 2048
#: The shortest protected record: a tag of 8 bytes, and one byte.
_SHORTEST: Final = 9
#: Memory of a piece besides its bytes.
_PIECE_BYTES: Final = 150
_HEADER: Final = Struct(">BHH").unpack_from
#: The first bytes of a protected record.
_BEGINNING: Final = re.compile(rb"[\x15-\x17]\x03\x03")


class Record(NamedTuple):
    """One record; the packet and time of its first byte, those at which it was complete, and `knows` (Run) of its first
    byte.
    """

    kind: int
    header: bytes
    body: bytes
    packet: int
    time_ns: int
    ready: int
    ready_ns: int
    knows: int

    @property
    def size(self) -> int:
        return len(self.header) + len(self.body)


class NotTls(Exception):
    """A record with an impossible header."""


class Records:
    """Bytes in, records out. `protection` opens them; None while this side's records are in clear."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self.protection: Protection | None = None
        #: In TLS 1.2: the protection of this side's records after its ChangeCipherSpec.
        self.pending: Protection | None = None
        self.sequence = 0
        #: Records opened so far.
        self.opened = 0
        self.searching = False
        #: The packet before the last hole of this direction.
        self.lost: int | None = None
        #: The packet and time of the last piece.
        self.ready = (0, 0)
        self._data = bytearray()
        self._begin = 0
        #: End of each piece, counted from the side's first byte; its packet and time, and `knows` (Run).
        self._pieces: deque[tuple[int, int, int, int]] = deque()
        #: Bytes still to come of a record that a hole broke.
        self._skip = 0
        self._tries = limits.TLS_TRIES

    def __len__(self) -> int:
        """Bytes held."""
        return len(self._data)

    @property
    def memory(self) -> int:
        """Memory of these bytes and of the facts about their pieces."""
        return len(self._data) + _PIECE_BYTES * len(self._pieces)

    def add(self, data: bytes, packet: int, time_ns: int, ready: int, ready_ns: int, knows: int) -> int:
        """Add a piece; return how many of its bytes are skipped."""
        self.ready = ready, ready_ns
        skipped = min(self._skip, len(data))
        if skipped:
            self._skip -= skipped
            self._begin += skipped
            data = data[skipped:]
        if data:
            self._data += data
            self._pieces.append((self._begin + len(self._data), packet, time_ns, knows))
        return skipped

    def next(self) -> Record | None:
        """Return the next whole record; None if it is incomplete. Raises NotTls."""
        data = self._data
        if len(data) < HEADER:
            return None
        kind, version, length = _HEADER(data)
        if not CHANGE_CIPHER_SPEC <= kind <= APPLICATION_DATA or version >> 8 != 3 or length > _LONGEST:
            raise NotTls
        end = HEADER + length
        if len(data) < end:
            return None
        packet, time_ns, knows = self._first_packet()
        record = Record(kind, bytes(data[:HEADER]), bytes(data[HEADER:end]), packet, time_ns, *self.ready, knows)
        self.drop(end)
        return record

    def open(self, record: Record) -> Opened | None:
        """Return the content of the next protected record.

        If the present key does not open it, the next one may: that shows a change of keys, also one whose announcement
        is missing.
        """
        assert self.protection is not None
        opened = self.protection.open(self.sequence, record.header, record.body)
        if opened is None and (following := self.protection.following()) is not None:
            opened = following.open(0, record.header, record.body)
            if opened is not None:
                self.protect(following)
        if opened is not None:
            self.sequence += 1
            self.opened += 1
            self._tries = min(self._tries + 1, limits.TLS_TRIES)
        return opened

    def protect(self, protection: Protection) -> None:
        """Use this protection from the next record on."""
        self.protection, self.sequence, self.pending = protection, 0, None

    def lose(self, size: int) -> int:
        """Handle a hole of `size` bytes (-1: unknown) after the held bytes; return how many held bytes are in no whole
        record.

        If the hole lies inside one record, the next one begins after that record: its position and number are known.
        """
        dropped = len(self._data)
        if self._skip:
            left = self._skip
        elif not self.searching and dropped >= HEADER:
            left = HEADER + _HEADER(self._data)[2] - dropped
            self.sequence += self.protection is not None
        else:
            left = -1
        self.drop(dropped)
        if 0 < size <= left and not self.searching:
            self._skip = left - size
        else:
            self._skip = 0
            self.searching = True
        self._begin += max(size, 0)
        return dropped

    def find(self) -> tuple[bool, int]:
        """Search the next record that opens; return whether it was found, and how many bytes before it were dropped.

        Raises NotTls after too many attempts.
        """
        dropped = 0
        while True:
            header = _BEGINNING.search(self._data)
            start = header.start() if header else max(0, len(self._data) - 2)
            self.drop(start)
            dropped += start
            if header is None or len(self._data) < HEADER:
                return False, dropped
            end = HEADER + _HEADER(self._data)[2]
            if HEADER + _SHORTEST <= end <= HEADER + _LONGEST:
                if len(self._data) < end:
                    return False, dropped
                if self._proves(bytes(self._data[:HEADER]), bytes(self._data[HEADER:end])):
                    self.searching = False
                    return True, dropped
            self.drop(1)
            dropped += 1

    def _proves(self, header: bytes, body: bytes) -> bool:
        """True if that is a record that may be next; then it becomes the next one."""
        for protection, first, count in self._due():
            for sequence in range(first, first + count):
                self._tries -= 1
                if self._tries < 0:
                    raise NotTls
                if protection.open(sequence, header, body) is not None:
                    self.protect(protection)
                    self.sequence = sequence
                    return True
        return False

    def _due(self) -> Iterator[tuple[Protection, int, int]]:
        """Yield the possible protections of the next record, with the first possible sequence number and the count of
        numbers.
        """
        if self.pending is not None:
            yield self.pending, 0, limits.TLS_FIRST_RECORDS
        if self.protection is not None:
            following = self.protection.following()
            if following is not None:
                yield following, 0, limits.TLS_FIRST_RECORDS
            yield self.protection, self.sequence, limits.TLS_LOST_RECORDS

    def drop(self, count: int) -> None:
        """Drop the first `count` bytes."""
        del self._data[:count]
        self._begin += count
        while self._pieces and self._pieces[0][0] <= self._begin:
            self._pieces.popleft()

    def _first_packet(self) -> tuple[int, int, int]:
        """Return packet and time of the first byte held, and `knows` (Run)."""
        return self._pieces[0][1:]
