"""Two brokers, each behind a network of its own, and the captures on both sides of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from tests.broker.recording import recorded
from tests.broker.releases import Release
from tests.broker.server import LOOPBACK, Broker, NoBroker, free_ports
from tests.trouble.proxy import Proxy
from tests.trouble.security import Security, any_security
from tests.trouble.tunnel import TUNNEL_PEER, Relay, tunnels

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
_BROKERS: Final = 2


class Way(Protocol):
    """The network between clients and one broker; `port` is where clients connect.

    Troubles: `delay`, the most seconds by which bytes or packets are late; `stall`, nothing arrives for some seconds in
    one direction (towards "broker" or "client") or both; `lose`, the same for a share of the packets; `reset`, the end
    of a share of the connections.
    """

    port: int
    delay: float

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def stall(self, seconds: float, towards: str | None = None) -> None: ...

    def lose(self, share: float, seconds: float, towards: str | None = None) -> None: ...

    def reset(self, share: float = 1) -> None: ...


@dataclass
class Cluster:
    """The brokers, the network before each of them, and the captures: as clients see it, and as brokers do.

    `host`: where clients connect. `relay` carries the packets, if the network is a tunnel.
    """

    brokers: list[Broker]
    ways: Sequence[Way]
    captures: list[Path]
    security: Security
    host: str
    relay: Relay | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{way.port}" for way in self.ways)


@contextlib.contextmanager
def cluster(release: Release, folder: Path, random: Random, *, by_packet: bool) -> Iterator[Cluster]:
    """A cluster of that release, without topics. Raises NoBroker where that cannot be, or nothing can be captured.

    `by_packet`: the network is a tunnel, which loses single packets; otherwise proxies of its connections.
    """
    security = any_security(random)
    chosen = {name: random.choice(values) for name, values in _CHOSEN.items()}
    members = min(chosen[_ROOM], random.choice((3, 200, 200)))
    settings = {**_SETTINGS, **chosen, "group.share.max.size": members, **security.brokers}
    idle = [random.choice(_IDLE_MS) for _ in range(_BROKERS)]
    captures = {side: folder / f"{side}.pcap" for side in ("clients", "brokers")}
    with contextlib.ExitStack() as stack:
        if by_packet:
            brokers = stack.enter_context(_brokers(release, folder, settings, idle, TUNNEL_PEER))
            try:
                ways, relay = stack.enter_context(tunnels([broker.port for broker in brokers], captures, random))
            except OSError as error:
                raise NoBroker(f"no tunnel can be made here: {error}; it takes the right to (root)") from None
            yield Cluster(brokers, ways, [*captures.values()], security, TUNNEL_PEER, relay)
            return
        ports = free_ports(_BROKERS)
        brokers = stack.enter_context(_brokers(release, folder, settings, idle, LOOPBACK, ports))
        sides = (ports, [broker.port for broker in brokers])
        for path, seen in zip(captures.values(), sides, strict=True):
            if not stack.enter_context(recorded(seen, path)):
                raise NoBroker("nothing can be captured here; it takes the right to (root, or CAP_NET_RAW)")
        proxies = [Proxy(port, broker.port, random) for port, broker in zip(ports, brokers, strict=True)]
        yield Cluster(brokers, proxies, [*captures.values()], security, LOOPBACK)


@contextlib.contextmanager
def _brokers(
    release: Release,
    folder: Path,
    settings: Mapping[str, object],
    idle: Sequence[int],
    advertised: str,
    ports: Sequence[int] = (),
) -> Iterator[list[Broker]]:
    """Start the brokers; `advertised`, `ports`: where clients find them, if not at their own ports."""
    with contextlib.ExitStack() as stack:
        brokers: list[Broker] = []
        for number, idle_ms in enumerate(idle, 1):
            home = folder / f"broker-{number}"
            home.mkdir(parents=True, exist_ok=True)
            broker = Broker(
                release,
                home,
                {**settings, "connections.max.idle.ms": idle_ms},
                of=brokers[0] if brokers else None,
                node_id=number,
                advertised=advertised,
                advertised_port=ports[number - 1] if ports else None,
            )
            brokers.append(stack.enter_context(broker))
        yield brokers
