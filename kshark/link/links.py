"""Link layer headers by the capture's link type: return the ethertype of the next header, and its position.

Sources: tcpdump.org/linktypes; RFC 1547 and 1661 (HDLC, PPP), RFC 2427 (Frame Relay), RFC 2684 (ATM), RFC 4391 (IP over
InfiniBand), RFC 2625 (IP over Fibre Channel), IEEE 802.5, FDDI (ANSI X3T9.5), IEEE 802.3br, CableLabs' DOCSIS MAC;
Linux' NFLOG, Apple's PKTAP, OpenBSD's pflog and Juniper's headers as tcpdump and Wireshark read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kshark.link.packet import (
    ANY_IP,
    ETHERNET,
    IPV4,
    IPV6,
    LLC,
    MPLS,
    PPP,
    Fault,
    Layer,
    NextHeader,
    Other,
    Packet,
    ReadResult,
    sealed,
)
from kshark.link.shims import typed
from kshark.link.wireless import ieee_802_11, prism, radiotap

#: Address families in a NULL or LOOP header: IPv6 has another number on every BSD, and on Linux.
FAMILIES: Final = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
#: Names of link types that are not read, if there is more than the number.
_NAMES: Final = {
    **dict.fromkeys(range(147, 163), "user-defined"),
    **dict.fromkeys((186, 189, 220, 249, 266, 288), "USB"),
    **dict.fromkeys((187, 201, 251, 254, 256, 272), "Bluetooth"),
    **dict.fromkeys((195, 215, 230, 283), "802.15.4"),
    227: "CAN",
    231: "D-Bus",
    253: "Netlink",
}
_NLPID: Final = {0xCC: IPV4, 0x8E: IPV6}
_NFLOG_PAYLOAD: Final = 9
_JUNIPER_MAGIC: Final = b"MGC"
#: First bytes of a frame on the wire, after the preamble: of a whole frame, and of one that may be interrupted (IEEE
#: 802.3br).
_FRAME_BEGINS: Final = frozenset((0xD5, 0xE6, 0x4C, 0x7F, 0xB3))


def _only(ethertype: int, size: int = 0, what: str = "a header") -> Layer:
    """Return a layer that skips a header of that size."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        if size:
            packet.need(position, size, what)
        return NextHeader(ethertype, position + size)

    return layer


def _cooked(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 16, "a Linux cooked header")
    return typed(packet.uint16(position + 14), position + 16)


def _cooked_2(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 20, "a Linux cooked header, version 2")
    return typed(packet.uint16(position), position + 20)


def _family(size: int) -> Layer:
    """Return a layer for an address family. The capturing host's byte order is unknown, so both are tried."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        packet.need(position, size, "a loopback header")
        word = packet.buffer[position : position + 4]
        for family in (int.from_bytes(word, "little"), int.from_bytes(word, "big")):
            if family in FAMILIES:
                return NextHeader(FAMILIES[family], position + size)
        return Other(f"address family {int.from_bytes(word, 'little')}")

    return layer


def _hdlc(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Cisco's HDLC has an Ethernet type after address and control; PPP has its own type."""
    packet.need(position, 4, "an HDLC header")
    if packet.buffer[position] not in (0x0F, 0x8F):
        return NextHeader(PPP, position)
    return typed(packet.uint16(position + 2), position + 4)


def _frame_relay(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 4, "a Frame Relay header")
    while not packet.buffer[position] & 1:
        position += 1
        packet.need(position, 3, "a Frame Relay address")
    position += 1
    if packet.buffer[position] != 3:
        return typed(packet.uint16(position), position + 2)  # Cisco's encapsulation
    position += 2 if packet.buffer[position + 1] == 0 else 1
    packet.need(position, 1, "a Frame Relay NLPID")
    follows = packet.buffer[position]
    if follows in _NLPID:
        return NextHeader(_NLPID[follows], position + 1)
    if follows != 0x80:
        return Other("Frame Relay")
    packet.need(position, 6, "a Frame Relay SNAP header")
    return typed(packet.uint16(position + 4), position + 6)


