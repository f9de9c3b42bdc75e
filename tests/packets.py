"""Packets by hand: TCP connections whose bytes tests decide, as batches for the stages or as a capture file."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from kshark.model import ACK, FIN, RST, SYN, PacketBatch

ETHERNET = 1
START_NS = 1_795_231_172_000_000_000


@dataclass(slots=True, unsafe_hash=True)
class Packet:
    """One captured frame. Nobody changes one: it is not frozen because tests make millions, which would take four times
    as long."""

    time_ns: int
    data: bytes
    wire_length: int
    link_type: int = ETHERNET

    def at(self, time_ns: int) -> Packet:
        """The same, captured at that time."""
        return Packet(time_ns, self.data, self.wire_length, self.link_type)


@cache
def ipv4(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def tcp_packet(
    source: str,
    target: str,
    seq: int,
    ack: int,
    flags: int,
    payload: bytes = b"",
    *,
    time_ns: int = START_NS,
    stamps: tuple[int, int] | None = None,
    window: int = 65535,
) -> Packet:
    """An Ethernet/IPv4/TCP frame; `source` and `target` are `address:port`, checksums are zero as with offloading.
    `stamps`: the TCP timestamps, own and echoed (RFC 7323)."""
    options = b"" if stamps is None else struct.pack(">BBBBII", 1, 1, 8, 10, *stamps)
    (src, sport), (dst, dport) = (end.rsplit(":", 1) for end in (source, target))
    tcp = struct.pack(
        ">HHIIBBHHH",
        int(sport),
        int(dport),
        seq & 0xFFFFFFFF,
        ack & 0xFFFFFFFF,
        5 + len(options) // 4 << 4,
        flags,
        window,
        0,
        0,
    )
    payload = options + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, ipv4(src), ipv4(dst))
    data = b"\0" * 12 + b"\x08\x00" + ip + tcp + payload
    return Packet(time_ns, data, len(data))


@dataclass
class Wire:
    """Packets in capture order, one millisecond apart unless told."""

    packets: list[Packet] = field(default_factory=list)
    time_ns: int = START_NS
    step_ns: int = 1_000_000
    #: Hosts send TCP timestamps, which show how much time passed whatever the capture's clock says.
    stamped: bool = False

    def add(self, packet: Packet) -> int:
        """Puts a packet at the present moment; returns its number."""
        self.packets.append(packet.at(self.time_ns))
        self.time_ns += self.step_ns
        return len(self.packets)

    def pause(self, seconds: float) -> None:
        self.time_ns += int(seconds * 1e9)


@dataclass
class Tcp:
    """A connection on a wire: `tcp.client(b"...")` sends, packet by packet; no loss unless a test removes packets."""

    wire: Wire
    source: str = "10.0.0.1:50000"
    target: str = "10.0.0.9:9092"
    seq: list[int] = field(default_factory=lambda: [1_000, 5_000])
    #: By side: the number up to which it has received the other's bytes, while more of them are on their way.
    received: list[int | None] = field(default_factory=lambda: [None, None])

    @contextmanager
    def on_the_way(self, side: int = 0) -> Iterator[None]:
        """While this lasts, what is sent to a side does not reach it: it acknowledges none of it."""
        self.received[side] = self.seq[1 - side]
        yield
        self.received[side] = None

    def _send(self, side: int, flags: int, payload: bytes = b"") -> int:
        ends, received = (self.source, self.target), self.received[side]
        ack = self.seq[1 - side] if received is None else received
        now = self.wire.time_ns // 1_000_000 & 0xFFFFFFFF
        stamps = (now, now) if self.wire.stamped else None
        number = self.wire.add(
            tcp_packet(ends[side], ends[1 - side], self.seq[side], ack, flags, payload, stamps=stamps)
        )
        self.seq[side] += len(payload) + (1 if flags & (SYN | FIN) else 0)
        return number

    def open(self) -> Tcp:
        self._send(0, SYN)
        self._send(1, SYN | ACK)
        self._send(0, ACK)
        return self

    def client(self, data: bytes, *, mss: int = 1460) -> list[int]:
        return [self._send(0, ACK, data[i : i + mss]) for i in range(0, len(data), mss)]

    def broker(self, data: bytes, *, mss: int = 1460) -> list[int]:
        return [self._send(1, ACK, data[i : i + mss]) for i in range(0, len(data), mss)]

    def acknowledge(self, side: int = 0, *, ahead: int = 0) -> int:
        """A segment without bytes; `ahead`: after so many bytes that the capture does not have (yet)."""
        self.seq[side] += ahead
        number = self._send(side, ACK)
        self.seq[side] -= ahead
        return number

    def fin(self, side: int = 0) -> int:
        return self._send(side, FIN | ACK)

    def close(self) -> None:
        self.fin(0)
        self.fin(1)
        self._send(0, ACK)

    def reset(self, side: int = 0) -> int:
        return self._send(side, RST)


def batch(packets: Iterable[Packet], first_number: int = 1) -> PacketBatch:
    """Packets as one batch, numbered from `first_number`."""
    rows = list(packets)
    lengths = np.array([len(p.data) for p in rows], np.int64)
    ends = np.cumsum(lengths)
    return PacketBatch(
        buffer=b"".join(p.data for p in rows),
        number=np.arange(first_number, first_number + len(rows), dtype=np.int64),
        time_ns=np.array([p.time_ns for p in rows], np.int64),
        link_type=np.array([p.link_type for p in rows], np.int64),
        offset=ends - lengths,
        length=lengths,
        wire_length=np.array([p.wire_length for p in rows], np.int64),
    )


def batches(packets: Iterable[Packet], sizes: Iterable[int]) -> list[PacketBatch]:
    """The same packets cut into batches of the given sizes; the last one takes the rest."""
    rows = list(packets)
    out, at = [], 0
    for size in sizes:
        if at < len(rows):
            out.append(batch(rows[at : at + size], at + 1))
            at += size
    if at < len(rows):
        out.append(batch(rows[at:], at + 1))
    return out


def pcap(packets: Iterable[Packet], *, nano: bool = True, link_type: int = ETHERNET, snaplen: int = 262144) -> bytes:
    """A pcap file, little-endian, nanoseconds unless told."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, link_type)]
    for p in packets:
        seconds, rest = divmod(p.time_ns, 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, rest if nano else rest // 1000, len(p.data), p.wire_length))
        out.append(p.data)
    return b"".join(out)
