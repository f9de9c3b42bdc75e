"""IPv4, IPv6 and TCP headers, exactly.

Sources: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 2675 (jumbograms), RFC 4302 (AH), RFC 9293 (TCP), IANA's protocol numbers.
"""

from __future__ import annotations

from typing import Final

from kshark.link.esp import in_clear
from kshark.link.packet import (
    IPV4,
    IPV6,
    TCP,
    Datagram,
    Fault,
    Fragment,
    NextHeader,
    Other,
    Packet,
    ReadResult,
    Segment,
    sealed,
)
from kshark.link.tunnels import TUNNELS

UDP: Final = 17
GRE: Final = 47
FRAGMENT: Final = 44
ESP: Final = 50
AUTHENTICATION: Final = 51
#: IPv6 extension headers whose second byte counts 8 bytes beyond the first 8.
EXTENSIONS: Final = frozenset((0, 43, 60, 135, 139, 140))
#: Protocols that are not read and hold no TCP.
PROTOCOLS: Final = {
    1: "ICMP",
    2: "IGMP",
    46: "RSVP",
    58: "ICMPv6",
    59: "no next header",
    88: "EIGRP",
    89: "OSPF",
    103: "PIM",
    112: "VRRP",
    132: "SCTP",
}
_SEALED: Final = {55: "MOBILE", 94: "IPIP", 98: "ENCAP", 108: "IPComp", 115: "L2TP version 3"}


def any_ip(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Return the step to IPv4 or IPv6, by the version."""
    packet.need(position, 1, "an IP header")
    version = packet.buffer[position] >> 4
    if version not in (4, 6):
        return Fault("HEADER_INVALID", f"IP version {version}")
    return NextHeader(IPV4 if version == 4 else IPV6, position)


def ipv4(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 20, "an IPv4 header")
    buffer = packet.buffer
    header = (buffer[position] & 15) * 4
    if buffer[position] >> 4 != 4 or header < 20:
        return Fault("HEADER_INVALID", f"first byte of an IPv4 header {buffer[position]:#04x}")
    # 0 with segmentation offload: the length did not fit, or is left to the network card
    total = packet.uint16(position + 2) or packet.wire_end - position
    if total < header:
        return Fault("HEADER_INVALID", f"IPv4 length {total}, its header {header}")
    protocol, field = buffer[position + 9], packet.uint16(position + 6)
    addresses = buffer[position + 12 : position + 16].ljust(16, b"\0") + buffer[position + 16 : position + 20].ljust(
        16, b"\0"
    )
    if field & 0x3FFF:
        datagram = Datagram(4, addresses, packet.uint16(position + 4), protocol)
        return _fragment(
            packet, datagram, field << 3 & 0xFFFF, bool(field & 0x2000), position + header, position + total
        )
    return carried(packet, protocol, position + header, position + total, addresses, 4)


def ipv6(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 40, "an IPv6 header")
    buffer = packet.buffer
    if buffer[position] >> 4 != 6:
        return Fault("HEADER_INVALID", f"first byte of an IPv6 header {buffer[position]:#04x}")
    payload = packet.uint16(position + 4)
    end = position + 40 + payload if payload else packet.wire_end
    return carried(packet, buffer[position + 6], position + 40, end, buffer[position + 8 : position + 40], 6)


def carried(
    packet: Packet, protocol: int, position: int, end: int, addresses: bytes, version: int
) -> NextHeader | ReadResult:
    """Read the content of an IP packet that ends at `end`, after any extension headers."""
    while protocol == AUTHENTICATION or (version == 6 and (protocol in EXTENSIONS or protocol == FRAGMENT)):
        packet.need(position, 8, "an IP extension header")
        following, size = packet.buffer[position], 8
        if protocol == AUTHENTICATION:
            size = (packet.buffer[position + 1] + 2) * 4
        elif protocol != FRAGMENT:
            size = (packet.buffer[position + 1] + 1) * 8
        elif (field := packet.uint16(position + 2)) & 0xFFF9:
            datagram = Datagram(6, addresses, packet.uint32(position + 4), following)
            return _fragment(packet, datagram, field & 0xFFF8, bool(field & 1), position + size, end)
        protocol, position = following, position + size
    if protocol == TCP:
        return _tcp(packet, position, end, addresses, version)
    packet.narrow(end)
    if protocol == ESP and (inner := in_clear(packet, position)) is not None and inner.protocol == TCP:
        return _tcp(packet, inner.begin, inner.end, addresses, version)
    layer = TUNNELS.get(protocol)
    return layer(packet, position) if layer is not None else other_protocol(protocol)


def other_protocol(protocol: int) -> Other:
    """Return the kind of a packet whose IP header names a protocol that is not read."""
    if protocol in PROTOCOLS:
        return Other(PROTOCOLS[protocol])
    return sealed("IP", _SEALED.get(protocol, f"protocol {protocol}"))


def _fragment(packet: Packet, datagram: Datagram, at: int, more: bool, offset: int, end: int) -> ReadResult:
    """Return a fragment of a protocol that may carry TCP; `end` is the fragment's end."""
    if datagram.protocol in PROTOCOLS:
        return other_protocol(datagram.protocol)
    size = end - offset
    if size <= 0 or (more and size % 8):
        return Fault("HEADER_INVALID", f"an IP fragment of {size} bytes" + (", and more follow" if more else ""))
    if end > packet.wire_end:
        return Fault("PACKET_TOO_SHORT", f"{packet.wire_end - offset} bytes for an IP fragment of {size}")
    return Fragment(datagram, at, size, more, offset, max(0, min(size, packet.end - offset)))


def _tcp(packet: Packet, position: int, end: int, addresses: bytes, version: int) -> Segment | Fault:
    """Read a TCP header. `end` is the packet's end by its IP header: Ethernet's padding lies after it.

    The snap length may have cut bytes before it.
    """
    if position + 20 > end:
        return Fault("HEADER_INVALID", f"IP leaves {end - position} bytes for a TCP header")
    packet.need(position, 20, "a TCP header")
    buffer = packet.buffer
    header = (buffer[position + 12] >> 4) * 4
    if header < 20 or position + header > end:
        return Fault("HEADER_INVALID", f"a TCP header of {header} bytes, IP leaves {end - position}")
    payload = position + header
    length = max(0, min(packet.end, end) - payload)
    return Segment(
        key=addresses + buffer[position : position + 4] + version.to_bytes(4, "little"),
        seq=packet.uint32(position + 4),
        ack=packet.uint32(position + 8),
        flags=buffer[position + 13],
        window=packet.uint16(position + 14),
        offset=payload,
        length=length,
        missing=end - payload - length,
        short=max(0, end - packet.wire_end),
    )
