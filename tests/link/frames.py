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
        header = struct.pack(
            ">HHIIBBHHH", *self.ports, self.seq, self.ack, (20 + len(self.options)) << 2, self.flags, 65535, 0, 0
        )
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


def ipv6(
    tcp: Tcp, *, extensions: tuple[tuple[int, bytes], ...] = (), payload_length: int | None = None, last: int = 6
) -> bytes:
    """`extensions` are (protocol number, header without its first byte)."""
    protocols = [number for number, _ in extensions] + [last]
    inner = b"".join(
        bytes([following]) + rest for (_, rest), following in zip(extensions, protocols[1:], strict=True)
    ) + bytes(tcp)
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


HOSTS = "192.168.1.1", "192.168.1.2"


def outer(protocol: int, inner: bytes, *, ends: tuple[str, str] = HOSTS, fragment: int = 0, number: int = 1) -> bytes:
    """An IPv4 packet around something."""
    addresses = b"".join(ip_address(end).packed for end in ends)
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), number, fragment, 64, protocol, 0) + addresses + inner


def outer_6(protocol: int, inner: bytes) -> bytes:
    addresses = ip_address("2001:db8:1::1").packed + ip_address("2001:db8:1::2").packed
    return struct.pack(">IHBB", 0x60000000, len(inner), protocol, 64) + addresses + inner


def udp(port: int, inner: bytes, source: int = 40000) -> bytes:
    return outer(17, struct.pack(">HHHH", source, port, 8 + len(inner), 0) + inner)


def vxlan(inner: bytes, port: int = 4789) -> bytes:
    return udp(port, b"\x08\0\0\0\0\0\x2a\0" + inner)


