"""Headers between two IP headers: GRE and its content, tunnels over UDP, ESP.

Sources: RFC 2784, 2890 and 2637 (GRE), RFC 7637 (NVGRE), draft-foschiano-erspan (ERSPAN), RFC 7348 (VXLAN),
draft-ietf-nvo3-vxlan-gpe, RFC 8926 (Geneve), 3GPP TS 29.281 (GTP-U), RFC 2661 (L2TP), RFC 8086 (GRE in UDP), RFC 7510
(MPLS in UDP), RFC 3378 (EtherIP), RFC 3948 (ESP in UDP), wireguard.com/protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshark.link.esp import in_clear
from kshark.link.packet import (
    ANY_IP,
    ETHERNET,
    IPV4,
    IPV6,
    MPLS,
    NEXT_PROTOCOLS,
    PPP,
    TCP,
    Fault,
    Layer,
    NextHeader,
    Other,
    Packet,
    ReadResult,
    sealed,
)

ERSPAN: Final = 0x88BE
ERSPAN_III: Final = 0x22EB
VXLAN_PORTS: Final = frozenset((4789, 8472))
GENEVE_PORT: Final = 6081
#: Flags of VXLAN, and the bits that are zero.
VXLAN_BEGINS: Final = b"\x08\0\0\0"
#: UDP ports of protocols that are not read, and may hold TCP.
_SEALED: Final = {1194: "OpenVPN", 3544: "Teredo", 5246: "CAPWAP", 5247: "CAPWAP", 51820: "WireGuard"}
#: By WireGuard's message type, the size of such a message; data has 32 bytes or more, in units of 16.
_WIREGUARD: Final = {1: 148, 2: 92, 3: 64}
_WIREGUARD_DATA: Final = 4


def gre(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 4, "a GRE header")
    flags, protocol = packet.uint16(position), packet.uint16(position + 2)
    size = gre_size(flags)
    if flags & 7 == 1:  # PPTP: an acknowledgement alone has no sequence number and no payload
        return NextHeader(PPP, position + size) if flags & 0x1000 else Other("GRE: acknowledgement")
    if flags & 0x4007:
        return sealed("GRE", f"flags {flags:#06x}")
    position += size
    if protocol == ERSPAN:
        return NextHeader(ETHERNET, position + (8 if flags & 0x1000 else 0))
    if protocol == ERSPAN_III:
        packet.need(position, 12, "an ERSPAN header")
        word = packet.uint16(position + 10)
        return NextHeader(ANY_IP if word >> 10 & 31 == 2 else ETHERNET, position + (20 if word & 1 else 12))
    return NextHeader(protocol, position) if protocol else Other("GRE: keep-alive")


def gre_size(flags: int) -> int:
    """Return the bytes of a GRE header with checksum, key, sequence and (PPTP) acknowledgement number."""
    return 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000, 0x0080 if flags & 7 == 1 else 0))


def udp(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read the tunnel of its port; the target port comes first."""
    packet.need(position, 8, "a UDP header")
    ports = packet.uint16(position + 2), packet.uint16(position)
    position += 8
    for port in ports:
        layer = UDP_TUNNELS.get(port)
        result = layer(packet, position) if layer is not None else None
        if result is not None and result != _UDP:
            return result
    for port in ports:
        if port in _SEALED:
            return sealed("UDP", _SEALED[port])
    if _is_wireguard(packet, position):
        return sealed("UDP", "WireGuard")
    inner = _tunnel_on_any_port(packet, position)
    return _UDP if inner is None else NextHeader(ETHERNET, inner)


#: A datagram of no known protocol.
_UDP: Final = Other("UDP")


def _tunnel_on_any_port(packet: Packet, position: int) -> int | None:
    """Return the begin of Ethernet in VXLAN or Geneve on a user-defined port; None if it is neither.

    Both have unused bits, then a frame with a well-known type.
    """
    if position + 8 > packet.end or packet.buffer[position + 7]:
        return None
    if packet.starts(VXLAN_BEGINS, position):
        inner = position + 8
    elif packet.buffer[position] >> 6 == 0 and packet.uint16(position + 2) == ETHERNET:
        inner = position + 8 + 4 * packet.buffer[position]
    else:
        return None
    return inner if packet.is_ethernet(inner) else None


def _is_wireguard(packet: Packet, position: int) -> bool:
    size = packet.wire_end - position
    kind = int.from_bytes(packet.buffer[position : min(position + 4, packet.end)], "little")
    return size == _WIREGUARD.get(kind, -1) or (kind == _WIREGUARD_DATA and size >= 32 and size % 16 == 0)


