"""What happens around share sessions and decides over them: connections, brokers and their releases, members of groups.

Rules ask; nothing here knows a rule.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.analysis.releases import ANY_RELEASE, Release, releases_offering
from kshark.model import Closed, Flow, Gap, HalfClosed, Message

if TYPE_CHECKING:
    from kshark.analysis.sessions import Machine
    from kshark.analysis.steps import Call, Partition

#: A broker that goes down closes its connections within this time.
_TOGETHER_NS: Final = 2_000_000_000
_REASONS: Final = {"snapped": "cut"}
By = Literal["client", "broker", "unknown"]


class Lost(NamedTuple):
    """Bytes that the capture does not hold, between two packets."""

    first_packet: int
    last_packet: int
    reason: str


class Losses(list[Lost]):
    """Holes in the order in which they were found; many become fewer that cover them."""

    def add(self, hole: Lost) -> None:
        self.append(hole)
        if len(self) > limits.HOLES:
            one, two = self[:2]
            self[:2] = [Lost(min(one.first_packet, two.first_packet), max(one.last_packet, two.last_packet), "gap")]

    def between(self, first: int, last: int) -> str | None:
        """Why the capture does not hold everything that went between two packets; None when it does."""
        return next((hole.reason for hole in self if hole.first_packet < last and hole.last_packet > first), None)

    def join(self, others: Losses) -> None:
        for hole in others:
            self.add(hole)


class End(NamedTuple):
    """A connection's first FIN, its RST, or the new SYN that shows that it is over."""

    packet: int
    time_ns: int
    by: By


class Restart(NamedTuple):
    """A broker went down: its connections closed together from `since` on, or it refused new ones at `packet`."""

    since: int
    packet: int
    time_ns: int
    seen: str


@dataclass(slots=True, eq=False)
class Connection:
    """A TCP connection as share sessions see it."""

    flow: Flow
    broker: Broker | None = None
    #: Packet of the client's last request, and of its FIN.
    last_request: int = 0
    client_fin: int | None = None
    end: End | None = None
    #: The capture is over, or the connection was forgotten: nothing more will be seen of it.
    over: bool = False
    lost: Losses = field(default_factory=Losses)
    #: Share sessions that use it, in the order in which they came.
    users: dict[Machine, None] = field(default_factory=dict)

    @property
    def client(self) -> str:
        return self.flow.client

    @property
    def software(self) -> str | None:
        """Name and version from the client's ApiVersions request (KIP-511)."""
        parts = [part for part in (self.flow.software_name, self.flow.software_version) if part]
        return " ".join(parts) or None

    def lose(self, hole: Lost) -> None:
        self.lost.add(hole)
        if self.broker is not None:
            self.broker.lost.add(hole)

    def ended_between(self, first: int, last: int) -> End | None:
        return self.end if self.end is not None and first < self.end.packet <= last else None


@dataclass(slots=True, eq=False)
class Broker:
    """A broker, by every address that the capture showed to be its own."""

    addresses: list[str]
    #: Brokers that are down, this one or others.
    down: set[Broker] = field(default_factory=set)
    #: Cluster id and node id, once Metadata told them.
    node: tuple[str, int] | None = None
    releases: frozenset[Release] = ANY_RELEASE
    open: dict[int, Connection] = field(default_factory=dict)
    closed: deque[End] = field(default_factory=lambda: deque(maxlen=1000))
    restarts: list[Restart] = field(default_factory=list)
    #: Holes of all its connections.
    lost: Losses = field(default_factory=Losses)

    def is_not(self, other: Broker) -> bool:
        """Whether the two are known to be different brokers."""
        return self is not other and self.node is not None and other.node is not None and self.node != other.node

    def ended(self, connection: Connection, end: End) -> None:
        """Notices when all connections are closed together, at least two of them by the broker."""
        self.open.pop(connection.flow.id, None)
        self.closed.append(end)
        while end.time_ns - self.closed[0].time_ns > _TOGETHER_NS:
            self.closed.popleft()
        if not self.open and self not in self.down and sum(one.by == "broker" for one in self.closed) > 1:
            self._went_down(end.packet, end.time_ns, "all its connections closed together")

    def refused(self, packet: int, time_ns: int) -> None:
        if self not in self.down:
            self._went_down(packet, time_ns, "it refused a new connection")

    def _went_down(self, packet: int, time_ns: int, seen: str) -> None:
        together = (end.packet for end in self.closed if end.by == "broker" and time_ns - end.time_ns <= _TOGETHER_NS)
        since = min(together, default=packet)
        self.restarts.append(Restart(since, packet, time_ns, seen))
        del self.restarts[: -limits.RESTARTS_PER_BROKER]
        self.down.add(self)

    def restarted_between(self, first: int, last: int) -> Restart | None:
        return next((restart for restart in self.restarts if first < restart.packet and restart.since <= last), None)

    def absorb(self, other: Broker) -> None:
        """Both are one: everything known of either is known of it."""
        self.addresses += other.addresses
        self.releases = self.releases & other.releases or ANY_RELEASE
        self.open |= other.open
        self.restarts = sorted([*self.restarts, *other.restarts], key=lambda restart: restart.packet)
        self.lost.join(other.lost)
        self.node = self.node or other.node


@dataclass(slots=True, eq=False)
class Member:
    """A member of a share group: what its heartbeats and its first trace tell."""

    #: Its join, where that is the first the capture shows of it.
    join: Call | None = None
    assignment: frozenset[Partition] | None = None
    #: Brokers with which it had share sessions.
    brokers: list[Broker] = field(default_factory=list)


