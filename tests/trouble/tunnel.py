"""A network between clients and brokers that loses, delays and reorders IP packets, each direction by itself.

Clients connect to TUNNEL_PEER, which is routed into a TUN device. The relay swaps the addresses of each packet and
writes it back, so the broker on this host sees a client at TUNNEL_PEER. Swapping two addresses changes no checksum.
Both ends are recorded: a packet that is lost on its way is in the capture of its sender only.

Needs the right to create network devices (root, or CAP_NET_ADMIN).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.packets import Packet, ipv4, pcap

HOST: Final = "10.99.0.1"
TUNNEL_PEER: Final = "10.99.0.2"
DEVICE: Final = "kshark0"
_MTU: Final = 9000
#: linux/if_tun.h: TUNSETIFF, IFF_TUN | IFF_NO_PI.
_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_LINKTYPE_RAW: Final = 101
_TCP: Final = 6


@dataclass(slots=True)
class Direction:
    """What happens to packets in one direction. Seconds; `blocked_until` is a time of the loop's clock.

    `loss`: the share of packets that are lost. `delay`: the most seconds by which one is late; a packet may overtake
    others.
    """

    loss: float = 0.0
    delay: float = 0.0
    blocked_until: float = 0.0
    losing_until: float = 0.0


@dataclass(slots=True)
class Tunnel:
    """The way to one broker, by its port. Has the troubles of tests.trouble.proxy.Proxy, and loss and order."""

    port: int
    random: Random
    to_broker: Direction = field(default_factory=Direction)
    to_client: Direction = field(default_factory=Direction)
    _abandoned: set[int] = field(default_factory=set)
    _clients: set[int] = field(default_factory=set)

    @property
    def directions(self) -> dict[str, Direction]:
        return {"broker": self.to_broker, "client": self.to_client}

    @property
    def delay(self) -> float:
        return self.to_broker.delay

    @delay.setter
    def delay(self, seconds: float) -> None:
        self.to_broker.delay = self.to_client.delay = seconds

    async def start(self) -> None:
        """Nothing to do: the relay is there as long as the cluster."""

    async def stop(self) -> None:
        """Nothing to do."""

    def stall(self, seconds: float, towards: str | None = None) -> None:
        """Lose all packets for some time, in one direction or in both."""
        until = asyncio.get_running_loop().time() + seconds
        for name, direction in self.directions.items():
            if towards in (None, name):
                direction.blocked_until = until

    def lose(self, share: float, seconds: float, towards: str | None = None) -> None:
        """Lose a share of the packets for some time."""
        until = asyncio.get_running_loop().time() + seconds
        for name, direction in self.directions.items():
            if towards in (None, name):
                direction.loss, direction.losing_until = share, until

    def reset(self, share: float = 1) -> None:
        """Carry no more packets of that share of the connections: their ends notice it by themselves."""
        self._abandoned |= {port for port in self._clients if self.random.random() < share}
        self._clients -= self._abandoned

    def carries(self, client_port: int, direction: Direction, now: float) -> bool:
        """True if a packet arrives."""
        if client_port in self._abandoned or now < direction.blocked_until:
            return False
        self._clients.add(client_port)
        return now >= direction.losing_until or self.random.random() >= direction.loss


class Relay:
    """Reads packets from the TUN device and writes them back to it, and records what each end sends and receives."""

    def __init__(self, device: int, tunnels: Mapping[int, Tunnel], captures: Mapping[str, Path]) -> None:
        self.device, self._tunnels, self._captures = device, tunnels, captures
        self._seen: dict[str, list[Packet]] = {side: [] for side in captures}

    def carry_pending(self) -> None:
        """Read all packets that wait in the device."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._carry(os.read(self.device, 1 << 16))

    def _carry(self, data: bytes) -> None:
        if data[0] != 0x45 or data[9] != _TCP or data[12:20] != ipv4(HOST) + ipv4(TUNNEL_PEER):
            return
        source, target = struct.unpack_from(">HH", data, 20)
        from_client = target in self._tunnels
        tunnel = self._tunnels.get(target if from_client else source)
        if tunnel is None:
            return
        direction = tunnel.to_broker if from_client else tunnel.to_client
        sender, receiver = ("clients", "brokers") if from_client else ("brokers", "clients")
        self._record(sender, data)
        loop = asyncio.get_running_loop()
        if tunnel.carries(source if from_client else target, direction, loop.time()):
            swapped = data[:12] + data[16:20] + data[12:16] + data[20:]
            late = direction.delay * tunnel.random.random()
            loop.call_later(late, self._deliver, receiver, swapped) if late else self._deliver(receiver, swapped)

    def _deliver(self, receiver: str, data: bytes) -> None:
        self._record(receiver, data)
        with contextlib.suppress(OSError):  # the device's queue is full: one more lost packet
            os.write(self.device, data)

    def _record(self, side: str, data: bytes) -> None:
        self._seen[side].append(Packet(time.time_ns(), data, len(data), _LINKTYPE_RAW))

    def write_captures(self) -> None:
        for side, path in self._captures.items():
            path.write_bytes(pcap(self._seen[side], link_type=_LINKTYPE_RAW))


@contextlib.contextmanager
def tunnels(ports: list[int], captures: Mapping[str, Path], random: Random) -> Iterator[tuple[list[Tunnel], Relay]]:
    """Provide ways to the brokers on these ports; write the captures at the end. Raises OSError without the right."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), _TUN_WITHOUT_HEADER))
        for command in (
            f"ip address add {HOST}/24 dev {DEVICE}",
            f"ip link set {DEVICE} up mtu {_MTU} txqueuelen 10000",
        ):
            subprocess.run(command.split(), check=True)
        ways = [Tunnel(port, random) for port in ports]
        relay = Relay(device, {way.port: way for way in ways}, captures)
        try:
            yield ways, relay
        finally:
            relay.write_captures()
    finally:
        os.close(device)
