"""Packets of every layout the link stage knows, by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from kshark.model import ACK, PacketBatch
from tests.packets import START_NS, Packet, batch

IPV4, IPV6 = 0x0800, 0x86DD
MACS = bytes(12)


@dataclass(frozen=True)
class Tcp:
    """A TCP segment between two endpoints; `options` are the TCP header's."""

    source: str = "10.0.0.1"
    target: str = "10.0.0.9"
    ports: tuple[int, int] = (50000, 9092)
    seq: int = 1000
    ack: int = 2000
    flags: int = ACK
    payload: bytes = b"payload"
    options: bytes = b""

    def __bytes__(self) -> bytes:
        header = struct.pack(">HHIIBBHHH", *self.ports, self.seq, self.ack, (20 + len(self.options)) << 2, self.flags, 65535, 0, 0)
        return header + self.options + self.payload

    @property
    def version(self) -> int:
        return ip_address(self.source).version


def ipv4(tcp: Tcp, *, options: bytes = b"", total: int | None = None, fragment: int = 0, protocol: int = 6) -> bytes:
    inner = bytes(tcp)
    size = 20 + len(options) + len(inner) if total is None else total
    first = 0x40 | (20 + len(options)) // 4
    addresses = ip_address(tcp.source).packed + ip_address(tcp.target).packed
    return struct.pack(">BBHHHBBH", first, 0, size, 7, fragment, 64, protocol, 0) + addresses + options + inner


def ipv6(tcp: Tcp, *, extensions: tuple[tuple[int, bytes], ...] = (), payload_length: int | None = None, last: int = 6) -> bytes:
    """`extensions` are (protocol number, header without its first byte)."""
    protocols = [number for number, _ in extensions] + [last]
    inner = b"".join(bytes([following]) + rest for (_, rest), following in zip(extensions, protocols[1:], strict=True)) + bytes(tcp)
    size = len(inner) if payload_length is None else payload_length
    addresses = ip_address(tcp.source).packed + ip_address(tcp.target).packed
    return struct.pack(">IHBB", 0x60000000, size, protocols[0], 64) + addresses + inner


def ip(tcp: Tcp) -> bytes:
    return ipv4(tcp) if tcp.version == 4 else ipv6(tcp)


def ethertype(tcp: Tcp) -> bytes:
    return struct.pack(">H", IPV4 if tcp.version == 4 else IPV6)


def ethernet(tcp: Tcp, tags: tuple[int, ...] = ()) -> bytes:
    return MACS + b"".join(struct.pack(">HH", tag, 5) for tag in tags) + ethertype(tcp) + ip(tcp)


def family(tcp: Tcp, order: str, ipv6_family: int = 30) -> bytes:
    return struct.pack(order + "I", 2 if tcp.version == 4 else ipv6_family)


def ppp_protocol(tcp: Tcp) -> bytes:
    return b"\x00\x21" if tcp.version == 4 else b"\x00\x57"


#: A name, the link type, and how a segment is wrapped.
LAYOUTS: dict[str, tuple[int, Callable[[Tcp], bytes]]] = {
    "ethernet": (1, ethernet),
    "ethernet, one tag": (1, lambda tcp: ethernet(tcp, (0x8100,))),
    "ethernet, two tags": (1, lambda tcp: ethernet(tcp, (0x88A8, 0x8100))),
    "ethernet, old double tags": (1, lambda tcp: ethernet(tcp, (0x9100, 0x8100))),
    "ethernet, three tags": (1, lambda tcp: ethernet(tcp, (0x88A8, 0x8100, 0x8100))),
    "ethernet, snap": (1, lambda tcp: MACS + b"\0\x50\xaa\xaa\x03\0\0\0" + ethertype(tcp) + ip(tcp)),
    "ethernet, mpls": (1, lambda tcp: MACS + b"\x88\x47\0\0\x10\x40\0\0\x21\x40" + ip(tcp)),
    "ethernet, pppoe": (1, lambda tcp: MACS + b"\x88\x64\x11\0\0\1\0\0" + ppp_protocol(tcp) + ip(tcp)),
    "cooked": (113, lambda tcp: bytes(14) + ethertype(tcp) + ip(tcp)),
    "cooked, tag": (113, lambda tcp: bytes(14) + b"\x81\0\0\5" + ethertype(tcp) + ip(tcp)),
    "cooked 2": (276, lambda tcp: ethertype(tcp) + bytes(18) + ip(tcp)),
    "null, little": (0, lambda tcp: family(tcp, "<") + ip(tcp)),
    "null, big": (0, lambda tcp: family(tcp, ">", 24) + ip(tcp)),
    "loop": (108, lambda tcp: family(tcp, ">", 28) + ip(tcp)),
    "null, linux": (0, lambda tcp: family(tcp, "<", 10) + ip(tcp)),
    "raw": (101, ip),
    "raw of BSD": (12, ip),
    "raw of OpenBSD": (14, ip),
    "ppp": (9, lambda tcp: b"\xff\x03" + ppp_protocol(tcp) + ip(tcp)),
    "ppp, compressed": (9, lambda tcp: ppp_protocol(tcp)[1:] + ip(tcp)),
    "pppoe": (51, lambda tcp: b"\x11\0\0\1\0\0" + ppp_protocol(tcp) + ip(tcp)),
}


def packet(data: bytes, link_type: int = 1, *, wire: int | None = None, time_ns: int = START_NS) -> Packet:
    return Packet(time_ns, data, len(data) if wire is None else wire, link_type)


def one(data: bytes, link_type: int = 1, *, wire: int | None = None) -> PacketBatch:
    return batch([packet(data, link_type, wire=wire)])
