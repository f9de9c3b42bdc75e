"""SASL sessions that clients do not renew. Incident 136."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kshark.incidents.clients import Client, client_of, closed_on
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_named, seconds
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Gap, HalfClosed, Message, Witness

_MS: Final = 1_000_000
#: A broker closes on a request within this time.
_SOON_NS: Final = 5_000_000_000
#: An answer this long after the end of a session may still be due to a request before it.
_WAIT_NS: Final = 30_000_000_000
#: Sessions of one client that end farther apart than three lifetimes and this time are incidents of their own.
_APART_NS: Final = 300_000_000_000
_WITNESSES: Final = 8
#: The requests with which a client authenticates again.
_STARTS: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})

SASL_SESSION_EXPIRED: Final = Rule(
    number=136,
    code="SASL_SESSION_EXPIRED",
    text="A broker closed a connection on the first request after the end of its SASL session.",
    source="KIP-368; Kafka: connections.max.reauth.ms, SocketServer",
    rests_on=(AT_LEAST,),
    blame=("client",),
    verdicts=("note", "unknown"),
    must="A client authenticates again on the same connection before the session_lifetime_ms of the SaslAuthenticate "
    "answer have passed.",
    advice="Use a client version with re-authentication (KIP-368). If there is none, a longer "
    "connections.max.reauth.ms of the brokers, or tokens that live longer, make it rarer.",
    weight=40,
    explains=("REQUEST_UNANSWERED", "IDLE_CONNECTION_LOST"),
)


class _Session(Struct):
    """An authentication that ends.

    `began`: its request; the broker counts from its answer, in packet `answer`. `is_renewing`: the client has begun the
    next one; `is_whole`: no gap since.
    """

    began: PacketTime
    answer: int
    witness: tuple[Witness, ...]
    lifetime_ns: int
    is_renewing: bool = False
    is_whole: bool = True

    @property
    def end_ns(self) -> int:
        """The earliest time at which the broker may end it."""
        return self.began.time_ns + self.lifetime_ns


class _Expired(Struct, eq=False):
    """Connections of a client that were closed so, one after the other."""

    watcher: SaslSessions
    client: Client
    flow: Flow
    session: _Session
    sent: PacketTime
    api: str
    closed: PacketTime
    last: PacketTime
    flows: set[int] = field(default_factory=set)
    witness: list[Witness] = field(default_factory=list)
    count: int = 0
    is_whole: bool = True

    def due_ns(self) -> int | None:
        return self.last.time_ns + 3 * self.session.lifetime_ns + _APART_NS

    def missed(self) -> Iterable[Incident]:
        return self.watcher.over(self)


class SaslSessions(Watcher):
    """Watch the sessions that brokers grant, and the connections that they end afterwards."""

    rows = (SASL_SESSION_EXPIRED,)
    apis = frozenset({SASL_AUTHENTICATE})
    requests = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
    kinds = (HalfClosed, Closed, Gap)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        #: By connection.
        self._sessions: dict[int, _Session] = {}
        self._expired: dict[Client, _Expired] = {}

    def request(self, request: Message) -> Iterable[Incident]:
        session = self._sessions.get(request.flow)
        if session is not None:
            session.is_renewing = True
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, answer, number = exchange.request, exchange.response, exchange.flow.id
        if request is not None and answer is not None and number in self.scene.flows:
            lifetime_ms = getattr(answer.body, "session_lifetime_ms", None)
            if getattr(answer.body, "error_code", None) == 0 and isinstance(lifetime_ms, int) and lifetime_ms > 0:
                began = PacketTime(request.packet, request.time_ns)
                self._sessions[number] = _Session(began, answer.packet, witness_of(exchange), lifetime_ms * _MS)
            else:
                self._sessions.pop(number, None)
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        session = None if event.flow is None or isinstance(event.flow, int) else self._sessions.get(event.flow.id)
        if session is None:
            return NOTHING
        if isinstance(event, Gap):
            session.is_whole = False
        elif isinstance(event, HalfClosed):
            self._end(event.flow, event.side, session)
        elif isinstance(event, Closed):
            if event.how == "rst" and event.side is not None:
                self._end(event.flow, event.side, session)
            self._sessions.pop(event.flow.id, None)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for expired in [*self._expired.values()]:
            yield from self.over(expired)

    def _end(self, flow: Flow, side: int, session: _Session) -> None:
        """Take the first end of a connection."""
        del self._sessions[flow.id]
        if side == flow.calling_side or session.is_renewing:
            return
        scene = self.scene
        request, answered = scene.waiting(flow.id), scene.answered.get(flow.id)
        if request is None or request.api_key in _STARTS or request.time_ns < session.end_ns:
            return
        if scene.now.time_ns - request.time_ns > _SOON_NS:
            return
        if answered is not None and answered.time_ns > session.end_ns + _WAIT_NS:
            return  # the broker answered requests after the end of the session
        self._note(flow, session, request)

    def _note(self, flow: Flow, session: _Session, request: Message) -> None:
        client, now = client_of(flow, request), self.scene.now
        sent = PacketTime(request.packet, request.time_ns)
        expired = self._expired.get(client)
        if expired is None:
            if len(self._expired) >= limits.SERVED_CLIENTS:
                return
            expired = self._expired[client] = _Expired(self, client, flow, session, sent, str(request.api), now, now)
            expired.is_whole = session.is_whole
        expired.last = now
        expired.count += 1
        if len(expired.flows) < limits.CLOSINGS:
            expired.flows.add(flow.id)
        if len(expired.witness) < _WITNESSES:
            expired.witness += [*session.witness, closed_on(flow, request, now.packet)]
        self.due.add(expired)

    def over(self, expired: _Expired) -> Iterator[Incident]:
        """Yield the incident of a client whose sessions do not end any more."""
        del self._expired[expired.client]
        client, session, since = expired.client, expired.session, expired.sent
        name = client_named(expired.flow, client.client_id)
        lasted = seconds(expired.last.time_ns - since.time_ns)
        times = f" {expired.count} times in {lasted}" if expired.count > 1 else ""
        used = seconds(since.time_ns - session.began.time_ns)
        yield Incident(
            SASL_SESSION_EXPIRED,
            since,
            expired.last,
            expired.flow,
            f"Broker {client.broker} closed the connection of {name}{times} because its SASL session was over: it was "
            f"granted {seconds(session.lifetime_ns)} (packet {session.answer}), and {expired.api} came after "
            f"{used} (packet {since.packet}) without a new authentication; closed in packet {expired.closed.packet}",
            Where(flows=frozenset(expired.flows)),
            tuple(expired.witness),
            blame="client",
            because=None if expired.is_whole else "gap",
            of_client=True,
            client_id=client.client_id,
            grounds=(self.scene.lasted(session.lifetime_ns, session.began, since),),
        )
