"""Write TCP segments as IP packets with other addresses and payload. Sources: RFC 791, RFC 8200, RFC 9293."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, ip_address
from typing import Final, NamedTuple

from kshark.endpoints import host_of, port_of

#: The link type of packets that begin with their IP header.
RAW_IP: Final = 101
_TCP: Final = 6
_TCP_HEADER: Final = 20
_LONGEST: Final = 0xFFFF
_NO_OPERATION: Final = 1
#: Maximum segment size, window scale, selective acknowledgement permitted, timestamps.
_KEPT: Final = (2, 3, 4, 8)
_WHOLE: Final = 1 << 32


class Rewritten(NamedTuple):
    """A segment. `payload` are its captured bytes, `missing` the number of those after them that were not."""

    source: str
    target: str
    seq: int
    ack: int
    flags: int
    window: int
    payload: bytes
    missing: int
    options: bytes = b""


def ip_packet(segment: Rewritten) -> tuple[bytes, int]:
    """Return the captured bytes of a packet, and its length on the wire.

    A length that does not fit into its header is 0, as with segmentation offload.
    """
    source, target = (ip_address(host_of(end).strip("[]")) for end in (segment.source, segment.target))
    header = _TCP_HEADER + len(segment.options)
    tcp = struct.pack(
        ">HHIIBBHHH",
        port_of(segment.source),
        port_of(segment.target),
        segment.seq % _WHOLE,
        segment.ack % _WHOLE,
        (header // 4) << 4,
        segment.flags & 0xFF,
        segment.window & 0xFFFF,
        0,
        0,
    )
    tcp += segment.options
    size = header + len(segment.payload) + segment.missing
    ends = source.packed + target.packed
    if isinstance(source, IPv4Address):
        total = 20 + size
        length = total if total <= _LONGEST else 0
        head = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, _TCP, 0) + ends
        head = head[:10] + _checksum(head).to_bytes(2, "big") + head[12:]
        pseudo = ends + struct.pack(">BBH", 0, _TCP, size & _LONGEST)
    else:
        total = 40 + size
        head = struct.pack(">IHBB", 6 << 28, size if size <= _LONGEST else 0, _TCP, 64) + ends
        pseudo = ends + struct.pack(">II", size, _TCP)
    if not segment.missing:
        tcp = tcp[:16] + _checksum(pseudo + tcp + segment.payload).to_bytes(2, "big") + tcp[18:]
    return head + tcp + segment.payload, total


def kept_options(buffer: bytes, payload: int, seq: int, ack: int) -> bytes:
    """Return the options of a TCP header that say nothing about its bytes: sizes, window scale and timestamps.

    The header ends where the payload begins; its length is found by what it holds.
    """
    for words in range(5, 16):
        at = payload - 4 * words
        if at >= 0 and buffer[at + 12] >> 4 == words and struct.unpack_from(">II", buffer, at + 4) == (seq, ack):
            return _options(buffer[at + _TCP_HEADER : payload])
    return b""


def _options(options: bytes) -> bytes:
    """Return options with nothing in the places of those that are not kept."""
    kept, at = b"", 0
    while at < len(options) and options[at]:
        kind = options[at]
        size = 1 if kind == _NO_OPERATION else options[at + 1] if at + 1 < len(options) else 0
        if not 0 < size <= len(options) - at:
            break
        kept += options[at : at + size] if kind in _KEPT else bytes([_NO_OPERATION]) * size
        at += size
    return kept + bytes([_NO_OPERATION]) * (len(options) - len(kept))


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) & 1)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