def _token_ring(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 16, "a Token Ring header")
    if packet.buffer[position + 1] >> 6 != 1:
        return Other("Token Ring")
    route = packet.buffer[position + 14] & 31 if packet.buffer[position + 8] & 0x80 else 0
    return NextHeader(LLC, position + 14 + route)


def _fddi(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 13, "an FDDI header")
    return NextHeader(LLC, position + 13) if packet.buffer[position] & 0x70 == 0x50 else Other("FDDI")


def _infiniband(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Four bytes, with or without a global routing header before them."""
    packet.need(position, 4, "an IPoIB header")
    if packet.uint16(position) in (IPV4, IPV6) and packet.is_ip(position + 4):
        return NextHeader(packet.uint16(position), position + 4)
    packet.need(position, 44, "an IPoIB header")
    return typed(packet.uint16(position + 40), position + 44)


def _ieee_1394(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 18, "an IEEE 1394 header")
    return typed(packet.uint16(position + 16), position + 18)


def _docsis(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Cable modem head-ends also write Ethernet frames under this link type; a DOCSIS header has the packet's
    length.
    """
    packet.need(position, 14, "a DOCSIS header")
    if packet.uint16(position + 2) + 6 != packet.wire_end - position:
        return NextHeader(ETHERNET, position)
    control = packet.buffer[position]
    if control >> 6 or control >> 1 & 31 > 1:
        return Other("DOCSIS") if control >> 6 == 3 else sealed("DOCSIS", f"frame control {control:#04x}")
    return NextHeader(ETHERNET, position + 6 + (packet.buffer[position + 1] if control & 1 else 0))


def _packet_filter(packet: Packet, position: int) -> NextHeader | ReadResult:
    """pflog: its first byte is its length, without the padding."""
    packet.need(position, 4, "a pflog header")
    size = packet.buffer[position] + 3 & ~3
    return (
        NextHeader(ANY_IP, position + size) if size >= 4 else Fault("HEADER_INVALID", f"a pflog header of {size} bytes")
    )


def _netfilter_log(packet: Packet, position: int) -> NextHeader | ReadResult:
    """NFLOG: attributes with length and type in the capturing host's byte order; one of them is the packet."""
    packet.need(position, 4, "an NFLOG header")
    position += 4
    while position < packet.end:
        packet.need(position, 5, "an NFLOG attribute")
        order: Literal["little", "big"] = "little" if packet.buffer[position + 3] == 0 else "big"
        size, kind = (int.from_bytes(packet.buffer[at : at + 2], order) for at in (position, position + 2))
        if size < 4:
            return Fault("HEADER_INVALID", f"an NFLOG attribute of {size} bytes")
        if kind & 0x7FFF == _NFLOG_PAYLOAD and packet.buffer[position + 4] >> 4 in (4, 6):
            packet.narrow(position + size)
            return NextHeader(ANY_IP, position + 4)
        position += size + 3 & ~3 if size & 3 else size
    return Other("NFLOG")


def _packet_tap(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Apple's PKTAP: its length, its kind, and the link type of the next header."""
    packet.need(position, 12, "a PKTAP header")
    size, kind, link_type = (
        int.from_bytes(packet.buffer[at : at + 4], "little") for at in range(position, position + 12, 4)
    )
    if size < 12 or kind != 1:
        return Fault("HEADER_INVALID", f"a PKTAP header of {size} bytes, kind {kind}")
    return _inner(packet, position + size, link_type)


def _user_2(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Link type of Apple's PKTAP before it had its own."""
    result = _packet_tap(packet, position)
    return unknown_link(149) if isinstance(result, Fault) else result


def _per_packet_information(packet: Packet, position: int) -> NextHeader | ReadResult:
    """PPI: its length and the link type of the next header."""
    packet.need(position, 8, "a PPI header")
    size = packet.buffer[position + 2] | packet.buffer[position + 3] << 8
    if size < 8:
        return Fault("HEADER_INVALID", f"a PPI header of {size} bytes")
    return _inner(packet, position + size, int.from_bytes(packet.buffer[position + 4 : position + 8], "little"))


def _inner(packet: Packet, position: int, link_type: int) -> NextHeader | ReadResult:
    layer = _WHOLE.get(link_type)
    return layer(packet, position) if layer is not None else unknown_link(link_type)


def _juniper(follows: Layer) -> Layer:
    """Juniper's header: a magic number, flags, optional extensions; without a link layer four bytes with IP's family
    instead.
    """

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        packet.need(position, 6, "a Juniper header")
        if not packet.starts(_JUNIPER_MAGIC, position):
            return Fault("HEADER_INVALID", "a Juniper header without its magic number")
        flags, position = packet.buffer[position + 3], position + 4
        if flags & 0x80:
            position += 2 + packet.uint16(position)
        if flags & 2:
            packet.need(position, 4, "a Juniper protocol family")
            return NextHeader(ANY_IP, position + 4)
        return follows(packet, position)

    return layer


def _on_the_wire(before: int) -> Layer:
    """A preamble, the byte that starts a frame, and Ethernet; `before` bytes of another header come first."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        position += before
        packet.need(position, 8, "a preamble")
        rest = packet.buffer[position : min(position + 8, packet.end)].lstrip(b"\x55")
        if not rest or rest[0] not in _FRAME_BEGINS:
            return sealed("Ethernet", "interrupted frames")
        return NextHeader(ETHERNET, position + 9 - len(rest))

    return layer


def unknown_link(link_type: int) -> Other:
    """Return the kind of a link type that is not read."""
    name = f" ({_NAMES[link_type]})" if link_type in _NAMES else ""
    return Other(f"link type {link_type}{name}", "LINK_TYPE_UNKNOWN")


#: Link types that contain no other link type.
_WHOLE: Final[Mapping[int, Layer]] = {
    0: _family(4),
    1: _only(ETHERNET),
    6: _token_ring,
    9: _only(PPP),
    10: _fddi,
    12: _only(ANY_IP),
    14: _only(ANY_IP),
    50: _hdlc,
    51: _only(PPP, 6, "a PPPoE header"),
    100: _only(LLC),
    101: _only(ANY_IP),
    104: _hdlc,
    105: ieee_802_11,
    107: _frame_relay,
    108: _family(4),
    109: _family(12),
    113: _cooked,
    117: _packet_filter,
    119: prism,
    122: _only(LLC, 16, "a Fibre Channel header"),
    127: radiotap,
    138: _ieee_1394,
    143: _docsis,
    163: prism,
    166: _only(PPP, 1, "a direction"),
    178: _juniper(_only(ETHERNET)),
    179: _juniper(_only(PPP)),
    180: _juniper(_frame_relay),
    181: _juniper(_hdlc),
    204: _only(PPP, 1, "a direction"),
    219: _only(MPLS),
    228: _only(IPV4),
    229: _only(IPV6),
    239: _netfilter_log,
    240: _only(ETHERNET, 4, "a netANALYZER header"),
    241: _on_the_wire(4),
    242: _infiniband,
    274: _on_the_wire(0),
    276: _cooked_2,
}


def _directed(layer: Layer) -> Layer:
    """Return a layer with one byte before it that gives the direction."""

    def directed(packet: Packet, position: int) -> NextHeader | ReadResult:
        packet.need(position, 1, "a direction")
        return layer(packet, position + 1)

    return directed


LINK_LAYERS: Final[Mapping[int, Layer]] = {
    **_WHOLE,
    149: _user_2,
    192: _per_packet_information,
    205: _directed(_hdlc),
    206: _directed(_frame_relay),
    258: _packet_tap,
}
