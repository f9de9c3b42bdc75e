"""ESP that protects integrity only, which nothing in the packet says: told by what encrypted bytes are not, but once in
many millions.

Sources: RFC 4303 (ESP), RFC 5879 (how to tell that it is not encrypted), RFC 9293 (TCP).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kshark.link.packet import TCP, Packet

_IP: Final = (4, 41)
_HEADER: Final = 8
#: Bytes of the integrity check value at the end, by how common they are (RFC 4303, section 3.2; RFC 5879, section 8).
_ICV_SIZES: Final = (12, 16, 24, 32, 8, 0)


class InClear(NamedTuple):
    """What an ESP packet carries: its protocol, TCP or IP, where it begins and where it ends."""

    protocol: int
    begin: int
    end: int


def in_clear(packet: Packet, position: int) -> InClear | None:
    """None where it is encrypted, or cut so that nobody can tell: padding that counts, a known protocol, and its header
    as it must be."""
    begin = position + _HEADER
    if packet.end < packet.wire_end:
        return None
    for size in _ICV_SIZES:
        trailer = packet.end - size - 2
        if trailer <= begin:
            continue
        end, protocol = trailer - packet.buffer[trailer], packet.buffer[trailer + 1]
        if end <= begin or packet.buffer[end:trailer] != bytes(range(1, 1 + trailer - end)):
            continue
        if protocol == TCP and end - begin >= 20 and _is_tcp(packet, begin):
            return InClear(protocol, begin, end)
        if protocol in _IP and packet.ip_size(begin) == end - begin:
            return InClear(protocol, begin, end)
    return None


def _is_tcp(packet: Packet, position: int) -> bool:
    """What TCP headers have in common: unused bits, flags that go together, no urgent pointer without its flag."""
    size, flags = packet.buffer[position + 12], packet.buffer[position + 13]
    urgent = packet.uint16(position + 18)
    return (
        size >> 4 >= 5
        and size & 15 <= 1
        and (flags & 0x20 != 0 or urgent == 0)
        and flags & 0x17 != 0
        and flags & 6 != 6
    )