def _vxlan(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "a VXLAN header")
    return NextHeader(ETHERNET, position + 8) if packet.buffer[position] & 8 else _UDP


def _vxlan_gpe(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "a VXLAN-GPE header")
    follows = packet.buffer[position + 3] if packet.buffer[position] & 4 else 3
    return (
        NextHeader(NEXT_PROTOCOLS[follows], position + 8)
        if follows in NEXT_PROTOCOLS
        else sealed("VXLAN-GPE", f"protocol {follows}")
    )


def _geneve(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "a Geneve header")
    if packet.buffer[position] >> 6:
        return _UDP
    return NextHeader(packet.uint16(position + 2), position + 8 + 4 * (packet.buffer[position] & 0x3F))


def _gtp_u(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 8, "a GTP-U header")
    flags, kind = packet.buffer[position], packet.buffer[position + 1]
    if flags >> 4 != 3:
        return _UDP
    if kind != 255:
        return Other(f"GTP-U: message {kind}")
    if not flags & 7:
        return NextHeader(ANY_IP, position + 8)
    packet.need(position, 12, "a GTP-U header")
    extension, position = packet.buffer[position + 11] if flags & 4 else 0, position + 12
    while extension:
        packet.need(position, 4, "a GTP-U extension header")
        size = 4 * packet.buffer[position]
        if size == 0:
            return Fault("HEADER_INVALID", "a GTP-U extension header of 0 bytes")
        packet.need(position, size, "a GTP-U extension header")
        extension, position = packet.buffer[position + size - 1], position + size
    return NextHeader(ANY_IP, position)


def _l2tp(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 6, "an L2TP header")
    flags = packet.uint16(position)
    if flags & 15 != 2:
        return sealed("UDP", "L2TP version 3") if flags & 15 == 3 else _UDP
    if flags & 0x8000:
        return Other("L2TP: control message")
    position += 6 + (2 if flags & 0x4000 else 0) + (4 if flags & 0x0800 else 0)
    if flags & 0x0200:
        packet.need(position, 2, "an L2TP header")
        position += 2 + packet.uint16(position)
    return NextHeader(PPP, position)


def _tazmen(packet: Packet, position: int) -> NextHeader | ReadResult:
    """TZSP, with which access points and routers mirror packets: a header of four bytes, and tags."""
    packet.need(position, 5, "a TZSP header")
    if packet.buffer[position] != 1 or packet.uint16(position + 2) != 1:
        return _UDP
    position += 4
    while True:
        packet.need(position, 1, "a TZSP tag")
        tag, position = packet.buffer[position], position + 1
        if tag == 1:
            return NextHeader(ETHERNET, position)
        if tag:
            packet.need(position, 1, "a TZSP tag")
            position += 1 + packet.buffer[position]


def _esp_in_udp(packet: Packet, position: int) -> NextHeader | ReadResult:
    if packet.wire_end - position == 1:
        return Other("UDP: keep-alive of IPsec")
    packet.need(position, 4, "an ESP header")
    return esp(packet, position) if packet.uint32(position) else Other("UDP: IKE")


def esp(packet: Packet, position: int) -> NextHeader | ReadResult:
    """Read ESP in tunnel mode; kshark.link.ip reads a TCP segment in transport mode, since it has the addresses."""
    packet.need(position, 8, "an ESP header")
    inner = in_clear(packet, position)
    if inner is None or inner.protocol == TCP:
        return sealed("IP", "ESP")
    packet.narrow(inner.end)
    return NextHeader(ANY_IP, inner.begin)


def _ether_ip(packet: Packet, position: int) -> NextHeader | ReadResult:
    packet.need(position, 2, "an EtherIP header")
    return NextHeader(ETHERNET, position + 2)


def _carries(ethertype: int) -> Layer:
    """Return a layer without a header of its own."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        return NextHeader(ethertype, position)

    return layer


UDP_TUNNELS: Final[Mapping[int, Layer]] = {
    **dict.fromkeys(VXLAN_PORTS, _vxlan),
    1701: _l2tp,
    2152: _gtp_u,
    4500: _esp_in_udp,
    4754: gre,
    4790: _vxlan_gpe,
    GENEVE_PORT: _geneve,
    6635: _carries(MPLS),
    37008: _tazmen,
}
#: By IP protocol number.
TUNNELS: Final[Mapping[int, Layer]] = {
    4: _carries(IPV4),
    17: udp,
    41: _carries(IPV6),
    47: gre,
    50: esp,
    97: _ether_ip,
    137: _carries(MPLS),
    143: _carries(ETHERNET),
}
#: UDP ports that belong to a known protocol.
TELLING_PORTS: Final = frozenset((*UDP_TUNNELS, *_SEALED))
