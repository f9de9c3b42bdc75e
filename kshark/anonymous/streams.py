"""The byte streams of a connection: parts of them are replaced by others of another length, and positions follow."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_HALF: Final = 1 << 31
_WHOLE: Final = 1 << 32
#: A length prefix, an api key and a version.
_KEPT: Final = 8
_PREFIX: Final = 4
#: Records of TLS (RFC 8446, section 5.1): change of cipher, alert, handshake, data; and the bytes of an alert.
_TLS_TYPES: Final = (0x14, 0x15, 0x16, 0x17)
_TLS_ALERT: Final = 0x15
_TLS_MAJOR: Final = 3
_TLS_HEADER: Final = 5
_TLS_ALERT_BYTES: Final = 2


class Stream:
    """The bytes of one side of a connection, by their position after its first sequence number.

    `add` takes captured bytes; the first ones at a position count. `replace` exchanges a part; parts come in order.
    `close` makes the new stream: replaced parts, and zero bytes for
    nearly everything else. Then `position` and `bytes` answer
    for the new one.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self._data = bytearray()
        self._captured = bytearray()
        self._parts: list[tuple[int, int, bytes]] = []
        self._found = 0
        self._begins: list[int] = []
        self._moved: list[int] = []
        self._new = b""
        self._kept = _KEPT

    def offset(self, sequence: int) -> int:
        """Return the position of a sequence number; a little before the first one it is negative."""
        first = sequence if self.first is None else self.first
        return (sequence - first + _HALF) % _WHOLE - _HALF

    def add(self, sequence: int, payload: bytes, *, is_opening: bool = False) -> None:
        """Add captured bytes. `is_opening`: a SYN, which takes a number itself."""
        if self.first is None:
            self.first = (sequence + is_opening) % _WHOLE
        at = self.offset(sequence + is_opening)
        payload, at = payload[max(0, -at) :], max(0, at)
        end = at + len(payload)
        if not payload:
            return
        if end > len(self._data):
            self._data.extend(bytes(end - len(self._data)))
            self._captured.extend(bytes(end - len(self._captured)))
        known = self._captured[at:end]
        if any(known):
            payload = bytes(
                old if is_known else new for old, new, is_known in zip(self._data[at:end], payload, known, strict=True)
            )
        self._data[at:end] = payload
        self._captured[at:end] = b"\1" * len(payload)

    def keeps_little(self) -> None:
        """Keep only length prefixes of bytes between messages: the rest may be credentials."""
        self._kept = _PREFIX

    def replace(self, part: bytes, new: bytes) -> bool:
        """Replace the next occurrence of a part. Return False if there is none."""
        at = self._data.find(part, self._found)
        if at < 0:
            return False
        self._parts.append((at, at + len(part), new))
        self._found = at + len(part)
        return True

    def close(self) -> None:
        """Make the new stream."""
        pieces: list[bytes] = []
        at = length = 0
        for begin, end, new in self._parts:
            pieces += (self._unread(at, begin), new)
            length += begin - at
            self._begins.append(begin)
            self._moved.append(length - begin)
            length += len(new)
            at = end
        pieces.append(self._unread(at, len(self._data)))
        self._new = b"".join(pieces)

    def _unread(self, begin: int, end: int) -> bytes:
        """Return the bytes between messages: the first ones stay, which show a length and an API, or a protocol."""
        if self._is_tls(begin, end):
            return self._tls_records(begin, end)
        kept = min(end - begin, self._kept)
        return bytes(self._data[begin : begin + kept]) + bytes(end - begin - kept)

    def _is_tls(self, at: int, end: int) -> bool:
        return end - at >= _TLS_HEADER and self._data[at] in _TLS_TYPES and self._data[at + 1] == _TLS_MAJOR

    def _tls_records(self, begin: int, end: int) -> bytes:
        """Return records of TLS: their headers, alerts, and the types of handshake messages, without other contents."""
        out = bytearray(end - begin)
        at = begin
        while self._is_tls(at, end):
            size = int.from_bytes(self._data[at + 3 : at + _TLS_HEADER], "big")
            kept = _TLS_HEADER + (min(size, _TLS_ALERT_BYTES) if self._data[at] == _TLS_ALERT else min(size, 1))
            out[at - begin : at - begin + kept] = self._data[at : min(end, at + kept)]
            at += _TLS_HEADER + size
        return bytes(out[: end - begin])

    def position(self, offset: int) -> int:
        """Return the position in the new stream. Of a replaced part the first byte and the last one are where they were
        in relation to packets: only its last byte comes after a packet's end inside of it.
        """
        at = bisect_right(self._begins, offset) - 1
        if at < 0:
            return offset
        begin, end, new = self._parts[at]
        if offset >= end:
            return offset + self._moved[at] + len(new) - (end - begin)
        return begin + self._moved[at] + min(offset - begin, len(new) - 1)

    def bytes(self, begin: int, end: int) -> bytes:
        """Return the bytes between two positions of the new stream; those outside of it are zero."""
        inside = self._new[max(0, begin) : max(0, end)]
        before = bytes(min(0, end) - begin) if begin < 0 else b""
        return before + inside + bytes(end - begin - len(before) - len(inside))
