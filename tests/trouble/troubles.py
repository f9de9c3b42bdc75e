"""What happens to clients and brokers: to connections and to processes; what administrators do is in
administrators.py."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.trouble.clients import Clients
from tests.trouble.cluster import Cluster


class Trouble:
    """Takes what it needs from a cluster and its clients; every method is one thing that may happen."""

    def __init__(self, cluster: Cluster, clients: Clients, random: Random) -> None:
        self._cluster, self._clients, self._random = cluster, clients, random

    # -- the network

    async def reset_connections(self) -> None:
        self._random.choice(self._cluster.ways).reset(self._random.choice((0.4, 1, 1)))

    async def stall(self) -> None:
        """On the way to one broker, for less than a session lasts or for more."""
        self._random.choice(self._cluster.ways).stall(self._random.uniform(1, 12))

    async def stall_everything(self) -> None:
        for proxy in self._cluster.ways:
            proxy.stall(self._random.uniform(5, 9))

    async def stall_one_way(self) -> None:
        """Lose all answers, or all requests, of one broker, or of both."""
        seconds, towards = self._random.uniform(3, 20), self._random.choice(("broker", "client"))
        for way in self._random.sample([*self._cluster.ways], self._random.choice((1, 1, len(self._cluster.ways)))):
            way.stall(seconds, towards)

    async def lose_packets(self) -> None:
        towards = self._random.choice(("broker", "client", None))
        way = self._random.choice(self._cluster.ways)
        way.lose(self._random.choice((0.02, 0.2, 0.5)), self._random.uniform(5, 20), towards)

    async def slow_down(self) -> None:
        self._random.choice(self._cluster.ways).delay = self._random.choice((0, 0.05, 0.3))

    # -- processes

    async def stop_client(self) -> None:
        process = self._random.choice(self._clients.running())
        process.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(self._random.uniform(1, 12), process.send_signal, signal.SIGCONT)

    async def kill_client(self) -> None:
        self._random.choice(self._clients.running()).kill()

    async def end_client(self) -> None:
        self._random.choice(self._clients.running()).terminate()

    async def stop_broker(self) -> None:
        broker = self._random.choice(self._cluster.brokers)
        broker.signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(1, 5))
        broker.signal(signal.SIGCONT)

    async def restart_broker(self) -> None:
        broker = self._random.choice(self._cluster.brokers)
        await asyncio.to_thread(broker.stop, kill=self._random.random() < 0.4)
        await asyncio.sleep(self._random.uniform(0, 4))
        await asyncio.to_thread(broker.start)


#: Troubles of the network alone: each client and each broker behaves well.
OF_THE_NETWORK: Final = ("stall", "stall_everything", "stall_one_way", "lose_packets", "slow_down")
#: What happens, and how often in relation to the others.
TROUBLES: Final[dict[Callable[[Trouble], Awaitable[None]], int]] = {
    Trouble.reset_connections: 4,
    Trouble.stall: 3,
    Trouble.stall_everything: 1,
    Trouble.stall_one_way: 3,
    Trouble.lose_packets: 2,
    Trouble.slow_down: 2,
    Trouble.stop_client: 4,
    Trouble.kill_client: 1,
    Trouble.end_client: 1,
    Trouble.stop_broker: 1,
    Trouble.restart_broker: 1,
}