class Surroundings:
    """Connections, brokers and members, each table bounded."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        #: Brokers that are down, as far as the capture shows.
        self.down: set[Broker] = set()
        self._brokers: dict[str, Broker] = {}
        self._nodes: dict[tuple[str, int], Broker] = {}
        self._members: OrderedDict[tuple[str | None, str | None], Member] = OrderedDict()
        #: Members were forgotten: nobody's first trace is its beginning any more.
        self.forgetful = False

    # -- connections

    def connection(self, flow: Flow) -> Connection:
        found = self.connections.get(flow.id)
        if found is None:
            found = self.connections[flow.id] = Connection(flow)
        return found

    def begin(self, connection: Connection) -> None:
        """Its first request: which end is the broker is known by now."""
        broker = connection.broker = self.broker(connection.flow.broker)
        broker.lost.join(connection.lost)
        if connection.end is None:
            broker.open[connection.flow.id] = connection

    def answered(self, flow: int) -> None:
        """The broker is up, if that connection is."""
        connection = self.connections.get(flow)
        if connection is not None and connection.broker is not None and connection.end is None:
            self.down.discard(connection.broker)

    def lost(self, gap: Gap) -> None:
        """Bytes that the capture does not hold."""
        self.connection(gap.flow).lose(Lost(gap.first_packet, gap.last_packet, _REASONS.get(gap.reason, "gap")))

    def orphan(self, flow: Flow, answer: Message | None) -> None:
        """An answer without its request: the capture does not hold what the client sent."""
        if answer is not None:
            connection = self.connection(flow)
            connection.lose(Lost(connection.last_request, answer.packet, "gap"))

    def ended(self, event: HalfClosed | Closed) -> tuple[Connection, bool]:
        """Takes an end to the connection it belongs to; the second value says whether it is the first one seen."""
        connection = self.connection(event.flow)
        is_client = None if event.side is None else event.flow.ends[event.side] == event.flow.client
        if isinstance(event, HalfClosed) and is_client and connection.client_fin is None:
            connection.client_fin = event.packet
        if isinstance(event, Closed):
            if event.how == "fin" and connection.client_fin is None:
                connection.client_fin = event.packet
            connection.over = True
            self.connections.pop(event.flow.id, None)
            if event.how in ("capture", "forgotten"):
                if event.how == "forgotten":
                    connection.lose(Lost(event.packet, 1 << 62, "gap"))
                if connection.broker is not None:
                    connection.broker.open.pop(event.flow.id, None)
                return connection, False
            self._notice_refusal(event)
        if connection.end is not None:
            return connection, False
        by: By = "unknown" if is_client is None else "client" if is_client else "broker"
        connection.end = End(event.packet, event.time_ns, by)
        if connection.broker is not None:
            connection.broker.ended(connection, connection.end)
        return connection, True

    def _notice_refusal(self, event: Closed) -> None:
        """A SYN answered by RST, on a port where a broker used to listen."""
        flow = event.flow
        if event.how == "rst" and flow.opened_by is not None and event.side == 1 - flow.opened_by and not any(flow.stream_bytes):
            broker = self._brokers.get(flow.ends[1 - flow.opened_by])
            if broker is not None:
                broker.refused(event.packet, event.time_ns)

    # -- brokers

    def broker(self, address: str) -> Broker:
        found = self._brokers.get(address)
        if found is None:
            found = Broker([address], self.down)
            if len(self._brokers) < limits.BROKERS:
                self._brokers[address] = found
        return found

    def api_versions(self, flow: int, answer: Message) -> None:
        """The broker said what it speaks; an answer with an error lists ApiVersions alone and tells nothing."""
        connection = self.connections.get(flow)
        body: Any = answer.body
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) != 0 or offered is UNSET or offered is None:
            return
        if connection is None or connection.broker is None:
            return
        releases = releases_offering(next((one.max_version for one in reversed(offered) if one.api_key == 78), None))
        if releases != ANY_RELEASE:
            connection.broker.releases = releases

    def metadata(self, answer: Message) -> list[tuple[Broker, Broker]]:
        """Joins addresses of one node; gives the pairs (kept, absorbed) that turned out to be one broker."""
        body: Any = answer.body
        cluster = getattr(body, "cluster_id", None)
        nodes = getattr(body, "brokers", UNSET)
        joined = []
        if isinstance(cluster, str) and nodes is not UNSET and nodes is not None:
            for node in nodes:
                host = f"[{node.host}]" if ":" in node.host else node.host
                pair = self._name(self.broker(f"{host}:{node.port}"), (cluster, node.node_id))
                if pair is not None:
                    joined.append(pair)
        return joined

    def _name(self, broker: Broker, node: tuple[str, int]) -> tuple[Broker, Broker] | None:
        known = self._nodes.get(node, broker)
        if len(self._nodes) < limits.BROKERS:
            self._nodes[node] = known
        if known is broker or (broker.node is not None and broker.node != node):
            broker.node = broker.node or node
            return None
        known.absorb(broker)
        for address in broker.addresses:
            self._brokers[address] = known
        for connection in self.connections.values():
            if connection.broker is broker:
                connection.broker = known
        return known, broker

    # -- members

    def member(self, group_id: str | None, member_id: str | None) -> Member:
        key = (group_id, member_id)
        found = self._members.get(key)
        if found is None:
            found = self._members[key] = Member()
            if len(self._members) > limits.SESSIONS:
                self._members.popitem(last=False)
                self.forgetful = True
        else:
            self._members.move_to_end(key)
        return found

    def heartbeat(self, group_id: str | None, member_id: str | None, assignment: frozenset[Partition] | None) -> tuple[Member, bool]:
        """The member, and whether this is the first that the capture shows of it: then a join is its beginning."""
        is_first = (group_id, member_id) not in self._members
        member = self.member(group_id, member_id)
        if assignment is not None:
            member.assignment = assignment
        return member, is_first and not self.forgetful
