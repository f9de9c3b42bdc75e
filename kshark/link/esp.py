"""Recognise ESP without encryption. Packets do not announce it, but encrypted bytes look like this only once in many
millions.

Sources: RFC 4303 (ESP), RFC 5879 (how to recognise that it is not encrypted), RFC 9293 (TCP).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kshark.link.packet import TCP, Packet

_IP: Final = (4, 41)
_HEADER: Final = 8
#: Bytes of the integrity check value at the end, by how common they are (RFC 4303, section 3.2; RFC 5879, section 8).
_ICV_SIZES: Final = (12, 16, 24, 32, 8, 0)


class InClear(Struct, frozen=True):
    """The content of an ESP packet: its protocol (TCP or IP), its begin and end."""

    protocol: int
    begin: int
    end: int


def in_clear(packet: Packet, position: int) -> InClear | None:
    """Return the content of an ESP packet; None if it is encrypted, or cut so that this is unknown.

    Clear packets have padding that counts, a known protocol, and a valid header of it.
    """
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
    """True for the common properties of TCP headers: unused bits, sensible flags, no urgent pointer without its
    flag.
    """
    size, flags = packet.buffer[position + 12], packet.buffer[position + 13]
    urgent = packet.uint16(position + 18)
    return (
        size >> 4 >= 5
        and size & 15 <= 1
        and (flags & 0x20 != 0 or urgent == 0)
        and flags & 0x17 != 0
        and flags & 6 != 6
    )
