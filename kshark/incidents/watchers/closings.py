"""Connections that a broker closes where an answer is due. Incident 143."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.bases import BETWEEN_DIRECTIONS
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import API_VERSIONS, PRODUCE
from kshark.incidents.clients import Client, client_of, closed_on
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_named, listed, seconds
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Gap, HalfClosed, Message, Weird, Witness

#: A broker closes on a request within this time. Others that it ends in the same time show another reason: its own end.
_SOON_NS: Final = 1_000_000_000
#: So many times it is no accident.
_TIMES: Final = 3
#: Closings of one kind that are farther apart are incidents of their own.
_APART_NS: Final = 300_000_000_000
_WITNESSES: Final = 8
#: A version that kshark does not know, or no broker, is what this incident is about. Other faults of a request have
#: rules of their own, also those of a connection (rules 1, 13 and 17).
_EXPECTED: Final = frozenset({"VERSION_UNKNOWN"})
_FAULTS: Final = frozenset({"FRAME_LENGTH_INVALID", "REQUEST_TOO_LONG", "VERSION_NOT_ADVERTISED", "SASL_SEQUENCE"})
ACKS0_FAILED: Final = "acks0_failed"

CLOSED_INSTEAD_OF_ANSWER: Final = Rule(
    number=143,
    code="CLOSED_INSTEAD_OF_ANSWER",
    text="A broker closed connections again and again where an answer was due.",
    source="Kafka: RequestContext, KafkaApis.handleProduceRequest; KIP-511",
    rests_on=(BETWEEN_DIRECTIONS,),
    blame=("broker",),
    verdicts=("note", "unknown"),
    causes=(ACKS0_FAILED,),
    must="A broker answers each request in a version that it supports, and ApiVersions in every version.",
    advice="Let the client use a version that the broker answers; the broker's log has the reason. After acks=0, use "
    "acks=1 to see the error.",
    weight=45,
    explains=("REQUEST_UNANSWERED",),
)


class _Kind(Struct, frozen=True):
    """Closings that are one incident."""

    client: Client
    api_key: int
    version: int
    is_one_way: bool


class _Closing(Struct, frozen=True):
    """A connection that the broker closed on a request; `sent`: the packet of that, `name` the API and partition.

    `is_whole`: no bytes of the broker are missing.
    """

    at: PacketTime
    flow: Flow
    sent: PacketTime
    name: str
    witness: Witness
    is_whole: bool


class _Closings(Struct, eq=False):
    """Closings of one kind, one after the other."""

    watcher: ClosedOn
    kind: _Kind
    count: int = 0
    whole: int = 0
    first: deque[_Closing] = field(default_factory=deque)
    last: deque[_Closing] = field(default_factory=lambda: deque(maxlen=limits.CLOSINGS))

    def add(self, closing: _Closing) -> None:
        self.count += 1
        self.whole += closing.is_whole
        if len(self.first) < _WITNESSES:
            self.first.append(closing)
        self.last.append(closing)

    def remove_since(self, time_ns: int) -> None:
        """Remove the closings since a time: the broker ended other connections then, too."""
        while self.last and self.last[-1].at.time_ns >= time_ns:
            self._remove(self.last[-1])

    def remove(self, flow: int) -> None:
        """Remove the closing of a connection."""
        for closing in [closing for closing in self.last if closing.flow.id == flow]:
            self._remove(closing)

    def _remove(self, closing: _Closing) -> None:
        self.last.remove(closing)
        self.count -= 1
        self.whole -= closing.is_whole
        if closing in self.first:
            self.first.remove(closing)

    def due_ns(self) -> int | None:
        return self.last[-1].at.time_ns + _APART_NS if self.last else None

    def missed(self) -> Iterable[Incident]:
        return self.watcher.over(self)


class ClosedOn(Watcher):
    """Watch the connections that brokers end, and the versions that they answer."""

    rows = (CLOSED_INSTEAD_OF_ANSWER,)
    apis = None
    kinds = (HalfClosed, Closed, Gap)
    weirds = _FAULTS

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        #: Of each open connection, the APIs and versions that are answered.
        self._answered: dict[int, set[tuple[Any, Any]]] = {}
        #: The same of each broker and of each of its clients, with all connections.
        self._served: set[tuple[str, int, int]] = set()
        self._versions: dict[Client, dict[int, set[int]]] = {}
        #: The last Produce with acks=0 of each open connection.
        self._one_way: dict[int, Message] = {}
        #: Connections that have ended in one direction, with the kind of their closing; those with missing bytes of the
        #: broker, and those with faults that have a rule.
        self._ended: dict[int, _Kind | None] = {}
        self._holed: set[int] = set()
        self._faulty: set[int] = set()
        self._closings: dict[_Kind, _Closings] = {}
        #: By broker, the last connection that it ended: when, and of what kind.
        self._ends: dict[str, tuple[int, _Kind | None]] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request = exchange.request
        if request is None:
            return NOTHING
        if exchange.response is None:
            if request.api_key == PRODUCE and getattr(request.body, "acks", None) == 0:
                self._one_way[exchange.flow.id] = request
            return NOTHING
        answered, kind = self._answered.get(exchange.flow.id), (request.api_key, request.version)
        if answered is None or kind not in answered:
            self._serve(exchange.flow, request)
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Gap):
            if event.side != event.flow.calling_side:
                self._holed.add(event.flow.id)
        elif isinstance(event, Weird):
            if event.flow in self.scene.flows:
                self._fault(event.flow)
        elif isinstance(event, HalfClosed):
            self._end(event.flow, event.side)
        elif isinstance(event, Closed):
            flow = event.flow
            if event.how == "rst" and event.side is not None:
                self._end(flow, event.side)
            self._ended.pop(flow.id, None)
            self._holed.discard(flow.id)
            self._faulty.discard(flow.id)
            self._answered.pop(flow.id, None)
            self._one_way.pop(flow.id, None)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for closings in [*self._closings.values()]:
            yield from self.over(closings)

    def _fault(self, flow: int) -> None:
        """Take a fault of a connection: the broker closed because of it."""
        self._faulty.add(flow)
        kind = self._ended.get(flow)
        closings = None if kind is None else self._closings.get(kind)
        if closings is not None:
            closings.remove(flow)

    def _serve(self, flow: Flow, request: Message) -> None:
        """Note the first answer to an API and version on a connection."""
        api_key, version = request.api_key, request.version
        if api_key is UNSET or version is UNSET:
            return
        if flow.id in self.scene.flows:
            self._answered.setdefault(flow.id, set()).add((api_key, version))
        self._served.add((flow.broker, api_key, version))
        client = client_of(flow, request)
        if client in self._versions or len(self._versions) < limits.SERVED_CLIENTS:
            self._versions.setdefault(client, {}).setdefault(api_key, set()).add(version)

    def _end(self, flow: Flow, side: int) -> None:
        """Take the first end of a connection."""
        if flow.id in self._ended:
            return
        self._ended[flow.id] = None
        if side == flow.calling_side or flow.service != "kafka":
            return
        now = self.scene.now
        request, is_one_way = self._closed_on(flow)
        kind = None
        if request is not None and request.api_key is not UNSET and request.version is not UNSET:
            kind = _Kind(client_of(flow, request), request.api_key, request.version, is_one_way)
        before = self._ends.get(flow.broker)
        if before is None and len(self._ends) >= limits.BROKERS:
            return
        self._ends[flow.broker] = (now.time_ns, kind)
        if before is not None and before[1] != kind and now.time_ns - before[0] <= _SOON_NS:
            closings = None if before[1] is None else self._closings.get(before[1])
            if closings is not None:
                closings.remove_since(now.time_ns - _SOON_NS)
        elif kind is not None and request is not None and flow.id not in self._faulty and _is_expected(request):
            self._ended[flow.id] = kind
            sent, is_whole = PacketTime(request.packet, request.time_ns), flow.id not in self._holed
            name = f"Produce with acks=0{_target(request)}" if is_one_way else f"{request.api} v{request.version}"
            self._add(kind, _Closing(now, flow, sent, name, closed_on(flow, request, now.packet), is_whole))

    def _closed_on(self, flow: Flow) -> tuple[Message | None, bool]:
        """Return the request on which a broker closes now, and if it has no answer by protocol."""
        scene, now_ns = self.scene, self.scene.now.time_ns
        request, is_one_way = scene.waiting(flow.id), False
        if request is None or getattr(request.body, "acks", None) == 0:
            request, is_one_way = self._one_way.get(flow.id), True
            answered = scene.answered.get(flow.id)
            if request is not None and answered is not None and answered.packet > request.packet:
                return None, False
        if request is None or now_ns - request.time_ns > _SOON_NS:
            return None, False
        return request, is_one_way

    def _add(self, kind: _Kind, closing: _Closing) -> None:
        closings = self._closings.get(kind)
        if closings is None:
            if len(self._closings) >= limits.SERVED_CLIENTS:
                return
            closings = self._closings[kind] = _Closings(self, kind)
        closings.add(closing)
        self.due.add(closings)

    def over(self, closings: _Closings) -> Iterator[Incident]:
        """Yield the incident of closings that do not go on, if there were enough."""
        kind = closings.kind
        del self._closings[kind]
        if closings.count < _TIMES or not closings.first:
            return
        others: set[int] = set()
        if not kind.is_one_way:
            others = self._versions.get(kind.client, {}).get(kind.api_key, set()) - {kind.version}
            if not others or (kind.client.broker, kind.api_key, kind.version) in self._served:
                return
        first, last = closings.first[0], closings.last[-1]
        is_known = closings.whole >= _TIMES
        yield Incident(
            CLOSED_INSTEAD_OF_ANSWER,
            first.sent,
            last.at,
            first.flow,
            _text(kind, closings.count, first, last, others),
            Where(flows=frozenset(it.flow.id for it in (*closings.first, *closings.last))),
            tuple(it.witness for it in closings.first),
            blame="broker" if kind.api_key == API_VERSIONS else "unknown",
            cause=ACKS0_FAILED if kind.is_one_way else None,
            because=None if is_known else "gap",
            of_client=True,
            client_id=kind.client.client_id,
        )


def _text(kind: _Kind, count: int, first: _Closing, last: _Closing, others: set[int]) -> str:
    name, broker = client_named(first.flow, kind.client.client_id), kind.client.broker
    times = f"{count} times in {seconds(last.at.time_ns - first.sent.time_ns)}"
    proof = f"packet {first.sent.packet}, closed in packet {first.at.packet}"
    if kind.is_one_way:
        return (
            f"Broker {broker} closed the connection of {name} after {first.name} {times} ({proof}): so brokers report "
            f"an append that failed"
        )
    return (
        f"Broker {broker} closed the connection of {name} on {first.name} instead of an answer {times} ({proof}); it "
        f"answers {listed(f'v{version}' for version in sorted(others))}"
    )


def _target(request: Message) -> str:
    """Return the first partition of a Produce request, for a sentence."""
    topics: Any = getattr(request.body, "topic_data", None)
    try:
        topic = topics[0]
        name = getattr(topic, "name", None) or getattr(topic, "topic_id", None)
        return f" to {name}[{topic.partition_data[0].index}]"
    except (AttributeError, IndexError, TypeError):
        return ""


def _is_expected(request: Message) -> bool:
    """True if no rule says what is wrong with the request."""
    return request.weird is UNSET or not request.weird or _EXPECTED.issuperset(request.weird)
