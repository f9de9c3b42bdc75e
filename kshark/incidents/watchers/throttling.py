"""Clients that a quota throttles, and those that do not wait. Incident 135."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_MOST, QUOTA, Duration, Lasted
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import knows_of
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import FETCH, PRODUCE, SHARE_FETCH
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, client_named, listed, seconds, span, time_of
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Message, Witness
from kshark.units import counted

#: Pauses of a client that are no further apart belong to one incident.
_PAUSE_NS: Final = 30_000_000_000
#: A request that follows an answer this quickly may have been written before the client read the answer.
_READING_NS: Final = 10_000_000
#: Clients may round the time that they wait.
_ROUNDING_NS: Final = 10_000_000
#: Requests without the wait that are kept as evidence.
_KEPT: Final = 8

#: The first version of each API whose clients wait themselves. Kafka: `shouldClientThrottle` of each response, 4.4
#: (KIP-219). Share groups, KIP-848 and other new APIs have none: their clients leave the waiting to the broker.
WAITING_SINCE: Final = {
    0: 6, 1: 8, 2: 3, 3: 6, 8: 4, 9: 4, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2, 18: 2, 19: 3, 20: 2, 21: 1,
    22: 1, 24: 1, 25: 1, 26: 1, 28: 1, 29: 1, 30: 1, 31: 1, 32: 2, 33: 1, 34: 1, 35: 1, 37: 1, 38: 1, 39: 1, 40: 1,
    41: 1, 42: 1, 44: 0, 47: 0,
}  # fmt: skip

THROTTLED: Final = Rule(
    number=135,
    code="THROTTLED",
    text="A quota of the broker throttles a client.",
    source="KIP-13, KIP-124, KIP-219; Kafka: NetworkClient, ClientQuotaManager",
    rests_on=(QUOTA, ANSWER_RECEIVED, AT_MOST),
    verdicts=("violation", "unknown", "note"),
    causes=("ignored",),
    must="A throttled client sends nothing on that connection until the time in throttle_time_ms has passed.",
    advice="Raise the quota of this user or client id (kafka-configs), or let the client send less. A client that does "
    "not wait gains nothing: the broker reads none of its requests before.",
    weight=40,
    explains=("STRANDED_ACQUISITION", "DELIVERY_COUNT_JUMP"),
)


class _Wait(Struct, frozen=True):
    """The time after an answer in which its client is to send nothing."""

    evidence: tuple[Witness, ...]
    api_key: int
    answered: PacketTime
    throttle_ns: int
    #: True if no other request of its connection was open then.
    is_alone: bool


class _Ignored(Struct, frozen=True):
    """A request that did not wait."""

    wait: _Wait
    request: Message


class _Client:
    """A client that a broker throttles, since the first such answer."""

    def __init__(self, watcher: Throttling, exchange: Exchange, since: PacketTime) -> None:
        self._watcher = watcher
        self.flow: Final = exchange.flow
        self.key: Final = _key(exchange)
        self._client_id = client_id_of(exchange.request or exchange.response)
        self.since = self.until = since
        #: The first throttled answer and the last one.
        self._evidence: tuple[Witness, ...] = ()
        self._throttled = Counter[str]()
        self._longest_ns = 0
        #: The time in which it was to wait so far, and until when.
        self._waited_ns = 0
        self._waits_until_ns = 0
        #: Throttled fetches, and answers to fetches with anything in them.
        self._fetches = 0
        self._served = 0
        #: Waits that were kept, or ignored: at once, or so quickly that the answer may have been unread.
        self.kept = 0
        self._quick = 0
        self._is_proved = False
        self._ignored: list[_Ignored] = []
        self._times_ignored = 0

    def throttle(self, exchange: Exchange, answered: PacketTime, throttle_ns: int) -> None:
        """Note a throttled answer."""
        response = exchange.response
        assert response is not None
        self._throttled[str(response.api)] += 1
        self._longest_ns = max(self._longest_ns, throttle_ns)
        ends_ns = answered.time_ns + throttle_ns
        self._waited_ns += max(ends_ns - max(answered.time_ns, self._waits_until_ns), 0)
        self._waits_until_ns = max(ends_ns, self._waits_until_ns)
        self.until, self._evidence = answered, (*self._evidence[:1], *witness_of(exchange))
        self._fetches += response.api_key in (FETCH, SHARE_FETCH)

    def served(self, response: Message) -> None:
        """Note an answer to a fetch."""
        self._served += bool(getattr(response.body, "responses", None))

    def ignore(self, wait: _Wait, request: Message) -> None:
        """Note a request that did not wait."""
        self._times_ignored += 1
        if len(self._ignored) < _KEPT:
            self._ignored.append(_Ignored(wait, request))
        # Only the answer to the last request of its kind allows the next one. Producers send several.
        is_next = wait.is_alone and request.api_key == wait.api_key and request.api_key != PRODUCE
        self._is_proved = self._is_proved or is_next
        self._quick += request.time_ns - wait.answered.time_ns < _READING_NS

    @property
    def _ignores(self) -> bool:
        """True if it does not wait; single requests may have been written before the answer was read."""
        times, slow = self._times_ignored, self._times_ignored - self._quick
        return self._is_proved or (times >= (1 if slow else 3) and times >= self.kept)

    def due_ns(self) -> int:
        return self._waits_until_ns + _PAUSE_NS

    def missed(self) -> Iterable[Incident]:
        return self._watcher.over(self)

    def incident(self, now: PacketTime, *, lasts: bool = False) -> Incident:
        """Return the incident: until the last wait is over."""
        until: PacketTime | None = PacketTime(self.until.packet, self._waits_until_ns)
        if lasts and self._waits_until_ns > now.time_ns:
            until = None
        ignored = next((it for it in self._ignored if self._ground(it).weakness(1) is None), None)
        ignored = ignored or next(iter(self._ignored), None) if self._ignores else None
        proof = () if ignored is None else (*ignored.wait.evidence, *witness_of(ignored.request))
        return Incident(
            THROTTLED,
            self.since,
            until,
            self.flow,
            self._text(now, until, ignored),
            Where(brokers=frozenset({self.flow.broker}), hosts=frozenset({self.key[0]}), client_id=self._client_id),
            (*self._evidence, *proof),
            verdict="note" if ignored is None else "violation",
            blame="unknown" if ignored is None else "client",
            cause=None if ignored is None else "ignored",
            of_client=True,
            client_id=self._client_id,
            grounds=() if ignored is None else (self._ground(ignored),),
        )

    def _ground(self, ignored: _Ignored) -> Lasted:
        """Return the ground that the request was sent before the time had passed."""
        durations = self._watcher.scene.durations
        answered, throttle_ns, request = ignored.wait.answered, ignored.wait.throttle_ns, ignored.request
        return Lasted(durations, answered, time_of(request), Duration.AT_MOST, throttle_ns)

    def _text(self, now: PacketTime, until: PacketTime | None, ignored: _Ignored | None) -> str:
        count = self._throttled.total()
        ends_ns = min(self._waits_until_ns, max(now.time_ns, self.until.time_ns))
        waited_ns = self._waited_ns - (self._waits_until_ns - ends_ns)
        whole_ns = ends_ns - self.since.time_ns
        text = (
            f"{client_named(self.flow, self._client_id)} was throttled by {self.flow.broker} "
            f"{span(self.since, until)}: {counted(count, 'answer')} ({listed(self._throttled)}), up to "
            f"{seconds(self._longest_ns)} each"
        )
        if whole_ns > 0:
            text += f", so it was to wait for {seconds(waited_ns)} of {seconds(whole_ns)}"
        if self._fetches and not self._served:
            text += "; it got no records because of that: throttled answers to fetches have none"
        if ignored is not None:
            text += (
                f"; it did not wait {counted(self._times_ignored, 'time')}, first after packet "
                f"{ignored.wait.answered.packet} (packet {ignored.request.packet})"
            )
        return text


class Throttling(Watcher):
    """Watch the throttle times of all answers, and the requests that are sent in these times."""

    rows = (THROTTLED,)
    apis = None
    kinds = (Closed,)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._clients: dict[tuple[str, str | None, str], _Client] = {}
        #: The first time in which a client is to wait, by connection, until its next request decides about it.
        self._waits: dict[int, tuple[_Client, _Wait]] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        if self._waits and exchange.request is not None and exchange.flow.id in self._waits:
            self._sent(exchange.request)
        response = exchange.response
        if response is None:
            return NOTHING
        if self.scene.throttle_ns:
            self._throttle(exchange, response, self.scene.throttle_ns)
        elif self._clients and response.api_key in (FETCH, SHARE_FETCH):
            client = self._clients.get(_key(exchange))
            if client is not None:
                client.served(response)
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Closed):
            self._waits.pop(event.flow.id, None)
        return NOTHING

    def _throttle(self, exchange: Exchange, response: Message, throttle_ns: int) -> None:
        key, answered = _key(exchange), time_of(response)
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= limits.FLOWS:
                return
            client = self._clients[key] = _Client(self, exchange, answered)
        client.throttle(exchange, answered, throttle_ns)
        self.due.add(client)
        api_key = response.api_key if isinstance(response.api_key, int) else -1
        first_version = WAITING_SINCE.get(api_key)
        if first_version is None or not isinstance(response.version, int) or response.version < first_version:
            return
        if exchange.request is not None and exchange.flow.id not in self._waits:
            is_alone = not self.scene.open.get(exchange.flow.id)
            self._waits[exchange.flow.id] = (
                client,
                _Wait(witness_of(exchange), api_key, answered, throttle_ns, is_alone),
            )

    def _sent(self, request: Message) -> None:
        client, wait = self._waits[request.flow]
        if knows_of(request) < wait.answered.packet:
            # It may not have the answer yet.
            return
        del self._waits[request.flow]
        if request.time_ns - wait.answered.time_ns >= wait.throttle_ns - _ROUNDING_NS:
            client.kept += 1
        else:
            client.ignore(wait, request)

    def over(self, client: _Client) -> Iterable[Incident]:
        """Yield the incident of a client that is throttled no more."""
        del self._clients[client.key]
        yield client.incident(self.scene.now)

    def lasting(self) -> Iterable[Incident]:
        return (incident for incident in self.close() if incident.until is None)

    def close(self) -> Iterable[Incident]:
        return [client.incident(self.scene.now, lasts=True) for client in self._clients.values()]


def _key(exchange: Exchange) -> tuple[str, str | None, str]:
    """Return the client's host and id, and the broker."""
    flow = exchange.flow
    return host_of(flow.client), client_id_of(exchange.request or exchange.response), flow.broker
