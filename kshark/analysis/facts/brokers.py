"""Brokers: their addresses, release, connections, missing bytes and restarts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.bases import Setting
from kshark.analysis.facts.holes import Hole, Holes
from kshark.analysis.facts.known import Known, known_if
from kshark.analysis.facts.releases import ANY_RELEASE, RELEASE_APIS, Release, releases_offering
from kshark.analysis.facts.settings import Settings, Value
from kshark.clusters import Clusters
from kshark.endpoints import endpoint, host_of
from kshark.model import Flow, Message

By = Literal["client", "broker", "unknown"]
#: A broker that shuts down closes its connections within this time.
_TOGETHER_NS: Final = 2_000_000_000


class End(Struct, frozen=True):
    """The end of a connection or of one direction: a FIN, a RST, or a new SYN on the same ports.

    `by`: the side that ended it.
    """

    packet: int
    time_ns: int
    by: By
    flow: int


class Restart(Struct, frozen=True):
    """A restart of a broker.

    Its connections closed together from packet `since` on, the last one with `end`. Or it refused a new connection
    (`end`).
    """

    since: int
    seen: str
    end: End

    @property
    def packet(self) -> int:
        return self.end.packet

    @property
    def time_ns(self) -> int:
        return self.end.time_ns


class Proxies(Struct):
    """Load balancers in front of a broker that name their clients in PROXY headers.

    A connection whose header is not in the capture may be any client's. `present`: connections of the broker begin with
    headers. `nameless`: the hosts whose connections may be anyone's: proxies, and hosts of connections older than the
    capture. With too many of them, "" stands for all. `answered`: the packet in which the broker first answered a
    connection with a header (True), and without one (False).
    """

    present: bool = False
    nameless: set[str] = field(default_factory=set)
    answered: dict[bool, int] = field(default_factory=dict)

    def begin(self, flow: Flow) -> None:
        """Note a connection by its first request."""
        self.present = self.present or flow.proxy is not None
        if flow.proxy is not None or flow.opened_by is None:
            self._add(host_of(flow.proxy or flow.client))

    def answers(self, flow: Flow, packet: int) -> None:
        """Note an answer. The header of a connection older than the capture is unknown."""
        if flow.proxy is not None or flow.opened_by is not None:
            self.answered.setdefault(flow.proxy is not None, packet)

    @property
    def refuses(self) -> Known:
        """The fact that the listener refuses PROXY headers: it answers connections without one."""
        return known_if(False in self.answered, "listener_unknown")

    def _add(self, host: str) -> None:
        self.nameless.add(host if len(self.nameless) < limits.LOSSY_HOSTS else "")

    def hosts(self, hosts: Iterable[str], all_hosts: Iterable[str]) -> Iterable[str]:
        """Return the hosts on whose connections the traffic of these hosts may be."""
        if not self.present:
            return hosts
        own = {*hosts}
        return all_hosts if "" in self.nameless or not self.nameless.isdisjoint(own) else own | self.nameless

    def join(self, other: Proxies) -> None:
        self.present = self.present or other.present
        self.answered = other.answered | self.answered
        for host in other.nameless:
            self._add(host)


class Broker:  # no struct: a saved set may hold it before its attributes (kshark.snapshot)
    """A broker, with every address that the capture proves to belong to it."""

    __slots__ = (
        "addresses",
        "closed",
        "cluster",
        "clusters",
        "down",
        "holes",
        "is_alone",
        "node",
        "offered",
        "open",
        "proxies",
        "releases",
        "restarts",
        "settings",
    )

    def __init__(
        self,
        addresses: list[str],
        down: set[Broker] | None = None,
        node: tuple[str, int] | None = None,
        cluster: int = 0,
        clusters: Clusters | None = None,
        settings: Settings | None = None,
        releases: frozenset[Release] = ANY_RELEASE,
        open: set[int] | None = None,
    ) -> None:
        self.addresses = addresses
        #: All brokers that are down. The set is shared by all brokers.
        self.down: set[Broker] = set() if down is None else down
        #: Cluster id and node id from Metadata, and the number of its cluster (kshark.clusters).
        self.node = node
        self.cluster = cluster
        #: All clusters of the capture, shared by all brokers.
        self.clusters: Clusters = Clusters() if clusters is None else clusters
        #: All settings that the capture shows, shared by all brokers.
        self.settings: Settings = Settings() if settings is None else settings
        #: True if Metadata named no other broker in its cluster.
        self.is_alone: bool = False
        self.releases = releases
        #: For each of its addresses, the releases that fit the last ApiVersions answer.
        self.offered: dict[str, frozenset[Release]] = {}
        #: Flow ids of its open connections.
        self.open: set[int] = set() if open is None else open
        self.closed: deque[End] = deque(maxlen=1000)
        self.restarts: list[Restart] = []
        #: Holes of all its connections, by client host.
        self.holes: dict[str, Holes] = {}
        #: Load balancers in front of it, and the connections that it answered with and without their PROXY headers.
        self.proxies: Proxies = Proxies()

    def is_not(self, other: Broker) -> bool:
        """True if the two are certainly different brokers."""
        return self is not other and self.node is not None and other.node is not None and self.node != other.node

    @property
    def cluster_id(self) -> str | None:
        """The id of its cluster; None if no Metadata shows it."""
        return self.clusters.id(self.cluster)

    def shown(self, setting: Setting, group_id: str | None = None) -> Value | None:
        """Return the value of a setting, for a group if one is given; None if the capture does not show it."""
        if group_id is not None and (own := self.shown_of_group(setting, group_id)) is not None:
            return own
        values = (self.settings.of_broker(setting, address) for address in self.addresses)
        return next((value for value in values if value is not None), None)

    def shown_of_group(self, setting: Setting, group_id: str | None) -> Value | None:
        """Return a group's own value of a setting; None if the capture does not show one."""
        value = None if group_id is None else self.settings.of_group(setting, group_id)
        return value if value is not None and self.clusters.number(value.broker) == self.cluster else None

    # -- what is missing

    def lose(self, host: str, hole: Hole) -> None:
        """Note missing bytes of a connection with a client on this host."""
        if host not in self.holes:
            host = "" if len(self.holes) >= limits.LOSSY_HOSTS else host
            self.holes.setdefault(host, Holes())
        self.holes[host].add(hole)

    def missing_between(self, hosts: Iterable[str], first: int, last: int) -> str | None:
        """Return why traffic of these hosts may be missing between two packets, or None if it is complete."""
        if not self.holes:
            return None
        lossy = (self.holes[host] for host in (*self.proxies.hosts(hosts, self.holes), "") if host in self.holes)
        return next((reason for holes in lossy if (reason := holes.between(first, last))), None)

    # -- release

    def offers(self, answer: Message) -> None:
        """Read the release from an answer to ApiVersions.

        An answer with an error lists only ApiVersions, so it proves nothing. If the addresses of the broker disagree,
        any release is possible.
        """
        body: Any = answer.body
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) != 0 or offered is UNSET or offered is None:
            return
        highest = {api.api_key: api.max_version for api in offered if api.api_key in RELEASE_APIS}
        releases = releases_offering(*map(highest.get, RELEASE_APIS))
        if releases != ANY_RELEASE:
            self._fit({answer.broker: releases})

    def _fit(self, offered: dict[str, frozenset[Release]]) -> None:
        self.offered |= offered
        self.releases = ANY_RELEASE.intersection(*self.offered.values()) or ANY_RELEASE

    # -- restarts

    def ended(self, end: End, *, restarted: bool = False) -> None:
        """Note an end, and detect that the broker closed its last connection together with others.

        `restarted`: the broker was started again, by its request log.
        """
        self.open.discard(end.flow)
        self.closed.append(end)
        while end.time_ns - self.closed[0].time_ns > _TOGETHER_NS:
            self.closed.popleft()
        if restarted and self not in self.down:
            self._went_down(end, "the numbers of its connections began again")
        if (
            end.by == "broker"
            and not self.open
            and self not in self.down
            and sum(closed.by == "broker" for closed in self.closed) > 1
        ):
            self._went_down(end, "all its connections closed together")

    def refused(self, end: End) -> None:
        """Note that the broker answered a SYN with a RST."""
        if self not in self.down:
            self._went_down(end, "it refused a new connection")

    def _went_down(self, end: End, seen: str) -> None:
        together = (
            closed.packet
            for closed in self.closed
            if closed.by == "broker" and end.time_ns - closed.time_ns <= _TOGETHER_NS
        )
        self.restarts.append(Restart(min(together, default=end.packet), seen, end))
        del self.restarts[: -limits.RESTARTS_PER_BROKER]
        self.down.add(self)

    def restarted_between(self, first: int, last: int) -> Restart | None:
        if not self.restarts:
            return None
        return next((restart for restart in self.restarts if first < restart.packet and restart.since <= last), None)

    def absorb(self, other: Broker) -> None:
        """Merge another broker into this one: both are the same broker."""
        self.addresses += other.addresses
        self._fit(other.offered)
        self.open |= other.open
        self.restarts = sorted([*self.restarts, *other.restarts], key=lambda restart: restart.packet)
        for host, holes in other.holes.items():
            for hole in holes:
                self.lose(host, hole)
        self.proxies.join(other.proxies)
        self.node = self.node or other.node


