"""One packet, exactly: from the link layer to the TCP payload, step by step, with every length checked.

The ordinary frames are read as columns (kshark.link.columns); this reads whatever they leave, and is what they are compared with.
Sources: tcpdump.org/linktypes, IEEE 802.1Q, RFC 3032 (MPLS), RFC 2516 (PPPoE), RFC 1661 (PPP), RFC 791 (IPv4), RFC 8200 (IPv6),
RFC 9293 (TCP).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
VLAN_TAGS: Final = frozenset((0x8100, 0x88A8, 0x9100))
MPLS: Final = frozenset((0x8847, 0x8848))
PPPOE_SESSION: Final = 0x8864
#: Below it, the field is a length and an 802.2 header follows.
SMALLEST_ETHERTYPE: Final = 0x0600
SNAP: Final = b"\xaa\xaa\x03\x00\x00\x00"

#: Address families in a NULL or LOOP header: IPv6 has another number on every BSD, and on Linux.
FAMILIES: Final = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
PPP_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6}

TCP: Final = 6
FRAGMENT: Final = 44
AUTHENTICATION: Final = 51
#: IPv6 extension headers whose second byte counts 8 bytes beyond the first 8.
EXTENSIONS: Final = frozenset((0, 43, 60, 135, 139, 140))

PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", 4: "IP in IP", 17: "UDP", 41: "IPv6 in IP", 47: "GRE", 50: "ESP", 58: "ICMPv6", 132: "SCTP"}
ETHERTYPES: Final = {0x0806: "ARP", 0x8035: "RARP", 0x88CC: "LLDP", 0x888E: "EAPOL", 0x8863: "PPPoE discovery"}


class Segment(NamedTuple):
    """A TCP segment. `key` is source address (16 bytes, IPv4 in the first four), target address, both ports, IP version as 4 bytes.

    `offset` and `length` are the payload's in the buffer, `missing` its bytes that were not captured, of which
    `short` were not on the wire either.
    """

    key: bytes
    seq: int
    ack: int
    flags: int
    offset: int
    length: int
    missing: int
    short: int


class Other(NamedTuple):
    """A packet that carries no TCP."""

    kind: str


class Fault(NamedTuple):
    """A packet that cannot be read: a code of the catalogue and what is wrong."""

    code: str
    detail: str


class _Settled(Exception):
    """Reading ends here, before a TCP header."""

    def __init__(self, result: Other | Fault) -> None:
        self.result = result


def read_packet(buffer: bytes, offset: int, length: int, wire_length: int, link_type: int) -> Segment | Other | Fault:
    """What the packet at `offset` is; `length` bytes of it were captured, `wire_length` were sent."""
    layer = LINK_LAYERS.get(link_type)
    if layer is None:
        return Fault("LINK_TYPE_UNKNOWN", f"link type {link_type}")
    packet = _Packet(buffer, offset + length, offset + max(length, wire_length))
    try:
        ethertype, position = layer(packet, offset)
        if ethertype == IPV4:
            return _ipv4(packet, position)
        if ethertype == IPV6:
            return _ipv6(packet, position)
    except _Settled as settled:
        return settled.result
    return Other(ETHERTYPES.get(ethertype, f"ethertype {ethertype:#06x}") if ethertype >= SMALLEST_ETHERTYPE else "802.2")


class _Packet(NamedTuple):
    """The buffer, where the captured bytes end, and where the packet ended on the wire."""

    buffer: bytes
    end: int
    wire_end: int

    def need(self, position: int, size: int, what: str) -> None:
        if position + size > self.end:
            raise _Settled(Fault("PACKET_TOO_SHORT", f"{max(0, self.end - position)} bytes for {what} of {size}"))

    def uint16(self, position: int) -> int:
        return self.buffer[position] << 8 | self.buffer[position + 1]

    def uint32(self, position: int) -> int:
        return int.from_bytes(self.buffer[position : position + 4], "big")


def _ethernet(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 14, "an Ethernet header")
    return _behind_tags(packet, packet.uint16(position + 12), position + 14)


def _cooked(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 16, "a Linux cooked header")
    return _behind_tags(packet, packet.uint16(position + 14), position + 16)


def _cooked_2(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 20, "a Linux cooked header, version 2")
    return _behind_tags(packet, packet.uint16(position), position + 20)


def _null(packet: _Packet, position: int) -> tuple[int, int]:
    """The capturing host's byte order is not told, so both are tried."""
    packet.need(position, 4, "a loopback header")
    word = packet.buffer[position : position + 4]
    for family in (int.from_bytes(word, "little"), int.from_bytes(word, "big")):
        if family in FAMILIES:
            return FAMILIES[family], position + 4
    raise _Settled(Other(f"address family {int.from_bytes(word, 'little')}"))


def _raw(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 1, "an IP header")
    version = packet.buffer[position] >> 4
    if version not in (4, 6):
        raise _Settled(Fault("HEADER_INVALID", f"IP version {version}"))
    return IPV4 if version == 4 else IPV6, position


