"""A capture file written packet by packet: Ethernet, IPv4, TCP without options, as on a link of 1500 bytes MTU.
Checksums are zero."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import BinaryIO, Final

from kshark.model import ACK, FIN, SYN

MSS: Final = 1460
#: Nanoseconds that a full segment takes at 10 Gbit/s, and that an answer lets wait.
SEGMENT_NS: Final = 1_200
ANSWER_NS: Final = 150_000
START_NS: Final = 1_790_000_000_000_000_000
#: Bytes held back before they go to the file.
HELD: Final = 1 << 20

_PCAP: Final = Struct("<IHHiIII")
_RECORD: Final = Struct("<IIII")
#: What follows the IPv4 addresses and ports: seq, ack, data offset, flags, window, checksum, urgent pointer.
_TCP: Final = Struct(">IIBBHHH")
_PUSH: Final = 8
_HEADERS: Final = 54

#: The order in which the segments of one burst arrive, as their places.
Order = Callable[[int], list[int]]


def in_order(count: int) -> list[int]:
    return list(range(count))


class Wire:
    """A nanosecond pcap, and the clock of its packets."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._held: list[bytes] = [_PCAP.pack(0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)]
        self._held_bytes = 0
        self.time_ns = START_NS
        self.written = 0

    def packet(self, ends: bytes, seq: int, ack: int, flags: int, payload: bytes) -> None:
        """One packet at the present moment; `ends` are both IPv4 addresses and both ports, sender first."""
        seconds, rest = divmod(self.time_ns, 1_000_000_000)
        size = _HEADERS + len(payload)
        self._held.append(
            _RECORD.pack(seconds, rest, size, size)
            + b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\x00\x45\0"
            + (size - 14).to_bytes(2, "big")
            + b"\0\0\x40\0\x40\6\0\0"
            + ends
            + _TCP.pack(seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 65_535, 0, 0)
            + payload
        )
        self.written += size + 16
        self._held_bytes += size
        if self._held_bytes > HELD:
            self.flush()

    def flush(self) -> None:
        self._out.write(b"".join(self._held))
        self._held.clear()
        self._held_bytes = 0


class Connection:
    """A TCP connection on a wire: the client is side 0. The receiver of a burst acknowledges every second segment (RFC
    1122, 4.2.3.2)."""

    def __init__(self, wire: Wire, client: str, broker: str, order: Order = in_order) -> None:
        (client_ip, client_port), (broker_ip, broker_port) = (end.rsplit(":", 1) for end in (client, broker))
        ips = [bytes(map(int, ip.split("."))) for ip in (client_ip, broker_ip)]
        ports = [int(port).to_bytes(2, "big") for port in (client_port, broker_port)]
        self._ends = (ips[0] + ips[1] + ports[0] + ports[1], ips[1] + ips[0] + ports[1] + ports[0])
        self._wire = wire
        self._order = order
        #: Next byte that each side sends.
        self.seq = [1_000, 5_000]

    def open(self) -> None:
        for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
            self.bare(side, flags)
        self._wire.time_ns += ANSWER_NS

    def close(self) -> None:
        for side, flags in ((0, FIN | ACK), (1, FIN | ACK), (0, ACK)):
            self.bare(side, flags)

    def bare(self, side: int, flags: int) -> None:
        """A packet without payload; the first SYN acknowledges nothing."""
        self._wire.packet(self._ends[side], self.seq[side], self.seq[1 - side] if flags & ACK else 0, flags, b"")
        self.seq[side] += flags & (SYN | FIN) != 0
        self._wire.time_ns += SEGMENT_NS

    def piece(self, side: int, payload: bytes) -> None:
        """One segment as it is."""
        self._wire.packet(self._ends[side], self.seq[side], self.seq[1 - side], ACK | _PUSH, payload)
        self.seq[side] += len(payload)

    def send(self, side: int, data: bytes) -> None:
        """A message: its segments in the order of arrival, acknowledged as far as they came without a hole."""
        wire, first, other = self._wire, self.seq[side], self.seq[1 - side]
        count = -(-len(data) // MSS)
        came, whole = set[int](), 0
        for nth, place in enumerate(self._order(count)):
            at = place * MSS
            flags = ACK | _PUSH if place == count - 1 else ACK
            wire.packet(self._ends[side], first + at, other, flags, data[at : at + MSS])
            wire.time_ns += SEGMENT_NS
            came.add(place)
            while whole in came:
                whole += 1
            if nth % 2:
                wire.packet(self._ends[1 - side], other, first + min(whole * MSS, len(data)), ACK, b"")
                wire.time_ns += SEGMENT_NS // 10
        self.seq[side] = first + len(data)
        wire.time_ns += ANSWER_NS
