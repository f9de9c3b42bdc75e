"""Requests whose answers do not come: of one connection, or of a whole broker. Incidents 129 and 131."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.anomaly import Blame
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import AT_THE_END, TO_THE_END, client_id_of, client_named
from kshark.incidents.waits import SHIFT, ServiceTimes, field_wait_ns, overdue_ns, rightful_wait_ns
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Finding, Flow, Gap, HalfClosed, Message, Weird

_TRUNCATED: Final = "FRAME_TRUNCATED_AT_CLOSE"
_ACKNOWLEDGED: Final = "ACKNOWLEDGED_LATE"
#: Requests that are shown as evidence of a silence.
_WITNESSES: Final = 8
_NEVER: Final = PacketTime(0, 0)
_SECOND_NS: Final = 1_000_000_000
_UNKNOWN: Final = "; the capture does not show whether the broker or the network held the answers up"

BROKER_SILENT: Final = Rule(
    number=129,
    code="BROKER_SILENT",
    text="A broker answered no captured connection although the requests of several had waited long enough.",
    source="Kafka: NetworkClient, SocketServer",
    rests_on=(AT_LEAST,),
    blame=("broker",),
    verdicts=("note", "unknown"),
    must="A broker answers its clients, at the latest after the wait that each request allows.",
    advice="Check the broker's process at this time: garbage collection, disk, CPU, a suspended machine.",
    weight=85,
    explains=("REQUEST_OVERDUE", "REQUEST_UNANSWERED", "REQUEST_TIMEOUT_CLOSE", "MEMBER_REFUSED", "SESSION_UNKNOWN"),
    excuses=("HEARTBEAT_LATE", "NO_RECOVERY", "SESSION_NOT_CLOSED"),
)
REQUEST_OVERDUE: Final = Rule(
    number=131,
    code="REQUEST_OVERDUE",
    text="A request is open far beyond the time that it allows the broker to wait.",
    source="Kafka: NetworkClient (request.timeout.ms)",
    rests_on=(AT_LEAST,),
    blame=("broker", "network"),
    verdicts=("note", "unknown"),
    must="A broker answers each request, at the latest after the wait that the request allows.",
    advice="Look at the broker's log and thread dump at this time: a request handler may be stuck.",
    weight=60,
    explains=("REQUEST_UNANSWERED", "REQUEST_TIMEOUT_CLOSE"),
)


#: The client's bytes are sent again without an acknowledgement, or its window is closed.
Trouble = Literal["", "unacknowledged", "no room"]


class _Broker:
    """The answers of a broker. `answered`: its last sign of life; None before the first, and after its connections
    ended.
    """

    __slots__ = ("address", "answered", "connections", "heard", "lost", "service")

    def __init__(self, address: str) -> None:
        self.address = address
        self.answered: PacketTime | None = None
        self.connections: dict[int, _Connection] = {}
        #: The last packet of a hole in the bytes of any of its connections.
        self.lost = 0
        self.service = ServiceTimes()
        self.heard: dict[str, deque[int]] = {}


class _Connection:
    """A connection that speaks Kafka."""

    __slots__ = (
        "acknowledged",
        "answered_ns",
        "begun",
        "broker",
        "flow",
        "heard",
        "judged",
        "last",
        "lost",
        "muted_ns",
        "trouble",
    )

    def __init__(self, flow: Flow, broker: _Broker) -> None:
        self.flow = flow
        self.broker = broker
        #: The seconds in which the broker answered this client's host, on any connection.
        self.heard = broker.heard.setdefault(host_of(flow.client), deque([0], maxlen=limits.HEARD_SECONDS))
        #: The time of the last answer.
        self.answered_ns = 0
        #: The time until which the broker reads no request, because of a quota.
        self.muted_ns = 0
        #: The last packets of a hole in the broker's bytes, and of a late acknowledgement of the client's.
        self.lost = 0
        self.acknowledged = _NEVER
        #: True if a part of an answer came, of which the rest did not.
        self.begun = False
        #: The packet of the last request that was given up.
        self.judged = 0
        #: Its trouble when the capture ended.
        self.trouble: Trouble = ""
        #: Its requests without an answer when the capture ended: the first, since when, and their number.
        self.last: tuple[Message, PacketTime, int] | None = None


class _Waiting(Struct, frozen=True):
    """A request that waits for its answer, as the oldest of its connection, since a packet."""

    connection: _Connection
    request: Message
    since: PacketTime
    open: int

    def is_beyond(self, until_ns: int, least_ns: int) -> bool:
        """True if the broker could have answered before this time."""
        wait_ns = rightful_wait_ns(self.request)
        since_ns = max(self.since.time_ns, self.connection.muted_ns)
        return until_ns - since_ns > wait_ns + max(least_ns, wait_ns // 20)


class Requests(Watcher):
    """Watch the oldest open request of each connection."""

    rows = (BROKER_SILENT, REQUEST_OVERDUE)
    apis = None
    kinds = (Closed, HalfClosed, Gap)
    weirds = frozenset({_TRUNCATED, _ACKNOWLEDGED})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._connections: dict[int, _Connection] = {}
        self._brokers: dict[Broker, _Broker] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        response, request = exchange.response, exchange.request
        connection = self._connections.get(exchange.flow.id)
        if connection is None:
            connection = self._connect(exchange.flow)
        if response is None:
            return NOTHING
        scene, broker = self.scene, connection.broker
        now, incidents = scene.now, NOTHING
        last, broker.answered = broker.answered, now
        if last is not None and now.time_ns - last.time_ns >= limits.SILENT_NS:
            incidents = [*self._first_answer(connection, request, response, last)]
        if request is not None:
            sent_ns, before_ns = request.time_ns, connection.answered_ns
            took_ns = now.time_ns - (before_ns if before_ns > sent_ns else sent_ns)
            if took_ns > limits.BEYOND_NS:
                incidents = [*incidents, *self._late(connection, request, response, took_ns)]
                took_ns = max(0, took_ns - field_wait_ns(request))
            broker.service.counts[(took_ns >> SHIFT).bit_length()] += 1
        connection.answered_ns = now.time_ns
        second = now.time_ns // _SECOND_NS
        if connection.heard[-1] != second:
            connection.heard.append(second)
        if scene.throttle_ns:
            connection.muted_ns = now.time_ns + scene.throttle_ns
        return incidents

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        connection = self._connections.get(event.flow if isinstance(event, Weird) else event.flow.id)  # type: ignore[arg-type]
        if connection is None:
            return NOTHING
        flow = connection.flow
        if isinstance(event, Weird):
            return self._weird(connection, event)
        if isinstance(event, Gap):
            if event.reason != "body":  # of which the head is here
                connection.broker.lost = event.packet
                if event.side != flow.calling_side:
                    connection.lost = event.packet
            return NOTHING
        if isinstance(event, HalfClosed):
            return self._given_up(connection, "fin") if event.side == flow.calling_side else NOTHING
        return self._closed(connection, event) if isinstance(event, Closed) else NOTHING

    def lasting(self) -> Iterable[Incident]:
        scene, now_ns = self.scene, self.scene.now.time_ns
        for broker in self._brokers.values():
            if broker.answered is not None and now_ns - broker.answered.time_ns >= limits.SILENT_NS:
                yield from self._silence(broker, None, None)
        for number, connection in self._connections.items():
            request = scene.oldest_open(number)
            if request is None or now_ns - request.time_ns < limits.OVERDUE_WAITING_NS:
                continue
            if number in scene.answered and request.packet != connection.judged:
                yield from self._overdue(connection, request, scene.waits_since(request), "open")

    def may_excuse(self, finding: Finding) -> bool:
        """True if the broker has answered nothing since: a silence begins after its last answer."""
        broker = self._brokers.get(self.scene.brokers.at(finding.broker))
        answered = None if broker is None else broker.answered
        return answered is None or answered.packet <= finding.packet or answered.time_ns <= finding.time_ns

    def close(self) -> Iterable[Incident]:
        for broker in list(self._brokers.values()):
            yield from self._silence(broker, None, None)
        for connection in self._connections.values():
            if connection.last is not None and connection.last[0].packet != connection.judged:
                yield from self._overdue(connection, *connection.last[:2], "open")

    def _connect(self, flow: Flow) -> _Connection:
        broker = self.scene.broker_of(flow)
        of_broker = self._brokers.get(broker)
        if of_broker is None:
            of_broker = _Broker(flow.broker)
            if len(self._brokers) < limits.BROKERS:
                self._brokers[broker] = of_broker
        connection = self._connections[flow.id] = of_broker.connections[flow.id] = _Connection(flow, of_broker)
        return connection

    def _weird(self, connection: _Connection, weird: Weird) -> Iterable[Incident]:
        if weird.code == _ACKNOWLEDGED:
            if weird.side == connection.flow.calling_side:
                connection.acknowledged = self.scene.now
        elif weird.side != connection.flow.calling_side:
            connection.begun = True
        return NOTHING

    def _closed(self, connection: _Connection, closed: Closed) -> Iterable[Incident]:
        scene, number = self.scene, connection.flow.id
        request = scene.waiting(number)
        if closed.how == "capture":
            if request is not None and number in scene.answered:
                connection.trouble = self._trouble(connection)
                connection.last = request, scene.waits_since(request), max(1, len(scene.open.get(number, ())))
            return NOTHING
        incidents = [*self._given_up(connection, closed.how)]
        broker = connection.broker
        del self._connections[number]
        broker.connections.pop(number, None)
        if not broker.connections:
            broker.answered = None
        return incidents

    # -- one request

    def _late(self, connection: _Connection, request: Message, response: Message, took_ns: int) -> Iterable[Incident]:
        """Judge a request whose answer took some time. Before KIP-219, a quota delayed the answer itself."""
        if took_ns < limits.OVERDUE_WAITING_NS or self.scene.throttle_ns:
            return NOTHING
        late_ns = self.scene.now.time_ns - self._began_ns(response)  # the answer's first byte came earlier
        return self._overdue(connection, request, self.scene.waits_since(request), "answered", late_ns)

    def _given_up(self, connection: _Connection, how: str) -> Iterable[Incident]:
        """Judge the oldest request when its client or the broker ends the connection."""
        request = self.scene.waiting(connection.flow.id)
        if request is None or how not in ("fin", "rst") or request.packet == connection.judged:
            return NOTHING
        if connection.flow.id not in self.scene.answered:
            return NOTHING  # the capture may have one direction of it only
        connection.judged = request.packet
        return self._overdue(connection, request, self.scene.waits_since(request), "given up")

    def _overdue(
        self,
        connection: _Connection,
        request: Message,
        since: PacketTime,
        end: Literal["answered", "given up", "open"],
        less_ns: int = 0,
    ) -> Iterator[Incident]:
        """Yield the incident of a request that waited far too long, if its time is `less_ns` shorter."""
        scene, flow = self.scene, connection.flow
        trouble = self._trouble(connection)
        if trouble != "unacknowledged" and connection.acknowledged.time_ns > since.time_ns:
            since = connection.acknowledged
        least_ns = overdue_ns(request, connection.broker.service.usual_ns(95))
        waited_ns = scene.now.time_ns - max(since.time_ns, connection.muted_ns)
        if waited_ns - less_ns <= least_ns or (connection.begun and end != "answered"):
            return
        wait_ns, client_id = field_wait_ns(request), client_id_of(request)
        blame: Blame = "broker"
        proof = ""
        if trouble == "unacknowledged":
            blame, proof = "network", "; its packets were sent again and not acknowledged"
        elif trouble:
            blame, proof = "unknown", "; the client has no room for an answer"
        elif not self._is_heard(connection, since):
            blame, proof = "unknown", _UNKNOWN
        after = f"after {waited_ns / 1e9:.1f} s"
        ends = {
            "answered": f"was answered {after} (packet {scene.now.packet})",
            "given up": f"had no answer {after}, when its connection ended (packet {scene.now.packet})",
            "open": f"has no answer {after}{AT_THE_END}",
        }
        allowed = f", although it allows {wait_ns / 1e9:g} s" if wait_ns else ""
        yield Incident(
            REQUEST_OVERDUE,
            since,
            None if end == "open" else scene.now,
            flow,
            f"{request.api} (packet {request.packet}) of {client_named(flow, client_id)} to {flow.broker} "
            f"{ends[end]}{allowed}{proof}",
            Where(flows=frozenset({flow.id})),
            witness_of(request),
            blame=blame,
            because="gap" if end != "answered" and connection.broker.lost >= request.packet else None,
            of_client=True,
            client_id=client_id,
            grounds=(scene.lasted(least_ns, since),),
        )

    def _is_heard(self, connection: _Connection, since: PacketTime) -> bool:
        """True if the client's host got other answers of the broker all the time: the network between them worked.

        After an outage, an answer may be late by as long as that lasted again (RFC 6298: the timeout doubles).
        """
        first, last = since.time_ns // _SECOND_NS, self.scene.now.time_ns // _SECOND_NS
        seconds = [first, *(second for second in connection.heard if first <= second <= last), last]
        return 4 * max(after - before for before, after in pairwise(seconds)) <= last - first

    # -- a broker

    def _first_answer(
        self, connection: _Connection, request: Message | None, response: Message, last: PacketTime
    ) -> Iterator[Incident]:
        """Judge the first answer of a broker after a while: it may end a silence."""
        scene, broker, answered = self.scene, connection.broker, None
        if scene.throttle_ns or self._began_ns(response) - last.time_ns < limits.SILENT_NS:
            return
        if request is not None:
            requests = 1 + len(scene.open.get(request.flow, ()))
            answered = _Waiting(connection, request, scene.waits_since(request), requests)
        broker.answered = last
        yield from self._silence(broker, answered, scene.now)
        broker.answered = scene.now

    def _began_ns(self, response: Message) -> int:
        """Return a time after which the first byte of an answer came: packets between, with other times, show it."""
        if not isinstance(response.packets, tuple):
            return response.time_ns
        return max(
            (
                request.time_ns
                for requests in self.scene.open.values()
                for (request,) in requests.values()
                if request.packet < response.packets[0]
            ),
            default=0,
        )

    def _silence(self, broker: _Broker, answered: _Waiting | None, until: PacketTime | None) -> Iterator[Incident]:
        """Yield the incident that a broker was silent until now: `answered` got its answer, or the capture ended."""
        scene, now = self.scene, self.scene.now
        brokers = self._same(broker)
        last = max((it.answered for it in brokers if it.answered is not None), key=lambda it: it.time_ns, default=None)
        waiting = [*self._waiting(brokers, answered)]
        if last is None or not waiting:
            return
        sent = min((PacketTime(it.request.packet, it.request.time_ns) for it in waiting), key=lambda it: it.time_ns)
        since = max(last, sent, key=lambda it: it.time_ns)
        usual_ns = broker.service.usual_ns(75)  # most answers, also if some of them end silences
        least_ns = max(limits.SILENT_NS, limits.USUAL_TIMES * usual_ns)
        lasted_ns = now.time_ns - since.time_ns
        seen_ns = lasted_ns - scene.longest_pause_ns(since.time_ns, now.time_ns)  # the capture did not stand still
        if lasted_ns < least_ns or seen_ns < limits.SILENT_NS // 2:
            return
        beyond = [
            it for it in waiting if it.is_beyond(now.time_ns, max(limits.BEYOND_NS, usual_ns)) and self._proves(it)
        ]
        if len(beyond) < 2:
            return
        yield self._silent(broker, since, until, waiting, beyond)

    def _silent(
        self,
        broker: _Broker,
        since: PacketTime,
        until: PacketTime | None,
        waiting: list[_Waiting],
        beyond: list[_Waiting],
    ) -> Incident:
        scene, lasted_ns = self.scene, self.scene.now.time_ns - since.time_ns
        proof = self._network(waiting, since)
        requests = sum(it.open for it in waiting)
        clients = len({host_of(it.connection.flow.client) for it in waiting})
        end = f"until packet {until.packet}" if until is not None else TO_THE_END
        flows = [it.connection.flow for it in waiting]
        return Incident(
            BROKER_SILENT,
            since,
            until,
            beyond[0].connection.flow,
            f"Broker {broker.address} answered none of its captured connections for {lasted_ns / 1e9:.1f} s (packet "
            f"{since.packet} {end}), with {requests} requests open on {len(waiting)} connections of {clients} "
            f"host{'s' * (clients > 1)}{proof or _UNKNOWN}",
            Where(brokers=frozenset(flow.broker for flow in flows)),
            witness_of(*(it.request for it in beyond[:_WITNESSES])),
            blame="broker" if proof else "unknown",
            grounds=(scene.lasted(limits.SILENT_NS, since),),
        )

    def _network(self, waiting: list[_Waiting], since: PacketTime) -> str:
        """Return what the packets show about the network: a host sends again what is not acknowledged."""
        scene = self.scene
        is_clean = not any(
            it.connection.lost >= since.packet
            or it.connection.acknowledged.time_ns >= since.time_ns
            or it.connection.trouble
            or any((it.connection.flow.id, side) in scene.unacked for side in (0, 1))
            for it in waiting
        )
        sent_ns = [
            request.time_ns
            for it in waiting
            for (request,) in (*scene.open.get(it.connection.flow.id, {}).values(), (it.request,))
        ]
        is_shown = any(since.time_ns <= time_ns < scene.now.time_ns - 2 * limits.UNACKED_NS for time_ns in sent_ns)
        return (
            ". No packet was lost, its host acknowledged them: the process stood still, not the network"
            if is_clean and is_shown
            else ""
        )

    def _same(self, broker: _Broker) -> list[_Broker]:
        """Return this broker under all its addresses."""
        at = self.scene.brokers.at
        return [it for it in self._brokers.values() if at(it.address) is at(broker.address)] or [broker]

    def _waiting(self, brokers: list[_Broker], answered: _Waiting | None) -> Iterator[_Waiting]:
        """Yield the oldest request of each connection of a broker."""
        scene = self.scene
        for broker in brokers:
            for number, connection in broker.connections.items():
                if answered is not None and answered.connection is connection:
                    yield answered
                elif connection.last is not None:
                    yield _Waiting(connection, *connection.last)
                elif (request := scene.oldest_open(number)) is not None:
                    yield _Waiting(connection, request, scene.waits_since(request), len(scene.open[number]))

    def _proves(self, waiting: _Waiting) -> bool:
        """True if nothing but the broker explains that this request has no answer."""
        connection = waiting.connection
        if connection.last is None and connection.flow.id not in self.scene.answered:
            return False  # the capture may have one direction of it only
        return connection.lost < waiting.since.packet and not connection.begun and not self._trouble(connection)

    def _trouble(self, connection: _Connection) -> Trouble:
        """Return the trouble of a connection, which explains that a request has no answer."""
        if connection.trouble:
            return connection.trouble
        scene, client = self.scene, (connection.flow.id, connection.flow.calling_side)
        return "unacknowledged" if client in scene.unacked else "no room" if client in scene.closed_windows else ""