def geneve(ethertype: int, inner: bytes, options: bytes = b"") -> bytes:
    return udp(6081, struct.pack(">BBHI", len(options) // 4, 0, ethertype, 42 << 8) + options + inner)


def gre(protocol: int, inner: bytes, flags: int = 0, more: bytes = b"") -> bytes:
    return outer(47, struct.pack(">HH", flags, protocol) + more + inner)


def ethernet_of(data: bytes) -> bytes:
    """An Ethernet frame around an IP packet."""
    return MACS + (b"\x08\0" if data[0] >> 4 == 4 else b"\x86\xdd") + data


def esp_null(tcp: Tcp) -> bytes:
    """ESP without encryption: the TCP segment, padding to four bytes, its length, TCP, 12 bytes of integrity check
    value."""
    inner = bytes(tcp)
    padding = bytes(range(1, 1 + (-len(inner) - 2) % 4))
    body = bytes(8) + inner + padding + bytes([len(padding), 6]) + bytes(12)
    header = (
        ipv4(tcp, protocol=50, total=20 + len(body))[:20]
        if tcp.version == 4
        else ipv6(tcp, last=50, payload_length=len(body))[:40]
    )
    return header + body


def gtp_u(inner: bytes, flags: int = 0x30, more: bytes = b"") -> bytes:
    return udp(2152, struct.pack(">BBHI", flags, 255, len(more) + len(inner), 7) + more + inner)


def snap(tcp: Tcp) -> bytes:
    return b"\xaa\xaa\x03\0\0\0" + ethertype(tcp) + ip(tcp)


def l2tp(tcp: Tcp, flags: int, more: bytes) -> bytes:
    return udp(1701, struct.pack(">H", flags) + more + b"\xff\x03" + ppp_protocol(tcp) + ip(tcp))


def radio(header: bytes) -> Callable[[Tcp], bytes]:
    """An 802.11 data frame behind a radio header."""
    return lambda tcp: header + b"\x08\x01" + bytes(22) + snap(tcp)


def erspan_3(tcp: Tcp, last: int = 0, more: bytes = b"") -> bytes:
    return gre(0x22EB, b"\x20\5\0\1" + bytes(6) + last.to_bytes(2, "big") + more + ethernet(tcp), 0x1000, bytes(4))


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
#: The same for tunnels that are read as columns.
TUNNELS: dict[str, tuple[int, Callable[[Tcp], bytes]]] = {
    "vxlan": (1, lambda tcp: ethernet_of(vxlan(ethernet(tcp)))),
    "vxlan, flannel": (113, lambda tcp: bytes(14) + b"\x08\0" + vxlan(ethernet(tcp, (0x8100,)), 8472)),
    "vxlan in vxlan": (1, lambda tcp: ethernet_of(vxlan(ethernet_of(vxlan(ethernet(tcp)))))),
    "geneve": (101, lambda tcp: geneve(0x6558, ethernet(tcp))),
    "geneve, options": (1, lambda tcp: ethernet_of(geneve(IPV4 if tcp.version == 4 else IPV6, ip(tcp), bytes(32)))),
    "gre": (101, lambda tcp: gre(IPV4 if tcp.version == 4 else IPV6, ip(tcp))),
    "gre, checksum, key, sequence": (
        101,
        lambda tcp: gre(IPV4 if tcp.version == 4 else IPV6, ip(tcp), 0xB000, bytes(12)),
    ),
    "nvgre": (1, lambda tcp: ethernet_of(gre(0x6558, ethernet(tcp), 0x2000, bytes(4)))),
    "erspan": (101, lambda tcp: gre(0x88BE, ethernet(tcp))),
    "erspan 2": (101, lambda tcp: gre(0x88BE, b"\x10\5" + bytes(6) + ethernet(tcp), 0x1000, bytes(4))),
    "erspan 3": (101, erspan_3),
    "erspan 3, subheader": (101, lambda tcp: erspan_3(tcp, 1, bytes(8))),
}
#: And for what is read one by one.
UNCOMMON: dict[str, tuple[int, Callable[[Tcp], bytes]]] = {
    "vxlan, three times": (101, lambda tcp: vxlan(ethernet_of(vxlan(ethernet_of(vxlan(ethernet(tcp))))))),
    "vxlan, own port": (101, lambda tcp: vxlan(ethernet(tcp), 7788)),
    "geneve, own port": (101, lambda tcp: udp(7788, b"\2\0\x65\x58\0\0\x2a\0" + bytes(8) + ethernet(tcp))),
    "vxlan-gpe": (
        101,
        lambda tcp: udp(4790, b"\x0c\0\0" + (b"\1" if tcp.version == 4 else b"\2") + bytes(4) + ip(tcp)),
    ),
    "vxlan-gpe, nsh": (101, lambda tcp: udp(4790, b"\x0c\0\0\4" + bytes(4) + b"\0\2\1\3" + bytes(4) + ethernet(tcp))),
    "gre in udp": (101, lambda tcp: udp(4754, b"\0\0" + ethertype(tcp) + ip(tcp))),
    "mpls in udp": (101, lambda tcp: udp(6635, b"\0\0\x11\x40" + ip(tcp))),
    "pptp": (101, lambda tcp: gre(0x880B, ppp_protocol(tcp) + ip(tcp), 0x3081, bytes(12))),
    "ip in ipv4": (101, lambda tcp: outer(4 if tcp.version == 4 else 41, ip(tcp))),
    "ip in ipv6": (101, lambda tcp: outer_6(4 if tcp.version == 4 else 41, ip(tcp))),
    "ether-ip": (101, lambda tcp: outer(97, b"\x30\0" + ethernet(tcp))),
    "segment routing": (101, lambda tcp: outer_6(43, b"\x8f\0\4\0" + bytes(4) + ethernet(tcp))),
    "gtp-u": (101, lambda tcp: gtp_u(ip(tcp))),
    "gtp-u, extension": (101, lambda tcp: gtp_u(ip(tcp), 0x34, bytes(3) + b"\x85\1\0\0\0")),
    "l2tp": (101, lambda tcp: l2tp(tcp, 2, bytes(4))),
    "l2tp, length, sequence, offset": (101, lambda tcp: l2tp(tcp, 0x4A02, bytes(10) + b"\0\3" + bytes(3))),
    "ah": (
        101,
        lambda tcp: (
            outer(51, b"\6\4" + bytes(22) + bytes(tcp), ends=(tcp.source, tcp.target)) if tcp.version == 4 else ip(tcp)
        ),
    ),
    "esp without encryption": (101, esp_null),
    "esp without encryption, tunnel": (101, lambda tcp: outer(50, bytes(8) + ip(tcp) + b"\1\2\2\4" + bytes(16))),
    "esp in udp": (101, lambda tcp: udp(4500, b"\0\0\0\1" + bytes(4) + ip(tcp) + b"\1\2\2\4" + bytes(12))),
    "tzsp": (101, lambda tcp: udp(37008, b"\1\0\0\1\0\x0a\1\7\1" + ethernet(tcp))),
    "cisco metadata": (1, lambda tcp: MACS + b"\x89\x09\1\1\0\1\0\5" + ethertype(tcp) + ip(tcp)),
    "vn-tag": (1, lambda tcp: MACS + b"\x89\x26" + bytes(4) + ethertype(tcp) + ip(tcp)),
    "provider backbone": (1, lambda tcp: MACS + b"\x88\xe7" + bytes(4) + ethernet(tcp)),
    "macsec": (1, lambda tcp: MACS + b"\x88\xe5\x20\0" + bytes(12) + ethertype(tcp) + ip(tcp) + bytes(16)),
    "pseudowire": (1, lambda tcp: MACS + b"\x88\x47\0\1\1\x40" + bytes(4) + ethernet(tcp)),
    "pseudowire, no control word": (1, lambda tcp: MACS + b"\x88\x47\0\1\1\x40" + b"\x02" + ethernet(tcp)[1:]),
    "802.2 ip": (1, lambda tcp: MACS + b"\0\x50\6\6\3" + ip(tcp) if tcp.version == 4 else ethernet(tcp)),
    "token ring": (6, lambda tcp: b"\x10\x40" + MACS + snap(tcp)),
    "token ring, route": (
        6,
        lambda tcp: b"\x10\x40" + bytes(6) + b"\x80" + bytes(5) + b"\x06\x30" + bytes(4) + snap(tcp),
    ),
    "fddi": (10, lambda tcp: b"\x50" + MACS + snap(tcp)),
    "atm": (100, snap),
    "hdlc": (104, lambda tcp: b"\x0f\0" + ethertype(tcp) + ip(tcp)),
    "hdlc, direction": (205, lambda tcp: b"\0\x0f\0" + ethertype(tcp) + ip(tcp)),
    "ppp over serial": (50, lambda tcp: b"\xff\x03" + ppp_protocol(tcp) + ip(tcp)),
    "ppp, direction": (204, lambda tcp: b"\1\xff\x03" + ppp_protocol(tcp) + ip(tcp)),
    "802.11": (105, radio(b"")),
    "802.11 qos, four addresses": (105, lambda tcp: b"\x88\x03" + bytes(30) + snap(tcp)),
    "802.11 qos, aligned": (105, lambda tcp: b"\x88\x01" + bytes(24) + b"\0\0" + snap(tcp)),
    "radiotap": (127, radio(b"\0\0\x0a\0" + bytes(6))),
    "prism": (119, radio(b"\x44\0\0\0\x90\0\0\0" + bytes(136))),
    "avs": (163, radio(b"\x80\x21\x10\1\0\0\0\x40" + bytes(56))),
    "ppi": (192, radio(b"\0\0\x08\0\x69\0\0\0")),
    "frame relay": (107, lambda tcp: b"\x18\x41\x03" + (b"\xcc" if tcp.version == 4 else b"\x8e") + ip(tcp)),
    "frame relay, snap": (107, lambda tcp: b"\x18\x41\x03\0\x80\0\0\0" + ethertype(tcp) + ip(tcp)),
    "frame relay of cisco": (206, lambda tcp: b"\1\x18\x41" + ethertype(tcp) + ip(tcp)),
    "enc": (109, lambda tcp: family(tcp, "<", 24) + bytes(8) + ip(tcp)),
    "pflog": (117, lambda tcp: b"\x3d\2\0\0" + bytes(60) + ip(tcp)),
    "fibre channel": (122, lambda tcp: bytes(16) + snap(tcp)),
    "ieee 1394": (138, lambda tcp: bytes(16) + ethertype(tcp) + ip(tcp)),
    "docsis": (143, lambda tcp: b"\0\0" + struct.pack(">H", len(ethernet(tcp))) + bytes(2) + ethernet(tcp)),
    "ethernet of a cmts": (143, lambda tcp: ethernet(tcp)),
    "pktap": (258, lambda tcp: struct.pack("<III", 108, 1, 1) + bytes(96) + ethernet(tcp)),
    "pktap, user 2": (149, lambda tcp: struct.pack("<III", 108, 1, 12) + bytes(96) + ip(tcp)),
    "juniper": (178, lambda tcp: b"MGC\x80\0\2\0\0" + ethernet(tcp)),
    "juniper, no link layer": (178, lambda tcp: b"MGC\2\2\0\0\0" + ip(tcp)),
    "mpls": (219, lambda tcp: b"\0\0\x11\x40" + ip(tcp)),
    "nflog": (239, lambda tcp: b"\2\0\0\0\5\0\x0a\0x\0\0\0" + struct.pack("<HH", 4 + len(ip(tcp)), 9) + ip(tcp)),
    "nflog, big": (239, lambda tcp: b"\2\0\0\0\0\5\0\x0ax\0\0\0" + struct.pack(">HH", 4 + len(ip(tcp)), 9) + ip(tcp)),
    "netanalyzer": (240, lambda tcp: bytes(4) + ethernet(tcp) + bytes(4)),
    "netanalyzer, transparent": (241, lambda tcp: bytes(4) + b"\x55" * 7 + b"\xd5" + ethernet(tcp) + bytes(4)),
    "infiniband": (242, lambda tcp: ethertype(tcp) + bytes(2) + ip(tcp)),
    "infiniband, route": (242, lambda tcp: bytes(40) + ethertype(tcp) + bytes(2) + ip(tcp)),
    "mpacket": (274, lambda tcp: b"\x55" * 7 + b"\xd5" + ethernet(tcp) + bytes(4)),
}
LAYOUTS |= TUNNELS | UNCOMMON


def packet(data: bytes, link_type: int = 1, *, wire: int | None = None, time_ns: int = START_NS) -> Packet:
    return Packet(time_ns, data, len(data) if wire is None else wire, link_type)


def one(data: bytes, link_type: int = 1, *, wire: int | None = None) -> PacketBatch:
    return batch([packet(data, link_type, wire=wire)])
