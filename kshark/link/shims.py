"""Headers between a link layer and IP: 802.2, VLAN tags, MPLS with pseudowires, PPP, MACsec, metadata.

Sources: IEEE 802.1Q, 802.1ah, 802.1AE, 802.1BR, 802.1CB, 802.2, RFC 1042 (SNAP), RFC 1661 (PPP), RFC 2516 (PPPoE), RFC
3032 (MPLS), RFC 4385 (the pseudowire's control word), RFC 8300 (NSH), Cisco's TrustSec and VN-Tag as Wireshark reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshark.link.packet import (
    ANY_IP,
    ETHERNET,
    IPV4,
    IPV6,
    LLC,
    MPLS,
    NEXT_PROTOCOLS,
    NSH,
    PPP,
    Fault,
    Layer,
    NextHeader,
    Other,
    Packet,
    ReadResult,
    sealed,
)

VLAN_TAGS: Final = frozenset((0x8100, 0x88A8, 0x9100, 0x9200, 0x9300))
#: Other tags of a fixed size, before the ethertype of the next header: VN-Tag, E-TAG, R-TAG.
_TAGS: Final = {**dict.fromkeys(VLAN_TAGS, 2), 0x8926: 4, 0x893F: 6, 0xF1C1: 4}
#: A smaller Ethernet type is a length, and an 802.2 header follows.
SMALLEST_ETHERTYPE: Final = 0x0600
#: By the first six bytes of an 802.2 header: SNAP with an ethertype (RFC 1042), and bridged (IEEE 802.1H).
_SNAP: Final = (b"\xaa\xaa\x03\x00\x00\x00", b"\xaa\xaa\x03\x00\x00\xf8")
_PPP_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS}
_PPP_COMPRESSED: Final = {
    0x002D: "TCP/IP headers compressed",
    0x002F: "TCP/IP headers compressed",
    0x00FD: "compressed",
    0x0053: "encrypted",
}
#: PPP protocols from this number on concern the link itself.
_PPP_CONTROL: Final = 0x8000


def ethernet(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 14, "an Ethernet header")
    return typed(packet.uint16(position + 12), position + 14)


def typed(ethertype: int, position: int) -> NextHeader:
    """Return the step for an Ethernet type, which may be a length."""
    return NextHeader(ethertype if ethertype >= SMALLEST_ETHERTYPE else LLC, position)


def ppp(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 4, "a PPP header")
    if packet.starts(b"\xff\x03", position):
        position += 2
    if packet.buffer[position] & 1:
        protocol, position = packet.buffer[position], position + 1
    else:
        protocol, position = packet.uint16(position), position + 2
    if protocol in _PPP_PROTOCOLS:
        return NextHeader(_PPP_PROTOCOLS[protocol], position)
    if protocol >= _PPP_CONTROL:
        return Other(f"PPP: protocol {protocol:#06x}")
    return sealed("PPP", _PPP_COMPRESSED.get(protocol, f"protocol {protocol:#06x}"))


def _llc(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 3, "an 802.2 header")
    if packet.starts(_SNAP[0][:3], position):
        packet.need(position, 8, "an 802.2 SNAP header")
        if packet.starts(_SNAP, position):
            return typed(packet.uint16(position + 6), position + 8)
    if packet.starts(b"\x06\x06\x03", position):
        return NextHeader(IPV4, position + 3)
    return Other("802.2")


def _tag(size: int) -> Layer:
    """Return a layer for a tag of that size, followed by an Ethernet type."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        packet.need(position, size + 2, "a tag")
        return typed(packet.uint16(position + size), position + size + 2)

    return layer


def _mpls(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read labels up to the last one. Their content has no type; IP is recognised by its first four bits."""
    while True:
        packet.need(position, 4, "an MPLS label")
        position += 4
        if packet.buffer[position - 2] & 1:
            break
    if packet.is_ip(position):
        return NextHeader(ANY_IP, position)
    packet.need(position, 1, "what an MPLS label carries")
    for begin in (position + 4, position) if packet.buffer[position] >> 4 == 0 else (position,):
        if packet.is_ethernet(begin):
            return NextHeader(ETHERNET, begin)
    return NextHeader(ANY_IP, position) if packet.buffer[position] >> 4 in (4, 6) else sealed("MPLS", "a pseudowire")


def _pppoe(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 6, "a PPPoE header")
    return NextHeader(PPP, position + 6)


def _provider_backbone(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 4, "an I-TAG")
    return NextHeader(ETHERNET, position + 4)


def _network_service(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "an NSH header")
    size = (packet.buffer[position + 1] & 0x3F) * 4
    if size < 8:
        return Fault("HEADER_INVALID", f"an NSH header of {size} bytes")
    follows = packet.buffer[position + 3]
    return (
        NextHeader(NEXT_PROTOCOLS[follows], position + size)
        if follows in NEXT_PROTOCOLS
        else sealed("NSH", f"protocol {follows}")
    )


def _metadata(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Cisco metadata: a version, the number of options of four bytes, the options, an ethertype."""
    packet.need(position, 2, "a Cisco metadata header")
    size = 2 + 4 * packet.buffer[position + 1]
    packet.need(position, size + 2, "a Cisco metadata header")
    return typed(packet.uint16(position + size), position + size + 2)


def _macsec(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read MACsec with integrity only, which leaves the frame in clear. Devices mark that differently, so the bytes
    decide.
    """
    packet.need(position, 6, "a MACsec header")
    for begin in (position + 14, position + 6) if packet.buffer[position] & 0x20 else (position + 6, position + 14):
        if begin + 2 > packet.end:
            continue
        ethertype = packet.uint16(begin)
        if ethertype in (IPV4, IPV6) and packet.is_ip(begin + 2):
            return NextHeader(ethertype, begin + 2)
        if (
            ethertype in VLAN_TAGS
            and begin + 6 <= packet.end
            and packet.uint16(begin + 4) in (IPV4, IPV6)
            and packet.is_ip(begin + 6)
        ):
            return NextHeader(ethertype, begin + 2)
    return sealed("Ethernet", "MACsec")


#: By ethertype or one of the numbers of kshark.link.packet.
SHIMS: Final[Mapping[int, Layer]] = {
    **{ethertype: _tag(size) for ethertype, size in _TAGS.items()},
    ETHERNET: ethernet,
    PPP: ppp,
    LLC: _llc,
    MPLS: _mpls,
    0x8848: _mpls,
    0x8864: _pppoe,
    0x88E5: _macsec,
    0x88E7: _provider_backbone,
    0x8909: _metadata,
    NSH: _network_service,
}
