"""PROXY headers as load balancers write them, and captures whose connections begin with one.

Written from HAProxy's proxy-protocol.txt, not with the code under test.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kshark.capture import open_captures
from kshark.link import Link
from kshark.model import SYN, PacketBatch
from tests.packets import Packet, tcp_packet

SIGNATURE: Final = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
CLIENT: Final = "203.0.113.7"
CLIENT_6: Final = "2001:db8::7"
#: A header for the port of a client.
Maker = Callable[[int], bytes]


def line(words: str) -> bytes:
    """Version 1."""
    return f"PROXY {words}\r\n".encode()


def binary(family: int, body: bytes, command: int = 1, *, version: int = 2, length: int | None = None) -> bytes:
    """Version 2."""
    size = len(body) if length is None else length
    return SIGNATURE + bytes([version << 4 | command, family]) + struct.pack(">H", size) + body


def ipv4(port: int, tlvs: bytes = b"", client: str = CLIENT) -> bytes:
    addresses = socket.inet_aton(client) + socket.inet_aton("10.0.0.9") + struct.pack(">HH", port, 9092)
    return binary(0x11, addresses + tlvs)


def ipv6(port: int, tlvs: bytes = b"") -> bytes:
    both = [socket.inet_pton(socket.AF_INET6, text) for text in (CLIENT_6, "2001:db8::9")]
    return binary(0x21, b"".join(both) + struct.pack(">HH", port, 9092) + tlvs)


def unix() -> bytes:
    return binary(0x31, b"/run/client.sock".ljust(108, b"\0") + b"/run/broker.sock".ljust(108, b"\0"))


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def with_checksum(make: Callable[[bytes], bytes]) -> bytes:
    """The header that `make` gives for TLVs, with a CRC32C before its end."""
    header = make(tlv(3, bytes(4)))
    return header[:-4] + struct.pack(">I", crc32c(header))


def crc32c(data: bytes) -> int:
    """The Castagnoli CRC, bit by bit (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


AWS: Final = tlv(0xEA, b"\x01vpce-08d2bf15fac5001c9")
AZURE: Final = tlv(0xEE, b"\x01" + struct.pack("<I", 0x12345678))
_CIPHER: Final = tlv(0x23, b"TLS_AES_128_GCM_SHA256")
SSL: Final = tlv(0x20, b"\x07" + bytes(4) + tlv(0x21, b"TLSv1.3") + tlv(0x22, b"client-7") + _CIPHER)
ALL: Final = (
    tlv(1, b"kafka") + tlv(2, b"broker-1.kafka.example") + tlv(4, b"\0\0") + tlv(5, b"\x01\x02") + SSL
    + tlv(0x30, b"blue") + tlv(0xE0, struct.pack(">Q", 77)) + tlv(0xF1, b"\xff")
)  # fmt: skip

#: Headers by name, with the host of the client that they name; None: they name none.
HEADERS: Final[dict[str, tuple[Maker, str | None]]] = {
    "v1 TCP4": (lambda port: line(f"TCP4 {CLIENT} 10.0.0.9 {port} 9092"), CLIENT),
    "v1 TCP6": (lambda port: line(f"TCP6 {CLIENT_6} 2001:db8::9 {port} 9092"), f"[{CLIENT_6}]"),
    "v1 UNKNOWN": (lambda port: line("UNKNOWN"), None),
    "v1 UNKNOWN and words": (lambda port: line(f"UNKNOWN ffff::1 ffff::2 {port} 9092"), None),
    "v2 IPv4": (ipv4, CLIENT),
    "v2 IPv6": (ipv6, f"[{CLIENT_6}]"),
    "v2 UNIX": (lambda port: unix(), None),
    "v2 UNSPEC": (lambda port: binary(0x00, b""), None),
    "v2 LOCAL": (lambda port: binary(0x00, b"", 0), None),
    "v2 LOCAL of a family": (lambda port: ipv4(port).replace(b"\x21\x11", b"\x20\x11"), None),
    "v2 AWS": (lambda port: ipv4(port, AWS), CLIENT),
    "v2 Azure": (lambda port: ipv4(port, AZURE), CLIENT),
    "v2 all TLVs": (lambda port: ipv6(port, ALL), f"[{CLIENT_6}]"),
    "v2 CRC32C": (lambda port: with_checksum(lambda tlvs: ipv4(port, SSL + tlvs)), CLIENT),
    "two proxies": (lambda port: ipv4(50_000, client="10.0.0.3") + line(f"TCP4 {CLIENT} 10.0.0.3 {port} 9092"), CLIENT),
}
#: How the header lies in packets: with the first request, alone, in pieces of so many bytes.
LAYOUTS: Final = ("together", "alone", "1 byte", "13 bytes")


def of_capture(path: Path, make: Maker | None, layout: str = "together") -> list[Packet]:
    """The packets of a capture with IPv4; every connection with a SYN begins with a header.

    `make` None: the same packets, those that would carry the header without their payload.
    """
    link = Link()
    packets: list[Packet] = []
    shifts: dict[int, int] = {}
    begun: dict[int, int] = {}
    headed: set[int] = set()
    for item in open_captures([path]):
        if not isinstance(item, PacketBatch):
            continue
        segments, _ = link.feed(item)
        if segments is None:
            continue
        columns = (
            segments.path, segments.seq, segments.ack, segments.flags, segments.offset, segments.length,
            segments.time_ns,
        )  # fmt: skip
        for where, seq, ack, flags, at, size, time_ns in zip(*(column.tolist() for column in columns), strict=True):
            ends = segments.ends[where >> 1]
            source, target = (ends.first, ends.second) if where & 1 == 0 else (ends.second, ends.first)
            payload = segments.buffer[at : at + size]
            if flags & SYN and not flags & 16:
                begun[where] = seq
                header = make(int(source.rpartition(":")[2])) if make is not None else b""
                shifts[where] = len(header)
                headed.discard(where)
            if where in begun and payload and where not in headed:
                headed.add(where)
                header = (make or _any)(int(source.rpartition(":")[2]))
                step = {"alone": len(header), "1 byte": 1, "13 bytes": 13}.get(layout)
                shift = 0
                for begin in range(0, len(header), step) if step else ():
                    part = header[begin : begin + step] if make is not None else b""  # type: ignore[operator]
                    packets.append(tcp_packet(source, target, seq + shift, ack, 16, part, time_ns=time_ns))
                    shift += len(part)
                if not step and make is not None:
                    packets.append(tcp_packet(source, target, seq, ack, flags, header + payload, time_ns=time_ns))
                    continue
            seq += shifts.get(where, 0) if where in headed else 0
            other = where ^ 1
            if other in headed and ack - begun[other] & 0xFFFFFFFF > 1:
                ack += shifts[other]
            packets.append(tcp_packet(source, target, seq, ack, flags, payload, time_ns=time_ns))
    return packets


def _any(port: int) -> bytes:
    return bytes(50)
