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


def ip_packet(segment: Rewritten) -> tuple[bytes, int]:
    """Return the captured bytes of a packet, and its length on the wire.

    A length that does not fit into its header is 0, as with segmentation offload.
    """
    source, target = (ip_address(host_of(end).strip("[]")) for end in (segment.source, segment.target))
    tcp = struct.pack(
        ">HHIIBBHHH",
        port_of(segment.source),
        port_of(segment.target),
        segment.seq % _WHOLE,
        segment.ack % _WHOLE,
        (_TCP_HEADER // 4) << 4,
        segment.flags & 0xFF,
        segment.window & 0xFFFF,
        0,
        0,
    )
    size = _TCP_HEADER + len(segment.payload) + segment.missing
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


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) & 1)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
