"""Connections packet by packet, and what is counted of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshark.flows import FlowCounting, ListedFlow, Network
from kshark.model import ACK, FIN, RST, SYN
from kshark.pipeline import Front, Options
from kshark.registry import kafka_registry
from tests.packets import Packet, Wire, batches, tcp_packet

CLIENT, BROKER = "10.0.0.1:50000", "10.0.0.9:9092"
MS = 1_000_000


@dataclass
class Talk:
    """Numbers count from each side's first byte; `at` is in ms since the beginning."""

    wire: Wire = field(default_factory=Wire)
    begin_ns: int = 0
    client: str = CLIENT

    def __post_init__(self) -> None:
        self.begin_ns = self.begin_ns or self.wire.time_ns

    def send(
        self, at: float, side: int, seq: int, ack: int, size: int = 0, flags: int = ACK, window: int = 65535
    ) -> Talk:
        ends = (self.client, BROKER)
        first = (1_001, 5_001)
        packet = tcp_packet(ends[side], ends[1 - side], first[side] + seq, first[1 - side] + ack, flags, b"x" * size)
        tcp = 14 + 20
        data = packet.data[: tcp + 14] + window.to_bytes(2, "big") + packet.data[tcp + 16 :]
        self.wire.packets.append(Packet(self.begin_ns + round(at * MS), data, len(data)))
        return self

    def opened(self, rtt: float = 1.0) -> Talk:
        """The capture is at the client: the way there and back lies between its SYN and the answer."""
        self.send(0, 0, -1, 0, flags=SYN)
        self.send(rtt, 1, -1, 0, flags=SYN | ACK)
        return self.send(rtt, 0, 0, 0)

    def request(self, at: float, seq: int, size: int = 100, ack: int = 0) -> Talk:
        return self.send(at, 0, seq, ack, size)

    def answer(self, at: float, seq: int, ack: int, size: int = 100) -> Talk:
        return self.send(at, 1, seq, ack, size)

    def acked(self, at: float, ack: int, *, seq: int = 0, window: int = 65535) -> Talk:
        """By the broker."""
        return self.send(at, 1, seq, ack, window=window)

    def closed(self, at: float, sent: int = 0, answered: int = 0) -> Talk:
        self.send(at, 0, sent, answered, flags=FIN | ACK)
        self.send(at, 1, answered, sent + 1, flags=FIN | ACK)
        return self.send(at, 0, sent + 1, answered + 1)

    def reset(self, at: float, side: int, seq: int, ack: int) -> Talk:
        return self.send(at, side, seq, ack, flags=RST | ACK)

    @property
    def counted(self) -> tuple[list[ListedFlow], Network]:
        return counted(self.wire.packets)

    @property
    def listed(self) -> ListedFlow:
        """The one connection."""
        (flow,), _ = self.counted
        return flow


def counted(packets: list[Packet], *sizes: int) -> tuple[list[ListedFlow], Network]:
    """All connections of these packets, in batches of these sizes."""
    front, counting = Front(Options(transport=True), kafka_registry()), FlowCounting()
    for lines in front.batches(batches(packets, sizes or [len(packets)])):
        counting.batch(lines)
    return counting.close(0)
