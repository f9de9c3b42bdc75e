"""Captures of Solaris snoop, turned into a pcap file while they are read. Source: RFC 1761."""

from __future__ import annotations

import struct
from typing import Final

from kshark.capture.compressed import Input
from kshark.limits import PACKET_BYTES

#: Identification and version.
SNOOP: Final = b"snoop\0\0\0\0\0\0\2"
#: Link types (RFC 1761 and Oracle's DLPI numbers) and those of pcap; further ones have no pcap counterpart here.
_LINK_TYPES: Final = {0: 1, 2: 6, 4: 1, 8: 10, 26: 242}
#: A link type that no packet reader knows (LINKTYPE_USER15), so that packets are reported as unread.
_UNKNOWN: Final = 162
_FILE_HEADER: Final = struct.Struct(">8sII")
#: Original length, included length, record length, dropped packets, seconds, microseconds.
_RECORD: Final = struct.Struct(">6I")
_READ: Final = 1 << 16


class Snoop:
    """An input with the bytes of a pcap file, from one that holds a snoop capture, whose first bytes are `head`."""

    def __init__(self, source: Input, head: bytes) -> None:
        self.fault: tuple[str, str] | None = None
        self._source = source
        self._bytes = head
        self._begun = False
        self._packets = 0
        #: Bytes of the file before `_bytes`.
        self._before = 0

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    def read(self, size: int) -> bytes:
        """Return whole records, at least one; nothing at the end."""
        while True:
            data = self._taken()
            if data or self.fault is not None:
                return data
            more = self._source.read(max(size, _READ))
            if not more:
                return self._rest()
            self._bytes += more

    def is_idle(self, wait_ms: int) -> bool:
        return self._source.is_idle(wait_ms)

    def close(self) -> None:
        self._source.close()

    def _taken(self) -> bytes:
        """Return the whole records that are here, as pcap."""
        data, at, pieces = self._bytes, 0, []
        if not self._begun:
            if len(data) < _FILE_HEADER.size:
                return b""
            _, _, kind = _FILE_HEADER.unpack_from(data)
            pieces.append(
                struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, PACKET_BYTES, _LINK_TYPES.get(kind, _UNKNOWN))
            )
            at, self._begun = _FILE_HEADER.size, True
        while at + _RECORD.size <= len(data):
            sent, captured, record, _, seconds, micros = _RECORD.unpack_from(data, at)
            if not captured + _RECORD.size <= record <= PACKET_BYTES:
                where = f"packet {self._packets + 1}, at byte {self._before + at}"
                self.fault = "PACKET_LENGTH_INVALID", f"{where}, claims {captured} bytes in {record}; reading stops"
                break
            if at + record > len(data):
                break
            begin = at + _RECORD.size
            pieces += (struct.pack("<IIII", seconds, micros, captured, sent), data[begin : begin + captured])
            at += record
            self._packets += 1
        self._bytes = data[at:]
        self._before += at
        return b"".join(pieces)

    def _rest(self) -> bytes:
        self.fault = self._source.fault
        if self._bytes and self.fault is None:
            self.fault = (
                "CAPTURE_CUT",
                f"the file ends {len(self._bytes)} bytes into the record of packet {self._packets + 1}",
            )
        return b""
