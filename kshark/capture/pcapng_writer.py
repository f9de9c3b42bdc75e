"""Write pcapng files: packets in, the bytes of blocks out.

Source: IETF draft-ietf-opsawg-pcapng, section 4. A file is one section, little-endian, with times in nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kshark.capture.blocks import ENHANCED_PACKET
from kshark.capture.formats import MAGIC
from kshark.capture.interfaces import IF_TSRESOL, ISB_IFDROP
from kshark.capture.origins import COMMENT, Option, Origins
from kshark.capture.pcapng import (
    DECRYPTION_SECRETS,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    TLS_KEY_LOG,
)
from kshark.model import PacketBatch

_BYTE_ORDER: Final = 0x1A2B3C4D
_APPLICATION: Final = 4
_NANOSECONDS: Final = (IF_TSRESOL, b"\x09")
#: Bytes of a comment: more do not fit into an option.
COMMENT_BYTES: Final = 60_000
#: Block type, block length, interface, time (high, low), captured and original length.
_PACKET: Final = struct.Struct("<IIIIIII")
_LOW: Final = (1 << 32) - 1


class PcapngWriter:
    """The blocks of one pcapng file, in order; `origins` are those of the packets. Each method returns bytes."""

    def __init__(self, origins: Origins, application: str = "kshark") -> None:
        self._origins = origins
        self._application = application
        #: The interfaces of the file, by their number in the origins.
        self._interfaces: dict[int, int] = {}
        self._last_ns = 0

    def begin(self) -> bytes:
        """Return the section header, with the comments of the sections known so far."""
        once = {code: (code, value) for code, value in self._origins.section if code not in (COMMENT, _APPLICATION)}
        comments = [option for option in self._origins.section if option[0] == COMMENT]
        listed = [*comments, *once.values(), (_APPLICATION, self._application.encode())]
        (kind,) = struct.unpack("<I", MAGIC)
        return _block(kind, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + _options(listed))

    def secrets(self, key_log: bytes) -> bytes:
        """Return the secrets of the packets after them, from lines of a TLS key log."""
        return _block(DECRYPTION_SECRETS, struct.pack("<II", TLS_KEY_LOG, len(key_log)) + _padded(key_log))

    def packets(
        self,
        batch: PacketBatch,
        rows: Iterable[int],
        origins: Sequence[tuple[int, tuple[Option, ...]]],
        comments: Mapping[int, Sequence[str]],
    ) -> bytes:
        """Return packets of a batch, and first the interfaces that are new.

        `origins` are those of all rows (Origins.take), `comments` new comments by packet number. A time before 1970
        becomes 1970.
        """
        pieces: list[bytes] = []
        buffer = batch.buffer
        columns = (batch.number, batch.time_ns, batch.offset, batch.length, batch.wire_length)
        for row in rows:
            number, time_ns, offset, length, wire_length = [int(column[row]) for column in columns]
            found, options = origins[row]
            interface = self._interfaces.get(found)
            if interface is None:
                interface = self._interfaces[found] = len(self._interfaces)
                pieces.append(self._interface(found))
            added = comments.get(number, ())
            if added:
                options = (*options, *((COMMENT, _text(comment)) for comment in added))
            self._last_ns = max(0, time_ns)
            tail = _options(options) if options else b""
            size = _PACKET.size + length + (-length & 3) + len(tail) + 4
            high, low = self._last_ns >> 32, self._last_ns & _LOW
            pieces += (
                _PACKET.pack(ENHANCED_PACKET, size, interface, high, low, length, wire_length),
                buffer[offset : offset + length] + bytes(-length & 3),
                tail,
                struct.pack("<I", size),
            )
        return b"".join(pieces)

    def close(self) -> bytes:
        """Return the last blocks: how many packets the interfaces dropped."""
        return b"".join(
            _block(
                INTERFACE_STATISTICS,
                struct.pack("<III", interface, self._last_ns >> 32, self._last_ns & _LOW)
                + _options([(ISB_IFDROP, struct.pack("<Q", dropped))]),
            )
            for found, interface in self._interfaces.items()
            if (dropped := self._origins.dropped[found])
        )

    def _interface(self, found: int) -> bytes:
        interface = self._origins.interfaces[found]
        body = struct.pack("<HHI", interface.link_type & 0xFFFF, 0, interface.snap_length)
        return _block(INTERFACE_DESCRIPTION, body + _options([*interface.options, _NANOSECONDS]))


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def _options(options: Iterable[Option]) -> bytes:
    """Return a list of options with its end."""
    listed = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return listed + bytes(4) if listed else b""


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) & 3)


def _text(comment: str) -> bytes:
    return comment.encode(errors="replace")[:COMMENT_BYTES].decode(errors="ignore").encode()
