"""Read one packet exactly: from the link layer to the TCP payload, step by step, with every length checked.

Ordinary frames are read as columns (kshark.link.columns); this module reads all others, and tests compare the columns
with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshark.link.ip import any_ip, carried, ipv4, ipv6
from kshark.link.links import LINK_LAYERS, unknown_link
from kshark.link.packet import (
    ANY_IP,
    IPV4,
    IPV6,
    Datagram,
    Layer,
    NextHeader,
    Other,
    Packet,
    ReadResult,
    Settled,
    sealed,
)
from kshark.link.shims import SHIMS

_LAYERS: Final[Mapping[int, Layer]] = {**SHIMS, ANY_IP: any_ip, IPV4: ipv4, IPV6: ipv6}
#: Ethertypes that hold no TCP.
_ETHERTYPES: Final = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8809: "LACP",
    0x8863: "PPPoE discovery",
    0x888E: "EAPOL",
    0x88CC: "LLDP",
    0x88F7: "PTP",
    0x8902: "CFM",
    0x9000: "loopback test",
}


def read_packet(buffer: bytes, offset: int, length: int, wire_length: int, link_type: int) -> ReadResult:
    """Read the packet at `offset`; `length` bytes of it were captured, `wire_length` were sent."""
    layer = LINK_LAYERS.get(link_type)
    if layer is None:
        return unknown_link(link_type)
    return _read(Packet(buffer, offset + length, offset + max(length, wire_length)), layer, offset)


def read_datagram(datagram: Datagram, payload: bytes, size: int) -> ReadResult:
    """Read a reassembled IP packet's payload; `payload` is the captured part of `size` bytes."""

    def layer(packet: Packet, position: int) -> NextHeader | ReadResult:
        return carried(packet, datagram.protocol, position, size, datagram.addresses, datagram.version)

    return _read(Packet(payload, len(payload), size), layer, 0)


def _read(packet: Packet, layer: Layer, position: int) -> ReadResult:
    try:
        result = layer(packet, position)
        while isinstance(result, NextHeader):
            following = _LAYERS.get(result.ethertype)
            if following is None:
                return _other_ethertype(result.ethertype)
            result = following(packet, result.position)
    except Settled as settled:
        return settled.result
    return result


def _other_ethertype(ethertype: int) -> Other:
    if ethertype in _ETHERTYPES:
        return Other(_ETHERTYPES[ethertype])
    return sealed("Ethernet", f"type {ethertype:#06x}")