class Brokers:
    """All brokers of the capture, by address. Metadata joins several addresses to one broker."""

    def __init__(self) -> None:
        #: Brokers that are down, as far as the capture shows.
        self.down: set[Broker] = set()
        self._by_address: dict[str, Broker] = {}
        self._by_node: dict[tuple[str, int], Broker] = {}
        self._clusters = Clusters()
        self.settings = Settings()
        #: Brokers whose cluster turned out to be another one, with the number of the one before.
        self._moved: list[tuple[Broker, int]] = []

    def at(self, address: str) -> Broker:
        """Return the broker at an address, and create it if there is none."""
        broker = self._by_address.get(address)
        if broker is None:
            broker = Broker([address], self.down, clusters=self._clusters, settings=self.settings)
            if len(self._by_address) < limits.BROKERS:
                self._by_address[address] = broker
        return broker

    def with_nodes(self, broker: Broker) -> list[Broker]:
        """Return the brokers that Metadata names in the cluster of this one; none if it does not name this one."""
        if broker.node is None:
            return []
        cluster = broker.node[0]
        return [other for (of, _), other in self._by_node.items() if of == cluster]

    def lossy_hosts(self) -> set[str]:
        """Return the hosts of clients of which bytes are missing; an empty text for unknown ones."""
        return {host for broker in self._by_address.values() for host in broker.holes}

    def at_address(self, address: str) -> Broker | None:
        return self._by_address.get(address)

    def metadata(self, answer: Message) -> list[tuple[Broker, Broker]]:
        """Assign addresses to nodes from a Metadata answer.

        Return the pairs of brokers that are the same broker; the first of a pair stays.
        """
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

    def moved(self) -> list[tuple[Broker, int]]:
        """Return the brokers whose cluster turned out to be another one since the last call, with the one before."""
        moved, self._moved = self._moved, []
        return moved

    def _belongs(self, address: str, cluster: str) -> None:
        if self._clusters.assign(address, cluster):
            broker, number = self.at(address), self._clusters.number(address)
            if broker.cluster != number:
                self._moved.append((broker, broker.cluster))
            broker.cluster = number

    def _name(self, broker: Broker, node: tuple[str, int]) -> tuple[Broker, Broker] | None:
        kept = self._by_node.get(node, broker)
        if len(self._by_node) < limits.BROKERS:
            self._by_node[node] = kept
        if kept is broker or (broker.node is not None and broker.node != node):
            broker.node = broker.node or node
            return None
        kept.absorb(broker)
        for address in broker.addresses:
            self._by_address[address] = kept
        return kept, broker
