"""Brokers: by which addresses each is known, which release it runs, what of its connections is missing, when it went
down."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.holes import Hole, Holes
from kshark.analysis.facts.releases import ANY_RELEASE, TELLING, Release, releases_offering
from kshark.clusters import Clusters
from kshark.endpoints import endpoint
from kshark.model import Message

By = Literal["client", "broker", "unknown"]
#: A broker that goes down closes its connections within this time.
_TOGETHER_NS: Final = 2_000_000_000


class End(NamedTuple):
    """The end of a connection, or of its half: a FIN, a RST, or the new SYN that shows that it is over; `by` is who
    ended it."""

    packet: int
    time_ns: int
    by: By
    flow: int


class Restart(NamedTuple):
    """A broker went down: its connections closed together from `since` on, the last by `end`, or it refused a new one
    (`end`)."""

    since: int
    seen: str
    end: End

    @property
    def packet(self) -> int:
        return self.end.packet

    @property
    def time_ns(self) -> int:
        return self.end.time_ns


@dataclass(slots=True, eq=False)
class Broker:
    """A broker, by every address that the capture showed to be its own."""

    addresses: list[str]
    #: Brokers that are down, this one or others.
    down: set[Broker] = field(default_factory=set)
    #: Cluster id and node id, once Metadata told them; the number of its cluster (kshark.clusters).
    node: tuple[str, int] | None = None
    cluster: int = 0
    #: Metadata named no other broker in its cluster.
    is_alone: bool = False
    releases: frozenset[Release] = ANY_RELEASE
    #: The releases that fit what was offered last at each of its addresses.
    offered: dict[str, frozenset[Release]] = field(default_factory=dict)
    #: Open connections, by the number of their flow.
    open: set[int] = field(default_factory=set)
    closed: deque[End] = field(default_factory=lambda: deque(maxlen=1000))
    restarts: list[Restart] = field(default_factory=list)
    #: Holes of all its connections, by the client's host.
    holes: dict[str, Holes] = field(default_factory=dict)

    def is_not(self, other: Broker) -> bool:
        """Whether the two are known to be different brokers."""
        return self is not other and self.node is not None and other.node is not None and self.node != other.node

    # -- what is missing

    def lose(self, host: str, hole: Hole) -> None:
        """Bytes of a connection with a client on that host are missing."""
        if host not in self.holes:
            host = "" if len(self.holes) >= limits.LOSSY_HOSTS else host
            self.holes.setdefault(host, Holes())
        self.holes[host].add(hole)

    def missing_between(self, hosts: Iterable[str], first: int, last: int) -> str | None:
        """Why something that these hosts sent between two packets may be missing; None when all of it is there."""
        if not self.holes:
            return None
        lossy = (self.holes[host] for host in (*hosts, "") if host in self.holes)
        return next((reason for holes in lossy if (reason := holes.between(first, last))), None)

    # -- release

    def offers(self, answer: Message) -> None:
        """Its answer to ApiVersions; one with an error lists ApiVersions alone and tells nothing. Addresses that differ
        leave all open."""
        body: Any = answer.body
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) != 0 or offered is UNSET or offered is None:
            return
        highest = {one.api_key: one.max_version for one in offered}
        releases = releases_offering(*map(highest.get, TELLING))
        if releases != ANY_RELEASE:
            self._fit({answer.broker: releases})

    def _fit(self, offered: dict[str, frozenset[Release]]) -> None:
        self.offered |= offered
        self.releases = ANY_RELEASE.intersection(*self.offered.values()) or ANY_RELEASE

    # -- restarts

    def ended(self, end: End) -> None:
        """Notices when the broker closes its last connection, and others together with it."""
        self.open.discard(end.flow)
        self.closed.append(end)
        while end.time_ns - self.closed[0].time_ns > _TOGETHER_NS:
            self.closed.popleft()
        if (
            end.by == "broker"
            and not self.open
            and self not in self.down
            and sum(one.by == "broker" for one in self.closed) > 1
        ):
            self._went_down(end, "all its connections closed together")

    def refused(self, end: End) -> None:
        """A new connection was answered by a RST."""
        if self not in self.down:
            self._went_down(end, "it refused a new connection")

    def _went_down(self, end: End, seen: str) -> None:
        together = (
            one.packet for one in self.closed if one.by == "broker" and end.time_ns - one.time_ns <= _TOGETHER_NS
        )
        self.restarts.append(Restart(min(together, default=end.packet), seen, end))
        del self.restarts[: -limits.RESTARTS_PER_BROKER]
        self.down.add(self)

    def restarted_between(self, first: int, last: int) -> Restart | None:
        if not self.restarts:
            return None
        return next((restart for restart in self.restarts if first < restart.packet and restart.since <= last), None)

    def absorb(self, other: Broker) -> None:
        """Both are one: everything known of either is known of it."""
        self.addresses += other.addresses
        self._fit(other.offered)
        self.open |= other.open
        self.restarts = sorted([*self.restarts, *other.restarts], key=lambda restart: restart.packet)
        for host, holes in other.holes.items():
            for hole in holes:
                self.lose(host, hole)
        self.node = self.node or other.node


class Brokers:
    """Every broker that the capture shows, found by address; what Metadata says joins addresses to one broker."""

    def __init__(self) -> None:
        #: Those that are down, as far as the capture shows.
        self.down: set[Broker] = set()
        self._by_address: dict[str, Broker] = {}
        self._by_node: dict[tuple[str, int], Broker] = {}
        self._clusters = Clusters()

    def at(self, address: str) -> Broker:
        """The broker at an address, a new one where none is known there."""
        found = self._by_address.get(address)
        if found is None:
            found = Broker([address], self.down)
            if len(self._by_address) < limits.BROKERS:
                self._by_address[address] = found
        return found

    def at_address(self, address: str) -> Broker | None:
        return self._by_address.get(address)

    def metadata(self, answer: Message) -> list[tuple[Broker, Broker]]:
        """Learns which addresses belong to which node; pairs of brokers that turned out to be one (the first stays)."""
        body: Any = answer.body
        cluster, nodes = getattr(body, "cluster_id", UNSET), getattr(body, "brokers", UNSET)
        joined = []
        if isinstance(cluster, str) and nodes is not UNSET and nodes is not None:
            self._belongs(answer.broker, cluster)
            for node in nodes:
                if node.host is None:
                    continue
                address = endpoint(node.host, node.port)
                self._belongs(address, cluster)
                broker = self.at(address)
                broker.is_alone = len(nodes) == 1
                pair = self._name(broker, (cluster, node.node_id))
                if pair is not None:
                    joined.append(pair)
        return joined

    def _belongs(self, address: str, cluster: str) -> None:
        if self._clusters.assign(address, cluster):
            self.at(address).cluster = self._clusters.number(address)

    def _name(self, broker: Broker, node: tuple[str, int]) -> tuple[Broker, Broker] | None:
        known = self._by_node.get(node, broker)
        if len(self._by_node) < limits.BROKERS:
            self._by_node[node] = known
        if known is broker or (broker.node is not None and broker.node != node):
            broker.node = broker.node or node
            return None
        known.absorb(broker)
        for address in broker.addresses:
            self._by_address[address] = known
        return known, broker
