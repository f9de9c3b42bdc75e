"""The relay between clients and brokers, with a pair of sockets instead of a network device."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from kshark.model import ACK
from tests.copies import packets_of
from tests.packets import tcp_packet
from tests.trouble.tunnel import HOST, TUNNEL_PEER, Relay, Tunnel

BROKER: Final = 9092
ETHERNET_HEADER: Final = 14
REQUEST: Final = tcp_packet(f"{HOST}:50000", f"{TUNNEL_PEER}:{BROKER}", 1, 1, ACK, b"request").data[ETHERNET_HEADER:]
ANSWER: Final = tcp_packet(f"{HOST}:{BROKER}", f"{TUNNEL_PEER}:50000", 1, 8, ACK, b"answer").data[ETHERNET_HEADER:]


def carried(folder: Path, trouble: Callable[[Tunnel], None]) -> tuple[list[bytes], list[str]]:
    """Send a request, then an answer. Return the packets that arrive, and how many each end has seen."""
    captures = {side: folder / f"{side}.pcap" for side in ("clients", "brokers")}

    async def send() -> list[bytes]:
        kernel, device = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with kernel, device:
            device.setblocking(False)
            kernel.setblocking(False)
            way = Tunnel(BROKER, Random(1))
            relay = Relay(device.fileno(), {BROKER: way}, captures)
            trouble(way)
            for packet in (REQUEST, ANSWER):
                kernel.send(packet)
                relay.carry_pending()
            await asyncio.sleep(0.1)
            relay.write_captures()
            arrived: list[bytes] = []
            try:
                while True:
                    arrived.append(kernel.recv(1 << 16))
            except BlockingIOError:
                return arrived

    arrived = asyncio.run(send())
    return arrived, [f"{side} see {len(packets_of(path).number)}" for side, path in captures.items()]


def swapped(packet: bytes) -> bytes:
    return packet[:12] + packet[16:20] + packet[12:16] + packet[20:]


def test_a_packet_comes_back_from_the_other_address(tmp_path: Path) -> None:
    arrived, seen = carried(tmp_path, lambda way: None)
    assert arrived == [swapped(REQUEST), swapped(ANSWER)]
    assert seen == ["clients see 2", "brokers see 2"]


def test_a_lost_answer_is_in_the_brokers_capture_only(tmp_path: Path) -> None:
    arrived, seen = carried(tmp_path, lambda way: way.stall(60, "client"))
    assert arrived == [swapped(REQUEST)]
    assert seen == ["clients see 1", "brokers see 2"]


def test_a_lost_request_is_in_the_clients_capture_only(tmp_path: Path) -> None:
    arrived, seen = carried(tmp_path, lambda way: way.lose(1, 60, "broker"))
    assert arrived == [swapped(ANSWER)]
    assert seen == ["clients see 2", "brokers see 1"]


def test_a_delayed_packet_arrives_later(tmp_path: Path) -> None:
    def slow(way: Tunnel) -> None:
        way.to_broker.delay = 0.05

    arrived, seen = carried(tmp_path, slow)
    assert arrived == [swapped(ANSWER), swapped(REQUEST)]
    assert seen == ["clients see 2", "brokers see 2"]
