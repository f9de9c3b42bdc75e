"""802.11 frames, and the headers that capturing devices put before them.

Sources: IEEE 802.11-2020, section 9; radiotap.org; tcpdump.org/linktypes (Prism, AVS).
"""

from __future__ import annotations

from typing import Final

from kshark.link.packet import LLC, Fault, NextHeader, Other, Packet, ReadResult, sealed

_LLC_SNAP: Final = b"\xaa\xaa\x03"
_AVS_MAGIC: Final = b"\x80\x21\x10"


def ieee_802_11(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read a data frame: an unencrypted one holds an 802.2 header."""
    packet.need(position, 24, "an 802.11 header")
    kind, flags = packet.buffer[position], packet.buffer[position + 1]
    if kind & 0x0C != 0x08 or kind & 0x40:  # management and control frames; data frames without data
        return Other("802.11")
    if flags & 0x40:
        return sealed("802.11", "encrypted")
    if flags & 4 or packet.buffer[position + 22] & 15:
        return sealed("802.11", "fragments")
    body = position + (30 if flags & 3 == 3 else 24)
    if kind & 0x80:
        packet.need(body, 2, "an 802.11 QoS field")
        if packet.buffer[body] & 0x80:
            return sealed("802.11", "aggregated frames")
        body += 6 if flags & 0x80 else 2
    padded = -(body - position) & 3  # some devices align the next header
    return NextHeader(LLC, body + padded if padded and packet.starts(_LLC_SNAP, body + padded) else body)


def radiotap(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "a radiotap header")
    return _after_radio(packet, position, packet.buffer[position + 2] | packet.buffer[position + 3] << 8, 8)


def prism(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read a Prism header in the byte order of the capturing host; or AVS, a later format with the same number."""
    packet.need(position, 8, "a Prism header")
    if packet.starts(_AVS_MAGIC, position):
        return _after_radio(packet, position, packet.uint32(position + 4), 8)
    word = packet.buffer[position + 4 : position + 8]
    return _after_radio(packet, position, min(int.from_bytes(word, "little"), int.from_bytes(word, "big")), 8)


def _after_radio(packet: Packet, position: int, size: int, least: int) -> NextHeader | ReadResult:
    if size < least:
        return Fault("HEADER_INVALID", f"a radio header of {size} bytes")
    return ieee_802_11(packet, position + size)