def _ppp(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 4, "a PPP header")
    if packet.buffer.startswith(b"\xff\x03", position):
        position += 2
    if packet.buffer[position] & 1:
        protocol, position = packet.buffer[position], position + 1
    else:
        protocol, position = packet.uint16(position), position + 2
    if protocol not in PPP_PROTOCOLS:
        raise _Settled(Other(f"PPP protocol {protocol:#06x}"))
    return PPP_PROTOCOLS[protocol], position


def _pppoe(packet: _Packet, position: int) -> tuple[int, int]:
    packet.need(position, 6, "a PPPoE header")
    return _ppp(packet, position + 6)


def _mpls(packet: _Packet, position: int) -> tuple[int, int]:
    """Labels up to the one marked as the last; what they carry is told by its first four bits."""
    while True:
        packet.need(position, 4, "an MPLS label")
        position += 4
        if packet.buffer[position - 2] & 1:
            return _raw(packet, position)


def _behind_tags(packet: _Packet, ethertype: int, position: int) -> tuple[int, int]:
    """Follows what may stand between the link's header and IP: VLAN tags, 802.2 SNAP, MPLS, PPPoE."""
    while ethertype in VLAN_TAGS:
        packet.need(position, 4, "a VLAN tag")
        ethertype, position = packet.uint16(position + 2), position + 4
    if ethertype < SMALLEST_ETHERTYPE and packet.buffer.startswith(SNAP, position):
        packet.need(position, 8, "an 802.2 SNAP header")
        ethertype, position = packet.uint16(position + 6), position + 8
    if ethertype in MPLS:
        return _mpls(packet, position)
    if ethertype == PPPOE_SESSION:
        return _pppoe(packet, position)
    return ethertype, position


def _only(version: int) -> Layer:
    def layer(packet: _Packet, position: int) -> tuple[int, int]:
        return version, position

    return layer


Layer = Callable[[_Packet, int], tuple[int, int]]
#: By link type, the reader of its header: gives the ethertype of what follows, and where that begins.
LINK_LAYERS: Final[dict[int, Layer]] = {
    0: _null,
    1: _ethernet,
    9: _ppp,
    12: _raw,
    14: _raw,
    51: _pppoe,
    101: _raw,
    108: _null,
    113: _cooked,
    228: _only(IPV4),
    229: _only(IPV6),
    276: _cooked_2,
}


def _ipv4(packet: _Packet, position: int) -> Segment | Other | Fault:
    packet.need(position, 20, "an IPv4 header")
    buffer = packet.buffer
    header = (buffer[position] & 15) * 4
    if buffer[position] >> 4 != 4 or header < 20:
        return Fault("HEADER_INVALID", f"first byte of an IPv4 header {buffer[position]:#04x}")
    # 0 with segmentation offload: the length did not fit, or is left to the network card
    total = packet.uint16(position + 2) or packet.wire_end - position
    if total < header:
        return Fault("HEADER_INVALID", f"IPv4 length {total}, its header {header}")
    if buffer[position + 9] != TCP:
        return other_protocol(buffer[position + 9])
    if packet.uint16(position + 6) & 0x3FFF:
        return Fault("IP_FRAGMENT", f"fragment of {total - header} bytes")
    addresses = buffer[position + 12 : position + 16].ljust(16, b"\0") + buffer[position + 16 : position + 20].ljust(16, b"\0")
    return _tcp(packet, position + header, position + total, addresses, 4)


def _ipv6(packet: _Packet, position: int) -> Segment | Other | Fault:
    packet.need(position, 40, "an IPv6 header")
    buffer = packet.buffer
    if buffer[position] >> 4 != 6:
        return Fault("HEADER_INVALID", f"first byte of an IPv6 header {buffer[position]:#04x}")
    payload = packet.uint16(position + 4)
    end = position + 40 + payload if payload else packet.wire_end
    addresses = buffer[position + 8 : position + 40]
    protocol, position = buffer[position + 6], position + 40
    while protocol in EXTENSIONS or protocol in (FRAGMENT, AUTHENTICATION):
        packet.need(position, 8, "an IPv6 extension header")
        following = buffer[position]
        if protocol == FRAGMENT:
            size = 8
            if packet.uint16(position + 2) & 0xFFF9:
                return Fault("IP_FRAGMENT", f"fragment of {end - position - size} bytes") if following == TCP else other_protocol(following)
        else:
            size = (buffer[position + 1] + 2) * 4 if protocol == AUTHENTICATION else (buffer[position + 1] + 1) * 8
        protocol, position = following, position + size
    return _tcp(packet, position, end, addresses, 6) if protocol == TCP else other_protocol(protocol)


def other_protocol(protocol: int) -> Other:
    """What a packet is whose IP header says that it carries anything but TCP."""
    return Other(PROTOCOLS.get(protocol, f"IP protocol {protocol}"))


def _tcp(packet: _Packet, position: int, end: int, addresses: bytes, version: int) -> Segment | Fault:
    """`end` is where the IP header says that the packet ends: Ethernet's padding lies behind, what the snap length cut off before it."""
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
        offset=payload,
        length=length,
        missing=end - payload - length,
        short=max(0, end - packet.wire_end),
    )
