"""What all stages hold of open connections, in bytes: as many as limits.FLOWS must fit into memory, and most never come
to much."""

from __future__ import annotations

import gc
import struct
import tracemalloc

from kshark.analysis import Analyzer
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from tests.exchange.test_stage import API_VERSIONS, framed, request
from tests.packets import ACK, SYN, Packet, batches, tcp_packet

BROKER = "10.0.0.9:9092"


def handshake(client: str) -> list[Packet]:
    return [
        tcp_packet(client, BROKER, 100, 0, SYN),
        tcp_packet(BROKER, client, 500, 101, SYN | ACK),
        tcp_packet(client, BROKER, 101, 501, ACK),
    ]


def exchange(client: str) -> list[Packet]:
    asked, told = request(API_VERSIONS, 0, 1), framed(struct.pack(">ihihhh", 1, 0, 1, API_VERSIONS, 0, 4))
    return [
        tcp_packet(client, BROKER, 101, 501, ACK, asked),
        tcp_packet(BROKER, client, 501, 101 + len(asked), ACK, told),
    ]


def held(connections: int, *, used: bool) -> int:
    """Bytes for so many open connections, each with a request and its answer or with none."""
    clients = [f"10.1.{number >> 8}.{number & 255}:50000" for number in range(connections)]
    packets = [packet for client in clients for packet in (*handshake(client), *(exchange(client) if used else ()))]
    read = batches(packets, [len(packets)])
    engine, analyzer = Engine(JUDGED, Registry()), Analyzer()
    gc.collect()
    gc.freeze()  # whatever other tests left is not looked at again
    tracemalloc.start()
    try:
        for batch in read:
            for page in engine.feed(batch):
                analyzer.page(page)
                page.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def one(*, used: bool) -> float:
    held(10, used=used)  # what is made once
    return (held(110, used=used) - held(30, used=used)) / 80


def test_a_connection_without_data_takes_little() -> None:
    assert one(used=False) < 2_300


def test_an_idle_connection_of_kafkas_takes_little() -> None:
    assert one(used=True) < 4_200


if __name__ == "__main__":
    print(f"{one(used=False):.0f} bytes without data, {one(used=True):.0f} with an exchange")
