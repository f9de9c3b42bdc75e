"""Packets that do not arrive, connections lost while idle, and clients that do not read. Incidents 138, 160 and 161."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import TO_THE_END
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Finding, Flow, HalfClosed, Message, Weird, Witness

#: A connection is idle after this time without requests and answers.
_IDLE_NS: Final = 60_000_000_000
#: A RST that answers the first packet comes within this time.
_AT_ONCE_NS: Final = 1_000_000_000
#: An answer shows that the broker lives on, if it came at most this long before.
_RECENT_NS: Final = 10_000_000_000
#: The shortest time for which a client does not read.
_NOT_READING_NS: Final = 10_000_000_000
_UNACKNOWLEDGED: Final = "UNACKNOWLEDGED"
_ACKNOWLEDGED: Final = "ACKNOWLEDGED_LATE"

IDLE_CONNECTION_LOST: Final = Rule(
    number=138,
    code="IDLE_CONNECTION_LOST",
    text="A connection that was idle for a minute or longer was lost: its next packets got no answer, or a RST.",
    source="RFC 5382, section 5; Kafka: connections.max.idle.ms",
    rests_on=(AT_LEAST,),
    blame=("network",),
    verdicts=("note", "unknown"),
    must="A device on the path keeps the connections that it forwards, or both ends close them before it forgets them.",
    advice="Set connections.max.idle.ms of the clients below the idle time of the firewall, NAT or load balancer.",
    weight=40,
    explains=("REQUEST_UNANSWERED", "REQUEST_TIMEOUT_CLOSE", "REQUEST_OVERDUE", "SESSION_NOT_CLOSED"),
)
NETWORK_OUTAGE: Final = Rule(
    number=160,
    code="NETWORK_OUTAGE",
    text="What one host sent to another had no acknowledgement on several connections.",
    source="RFC 9293, section 3.8; RFC 6298",
    rests_on=(AT_LEAST,),
    blame=("network",),
    verdicts=("note", "unknown"),
    must="Packets between the hosts of clients and brokers arrive.",
    advice="Check the path between these two hosts at this time: links, firewalls, routes, and the host itself.",
    weight=80,
    explains=(
        "REQUEST_OVERDUE",
        "BROKER_SILENT",
        "REQUEST_UNANSWERED",
        "REQUEST_TIMEOUT_CLOSE",
        "MEMBER_REFUSED",
        "SESSION_UNKNOWN",
    ),
    excuses=("HEARTBEAT_LATE", "NO_RECOVERY", "SESSION_NOT_CLOSED"),
)
CLIENT_NOT_READING: Final = Rule(
    number=161,
    code="CLIENT_NOT_READING",
    text="A client did not read from its connection for ten seconds or longer: its receive window was zero.",
    source="RFC 9293, section 3.8.6",
    rests_on=(AT_LEAST,),
    blame=("client",),
    verdicts=("note", "unknown"),
    must="A client reads the answers to its requests.",
    advice="Check the client's process at this time: garbage collection, a stopped process, a thread that never polls.",
    weight=50,
    explains=("REQUEST_OVERDUE", "REQUEST_UNANSWERED", "REQUEST_TIMEOUT_CLOSE", "HEARTBEAT_LATE"),
)


class _Path(Struct, frozen=True):
    """A direction between two hosts."""

    sender: str
    receiver: str


class _Lost(Struct, frozen=True):
    """A connection of a path whose bytes have no acknowledgement since a packet, and the packet that shows it."""

    flow: Flow
    since: PacketTime
    shown: PacketTime


class _Idle(Struct, frozen=True):
    """The first request after an idle time, and the last answer before it. `lives`: so does the broker."""

    request: Message
    answered: PacketTime
    lives: bool


class Network(Watcher):
    """Watch what the packets of connections show about hosts and the network between them."""

    rows = (IDLE_CONNECTION_LOST, NETWORK_OUTAGE, CLIENT_NOT_READING)
    apis = None
    kinds = (HalfClosed, Closed)
    weirds = frozenset({_UNACKNOWLEDGED, _ACKNOWLEDGED, "WINDOW_OPENED"})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        #: By path, its connections without an acknowledgement.
        self._lost: dict[_Path, dict[int, _Lost]] = {}
        self._idle: dict[int, _Idle] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        """Take an answer to a request that was sent in an outage: packets of both directions arrive."""
        request = exchange.request
        if not self._lost or request is None or exchange.response is None:
            return NOTHING
        flow, knows = exchange.flow, request.knows
        client, broker = host_of(flow.ends[flow.calling_side]), host_of(flow.ends[1 - flow.calling_side])
        incidents: list[Incident] = []
        for path in (_Path(client, broker), _Path(broker, client)):
            if path in self._lost:
                since = min((it.since for it in self._lost[path].values()), key=lambda it: it.time_ns)
                # an answer may be lost after it was captured: only what its client knew shows that one arrived
                arrived = isinstance(knows, int) and knows > since.packet
                if request.time_ns > since.time_ns if path.sender == client else arrived:
                    incidents += self._over(path, self.scene.now)
        return incidents

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Closed):
            return self._closed(event)
        if isinstance(event, HalfClosed):
            is_client = event.side == event.flow.calling_side
            return self._idle_lost(event.flow, self.scene.now) if is_client else NOTHING
        flow = self.scene.flows.get(event.flow) if isinstance(event, Weird) and event.flow is not None else None
        if flow is None or not isinstance(event, Weird) or event.side is None:
            return NOTHING
        if event.code == "WINDOW_OPENED":
            return self._not_reading(flow, event.side, PacketTime(event.packet, event.time_ns))
        path = _Path(host_of(flow.ends[event.side]), host_of(flow.ends[1 - event.side]))
        if event.code == _ACKNOWLEDGED:
            self._idle.pop(flow.id, None)
            return self._over(path, PacketTime(event.packet, event.time_ns))
        if event.side == flow.calling_side:
            self._is_idle(flow)
        lost = _Lost(flow, self.scene.unacked[flow.id, event.side], PacketTime(event.packet, event.time_ns))
        if path in self._lost or len(self._lost) < limits.LOST_PATHS:
            connections = self._lost.setdefault(path, {})
            if len(connections) < limits.LOST_CONNECTIONS:
                connections[flow.id] = lost
        return NOTHING

    def lasting(self) -> Iterable[Incident]:
        scene = self.scene
        for path, connections in self._lost.items():
            yield from self._outage(path, connections, None)
        for number, side in scene.closed_windows:
            if number in scene.flows:
                yield from self._not_reading(scene.flows[number], 1 if side else 0, None)
        for number, idle in self._idle.items():
            if number in scene.flows:
                yield self._idle_incident(scene.flows[number], idle, None, is_reset=False)

    def may_excuse(self, finding: Finding) -> bool:
        """True if packets between the two hosts have no acknowledgement since then."""
        client, broker = host_of(finding.client), host_of(finding.broker)
        paths = (self._lost.get(path, {}) for path in (_Path(client, broker), _Path(broker, client)))
        return any(it.since.packet <= finding.packet for connections in paths for it in connections.values())

    def close(self) -> Iterable[Incident]:
        for path in list(self._lost):
            yield from self._over(path, None)

    # -- outages

    def _over(self, path: _Path, until: PacketTime | None) -> Iterator[Incident]:
        """End the outage of a path: a packet arrived, or the capture ended."""
        return self._outage(path, self._lost.pop(path, {}), until)

    def _outage(self, path: _Path, connections: dict[int, _Lost], until: PacketTime | None) -> Iterator[Incident]:
        """Yield the outage of a path, with its connections without an acknowledgement."""
        if len(connections) < 2:
            return
        lost = sorted(connections.values(), key=lambda it: it.since.time_ns)
        since, scene = lost[0].since, self.scene
        now = scene.now if until is None else until
        lasted_ns = now.time_ns - since.time_ns
        if lasted_ns < limits.OUTAGE_NS:
            return
        arrived = self._arrived(path, [it.flow for it in lost], since, now)
        client = host_of(lost[0].flow.ends[lost[0].flow.calling_side])
        end = TO_THE_END if until is None else f"until packet {until.packet}"
        yield Incident(
            NETWORK_OUTAGE,
            since,
            until,
            lost[0].flow,
            f"{path.receiver} acknowledged nothing that {path.sender} sent on {len(lost)} connections for "
            f"{lasted_ns / 1e9:.1f} s (packet {since.packet} {end})"
            + (
                ", while packets the other way arrived"
                if arrived
                else ": the network between them, or one of the two hosts"
            ),
            Where(brokers=frozenset(it.flow.broker for it in lost), hosts=frozenset({client})),
            tuple(Witness(it.flow.id, None, None, None, it.shown.packet, "unacknowledged") for it in lost[:8]),
            blame="network" if arrived else "unknown",
            grounds=(scene.lasted(limits.UNACKED_NS, since, now),),
        )

    def _arrived(self, path: _Path, flows: list[Flow], since: PacketTime, until: PacketTime) -> bool:
        """True if the capture shows that the receiver's messages reached the sender in this time."""
        scene, most_ns = self.scene, until.time_ns - limits.QUIET_NS
        for flow in flows:
            if path.sender == host_of(flow.ends[flow.calling_side]):
                answered = scene.answered.get(flow.id)
                if answered is not None and since.time_ns < answered.time_ns < most_ns:
                    return True
            elif any(since.time_ns < request.time_ns < most_ns for (request,) in scene.open.get(flow.id, {}).values()):
                return True
        return False

    # -- one connection

    def _is_idle(self, flow: Flow) -> None:
        """Note the first request after an idle time."""
        scene = self.scene
        request, answered = scene.waiting(flow.id), scene.answered.get(flow.id)
        if request is not None and answered is not None and request.time_ns - answered.time_ns >= _IDLE_NS:
            others = scene.connections_of(scene.broker_of(flow))
            lives = any(self._lives(other, request, answered) for other in others if other is not flow)
            self._idle[flow.id] = _Idle(request, answered, lives)

    def _closed(self, closed: Closed) -> Iterator[Incident]:
        flow, scene = closed.flow, self.scene
        now = None if closed.how == "capture" else scene.now
        yield from self._not_reading(flow, flow.calling_side, now)
        is_reset = closed.how == "rst" and closed.side != flow.calling_side and flow.id not in self._idle
        if is_reset:
            self._is_idle(flow)
            idle = self._idle.get(flow.id)
            if idle is not None and scene.now.time_ns - idle.request.time_ns > _AT_ONCE_NS:
                del self._idle[flow.id]
        yield from self._idle_lost(flow, now, is_reset=is_reset)

    def _idle_lost(self, flow: Flow, until: PacketTime | None, *, is_reset: bool = False) -> Iterator[Incident]:
        """Yield the incident of an idle connection, when it ends."""
        idle = self._idle.pop(flow.id, None)
        if idle is not None:
            yield self._idle_incident(flow, idle, until, is_reset=is_reset)

    def _idle_incident(self, flow: Flow, idle: _Idle, until: PacketTime | None, *, is_reset: bool) -> Incident:
        since = PacketTime(idle.request.packet, idle.request.time_ns)
        idle_ns = since.time_ns - idle.answered.time_ns
        if until is None:
            what = f"nothing that the client sent afterwards (from packet {since.packet} on) was acknowledged"
        elif is_reset:
            what = f"its next packet ({since.packet}) was answered with a RST (packet {until.packet})"
        else:
            what = (
                f"nothing that the client sent afterwards (packet {since.packet} until {until.packet}) was acknowledged"
            )
        return Incident(
            IDLE_CONNECTION_LOST,
            since,
            until,
            flow,
            f"The connection of {flow.client} to {flow.broker} was idle for {idle_ns / 1e9:.0f} s, then {what}; "
            + (
                "other connections of this broker lived on"
                if idle.lives
                else "the broker's restart would look the same"
            ),
            Where(flows=frozenset({flow.id})),
            witness_of(idle.request),
            blame="network" if idle.lives else "unknown",
            grounds=(self.scene.lasted(_IDLE_NS, idle.answered, since),),
        )

    def _lives(self, other: Flow, request: Message, idle_since: PacketTime) -> bool:
        """True if a connection of the same broker is older than the idle time and was answered a short time ago."""
        answered = self.scene.answered.get(other.id)
        return (
            answered is not None
            and other.first_time_ns < idle_since.time_ns
            and answered.time_ns > request.time_ns - _RECENT_NS
        )

    def _not_reading(self, flow: Flow, side: int, until: PacketTime | None) -> Iterator[Incident]:
        """Yield the incident that a client did not read, when it reads again or its connection ends."""
        scene, closed = self.scene, self.scene.closed_windows.get((flow.id, side))
        now, request = scene.now if until is None else until, scene.waiting(flow.id)
        if closed is None or side != flow.calling_side or request is None or flow.service != "kafka":
            return
        # Its kernel receives until its buffer is full: the client's last request is the last sign that it lives.
        sent, since = PacketTime(request.packet, request.time_ns), closed
        if closed.time_ns - sent.time_ns < now.time_ns - closed.time_ns:
            since = min(sent, closed, key=lambda it: it.time_ns)
        lasted_ns = now.time_ns - since.time_ns
        if lasted_ns < _NOT_READING_NS:
            return
        end = TO_THE_END if until is None else f"until packet {until.packet}"
        yield Incident(
            CLIENT_NOT_READING,
            since,
            until,
            flow,
            f"{flow.client} did not read what {flow.broker} sent for {lasted_ns / 1e9:.1f} s (packet {since.packet} "
            f"{end}): its window was zero from packet {closed.packet} on, while the answer to its {request.api} waited",
            Where(flows=frozenset({flow.id})),
            witness_of(request),
            blame="client",
            of_client=True,
            client_id=request.client_id or None,
            grounds=(scene.lasted(_NOT_READING_NS, since, now),),
        )
