"""Two brokers, each behind a network of its own, and the captures on both sides of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.broker.recording import recorded
from tests.broker.releases import Release
from tests.broker.server import Broker, NoBroker, free_ports
from tests.trouble.proxy import Proxy
from tests.trouble.security import Security, any_security

#: What is given up is given up soon, so that much happens in a few minutes.
_SETTINGS: Final = {
    "group.share.session.timeout.ms": 6000,
    "group.share.heartbeat.interval.ms": 1500,
    "group.share.record.lock.duration.ms": 5000,
    "errors.deadletterqueue.auto.create.topics.enable": True,
    "broker.session.timeout.ms": 6000,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
}
#: How many sessions a broker holds; a group may have no more members than that.
_ROOM: Final = "group.share.max.share.sessions"
#: Chosen for each cluster: how often a record is delivered at most, how much there is room for, how seldom all of a
#: state is written, and whether another broker coordinates while one is down.
_CHOSEN: Final[dict[str, tuple[int, ...]]] = {
    "group.share.delivery.count.limit": (2, 5, 10),
    "group.share.partition.max.record.locks": (100, 2000),
    _ROOM: (3, 2000, 2000),
    "share.coordinator.snapshot.update.records.per.snapshot": (2, 500),
    "share.coordinator.state.topic.replication.factor": (1, 2),
    "offsets.topic.replication.factor": (1, 2),
}
#: After how long without a request brokers close a connection.
_IDLE_MS: Final = (3000, 8000, 600_000)


@dataclass
class Cluster:
    """The brokers, the network before each of them, and the captures: as clients see it, and as brokers do."""

    brokers: list[Broker]
    proxies: list[Proxy]
    captures: list[Path]
    security: Security

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)


@contextlib.contextmanager
def cluster(release: Release, folder: Path, random: Random) -> Iterator[Cluster]:
    """A cluster of that release, without topics. Raises NoBroker where that cannot be, or nothing can be captured."""
    ports, security = free_ports(2), any_security(random)
    chosen = {name: random.choice(values) for name, values in _CHOSEN.items()}
    members = min(chosen[_ROOM], random.choice((3, 200, 200)))
    settings = {**_SETTINGS, **chosen, "group.share.max.size": members, **security.brokers}
    with contextlib.ExitStack() as stack:
        brokers: list[Broker] = []
        for number, port in enumerate(ports, 1):
            home = folder / f"broker-{number}"
            home.mkdir(parents=True, exist_ok=True)
            own = {
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "connections.max.idle.ms": random.choice(_IDLE_MS),
            }
            broker = Broker(release, home, {**settings, **own}, of=brokers[0] if brokers else None, node_id=number)
            brokers.append(stack.enter_context(broker))
        sides = {"clients": ports, "brokers": [broker.port for broker in brokers]}
        captures = [folder / f"{name}.pcap" for name in sides]
        for path, seen in zip(captures, sides.values(), strict=True):
            if not stack.enter_context(recorded(seen, path)):
                raise NoBroker("nothing can be captured here; it takes the right to (root, or CAP_NET_RAW)")
        proxies = [Proxy(port, broker.port, random) for port, broker in zip(ports, brokers, strict=True)]
        yield Cluster(brokers, proxies, captures, security)
