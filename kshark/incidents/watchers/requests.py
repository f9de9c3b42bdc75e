"""Requests whose answer does not come. Incident 131."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kshark.analysis.facts.bases import AT_LEAST
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Message

#: The time in which brokers answer every request, beside the wait that the request itself allows.
#: Kafka: request.timeout.ms of clients, 30 s.
_PATIENCE_NS: Final = 30_000_000_000
#: Fields with the time in ms that a broker may wait before it answers.
_WAITS: Final = ("max_wait_ms", "timeout_ms", "rebalance_timeout_ms")

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


class _Connection:
    """A connection with open requests. An answer is due for the oldest of them."""

    def __init__(self, requests: Requests, flow: Flow) -> None:
        self._requests = requests
        self.flow = flow
        #: The last answer: a broker answers the requests of a connection one after the other.
        self.answered = PacketTime(0, 0)

    def since(self, request: Message) -> PacketTime:
        """Return since when the broker could work on its oldest request."""
        return max(self.answered, PacketTime(request.packet, request.time_ns), key=lambda it: it.time_ns)

    def due_ns(self) -> int | None:
        request = self._requests.scene.oldest_open(self.flow.id)
        return None if request is None else self.since(request).time_ns + wait_ns(request) + _PATIENCE_NS

    def missed(self) -> Iterable[Incident]:
        return self._requests.overdue(self)


class Requests(Watcher):
    """Watch the oldest open request of each connection."""

    rows = (REQUEST_OVERDUE,)
    apis = None
    requests = None
    kinds = (Closed,)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._connections: dict[int, _Connection] = {}

    def request(self, request: Message) -> Iterable[Incident]:
        connection = self._connections.get(request.flow)
        if connection is None:
            flow = self.scene.flows.get(request.flow)
            if flow is None:
                return NOTHING
            connection = self._connections[request.flow] = _Connection(self, flow)
        if len(self.scene.open[request.flow]) == 1:
            self.due.add(connection)
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        connection = self._connections.get(exchange.flow.id)
        if connection is not None and exchange.response is not None:
            connection.answered = self.scene.now
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Closed):
            self._connections.pop(event.flow.id, None)
        return NOTHING

    def overdue(self, connection: _Connection) -> Iterable[Incident]:
        """Yield the incident of a connection whose oldest request has no answer in time."""
        request = self.scene.oldest_open(connection.flow.id)
        if request is None:
            return
        since, flow = connection.since(request), connection.flow
        waited_s = (self.scene.now.time_ns - since.time_ns) / 1e9
        yield Incident(
            REQUEST_OVERDUE,
            since,
            None,
            flow,
            f"{request.api} (packet {request.packet}) of {flow.client} has no answer from {flow.broker} after "
            f"{waited_s:.1f} s",
            Where(flows=frozenset({flow.id})),
            witness_of(request),
            blame="broker",
            of_client=True,
            grounds=(self.scene.lasted(wait_ns(request), since),),
        )


def wait_ns(request: Message) -> int:
    """Return how long the broker may wait before it answers, as the request says."""
    body: Any = request.body
    waits = (getattr(body, name, None) for name in _WAITS)
    return next((wait * 1_000_000 for wait in waits if isinstance(wait, int) and wait > 0), 0)
