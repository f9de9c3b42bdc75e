"""What happens to clients and brokers: to connections, to processes, and by administrators."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.trouble.clients import GROUPS, TOPIC, Clients
from tests.trouble.cluster import Cluster


class Trouble:
    """Takes what it needs from a cluster and its clients; every method is one thing that may happen."""

    def __init__(self, cluster: Cluster, clients: Clients, random: Random) -> None:
        self._cluster, self._clients, self._random = cluster, clients, random
        self._partitions = 3

    async def set_up(self) -> None:
        await self._tool("TopicCommand", "--create", "--topic", TOPIC, "--partitions", str(self._partitions), "--replication-factor", "1")

    # -- the network

    async def reset_connections(self) -> None:
        self._random.choice(self._cluster.proxies).reset(self._random.choice((0.4, 1, 1)))

    async def stall(self) -> None:
        """On the way to one broker, for less than a session lasts or for more."""
        self._random.choice(self._cluster.proxies).stall(self._random.uniform(1, 12))

    async def stall_everything(self) -> None:
        for proxy in self._cluster.proxies:
            proxy.stall(self._random.uniform(5, 9))

    async def slow_down(self) -> None:
        self._random.choice(self._cluster.proxies).delay = self._random.choice((0, 0.05, 0.3))

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

    # -- administrators

    async def describe_group(self) -> None:
        await self._tool("consumer.group.ShareGroupCommand", "--group", self._random.choice(GROUPS), "--describe")

    async def reset_offsets(self) -> None:
        """Or delete them; either takes a group without members."""
        self._clients.end(consumers_only=True)
        await asyncio.sleep(3)
        how = self._random.choice((("--reset-offsets", "--to-earliest", "--execute"), ("--delete-offsets",)))
        await self._tool("consumer.group.ShareGroupCommand", "--group", self._random.choice(GROUPS), "--topic", TOPIC, *how)

    async def add_partition(self) -> None:
        self._partitions += 1
        await self._tool("TopicCommand", "--alter", "--topic", TOPIC, "--partitions", str(self._partitions))

    async def make_topic_anew(self) -> None:
        await self._tool("TopicCommand", "--delete", "--topic", TOPIC)
        await asyncio.sleep(self._random.uniform(0, 3))
        self._partitions = 3
        await self.set_up()

    async def _tool(self, tool: str, *arguments: str) -> None:
        await asyncio.to_thread(self._clients.once, tool, *arguments)


#: What happens, and how often in relation to the others.
TROUBLES: Final[dict[Callable[[Trouble], Awaitable[None]], int]] = {
    Trouble.reset_connections: 4,
    Trouble.stall: 3,
    Trouble.stall_everything: 1,
    Trouble.slow_down: 2,
    Trouble.stop_client: 4,
    Trouble.kill_client: 1,
    Trouble.end_client: 1,
    Trouble.stop_broker: 1,
    Trouble.restart_broker: 1,
    Trouble.describe_group: 1,
    Trouble.reset_offsets: 1,
    Trouble.add_partition: 1,
    Trouble.make_topic_anew: 1,
}
