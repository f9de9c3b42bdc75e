"""Requests that are sent again after each refusal, without what the error asks for. Incident 139."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from kshark import limits
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_LEAST, AT_MOST, NO_CONNECTION, Lasted
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import doubt_of
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.results.observed import Refusal
from kshark.analysis.rules.rule import NOTES_TOO, Rule, Verdict
from kshark.endpoints import host_of
from kshark.incidents.due import NEVER, Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.remedies import BETWEEN_BROKERS, OTHER_RULES, REMEDY_APIS, Remedy, is_retry, remedy_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, listed, seconds, span, time_of
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Gap, Message, Witness
from kshark.units import counted
from kshark_dissectors.enums import ApiKey as A
from kshark_dissectors.enums import ErrorCode

_MS: Final = 1_000_000
#: Equal refusals, each known to the client before its next request, that are a loop.
_TIMES: Final = 5
#: Requests in a row that are sent at once after the refusal before, and how soon that is: Java clients pause 20 ms
#: (AddPartitionsToTxn) to 100 ms (retry.backoff.ms). The queued requests of a producer are refused in a burst, too;
#: and Java consumers fetch on without a pause until they have new metadata.
_HASTY_TIMES: Final = 20
_HASTY_NS: Final = 10 * _MS
_BURST_NS: Final = 100 * _MS
#: A client that has just sent the remedy may wait so long before it sends the next one (Java: retry.backoff.max.ms,
#: 1 s and a fifth). The same holds for topics that were just created or deleted.
_RECENT_NS: Final = 5_000 * _MS
_BACKOFF_NS: Final = 2_000 * _MS
#: A loop without a pause ends with a pause of this length, each loop with no refusal for this time.
_PAUSE_NS: Final = 1_000 * _MS
_QUIET_NS: Final = 60_000 * _MS
#: Refused requests that are kept as evidence, besides the last one.
_KEPT: Final = 4
#: Fields of a request that say for whom it is.
_OWNER: Final = ("group_id", "member_id", "transactional_id", "key")
_NEVER: Final = PacketTime(0, -_QUIET_NS)

RETRY_WITHOUT_REMEDY: Final = Rule(
    number=139,
    code="RETRY_WITHOUT_REMEDY",
    text="A client sends the same request again after each refusal, without what the error asks for.",
    source="Kafka protocol guide (error codes), KIP-394, KIP-951; Kafka: NetworkClient, Sender, AbstractCoordinator",
    rests_on=(ANSWER_RECEIVED, NO_CONNECTION, AT_LEAST, AT_MOST),
    blame=("client",),
    verdicts=NOTES_TOO,
    causes=(
        "no_metadata_refresh",
        "no_coordinator_lookup",
        "no_rejoin",
        "member_id_not_adopted",
        "no_pause",
        "not_authorized",
    ),
    act="repeated a refused request without what the error asks for",
    must="After an error, a client does what the error asks for before it sends the request again: it refreshes its "
    "metadata, looks up the coordinator, joins again, or pauses.",
    advice="Do what the cause says, and pause between attempts (retry.backoff.ms, 100 ms). If rights or credentials "
    "are missing, grant them, or stop the client.",
    weight=40,
)

#: What a code is about: topic id, partition, name.
_About = tuple[str | None, int | None, str | None]
#: API, error code, version, and for whom the request is.
_Key = tuple[int, int, object, tuple[object, ...]]


class _Place(Struct):
    """Refusals about one topic, partition or group. `known`: the last refusal that was counted.

    `times`: counted refusals without the remedy in between; `sure`: those of them since a gap. `hasty`: requests in a
    row that were sent at once after the refusal before.
    """

    known: PacketTime
    times: int = 1
    sure: int = 1
    hasty: int = 0


class _Series(Struct):
    """Refusals from `since` to `until`: requests, error codes in their answers, requests sent at once.

    `is_loop`: they are a loop; `is_proved`: also without those before or after a gap.
    """

    since: PacketTime = _NEVER
    until: PacketTime = _NEVER
    requests: int = 0
    codes: int = 0
    hasty: int = 0
    witness: list[Witness] = []
    is_loop: bool = False
    is_proved: bool = False

    def add(self, exchange: Exchange, now: PacketTime, codes: int, hasty: bool) -> None:
        if not self.requests:
            self.since = now
        self.until = now
        self.requests += 1
        self.codes += codes
        self.hasty += hasty
        del self.witness[_KEPT:]
        self.witness += witness_of(exchange)


class _Process:
    """A client process: a host and a client id, with its loops on all connections.

    `did`: the last request of each API that is a remedy. `rebalance_ns`: rebalance timeouts by group.
    """

    def __init__(self, host: str, client_id: str | None) -> None:
        self.host = host
        self.client_id = client_id
        self.loops: dict[_Loop, None] = {}
        self.did: dict[int, PacketTime] = {}
        self.rebalance_ns: dict[object, int] = {}

    @property
    def name(self) -> str:
        return f"client {self.client_id} ({self.host})" if self.client_id else f"client {self.host}"


class _Loop:
    """Refusals of one process on one connection with the same API and code."""

    def __init__(self, retries: Retries, process: _Process, flow: Flow, key: _Key, api: str) -> None:
        self._retries = retries
        self.process: Final = process
        self.flow = flow
        self.key: Final = key
        self.api: Final = api
        self.remedy: Final[Remedy | None] = remedy_of(*key[:2])
        #: Refusals without the remedy, and refusals without a pause.
        self.without: _Series = _Series()
        self.hasty: _Series = _Series()
        self.until = _NEVER
        self.is_over = False
        self._places: dict[_About, _Place] = {}
        #: The places of refusals that are a loop, with the id that their topic had then.
        self._looping: dict[_About, str | None] = {}
        self._least_ns = 0
        #: There were enough requests in a row without a pause.
        self._in_row = False
        #: Member ids in the answers.
        self._given: list[object] = []

    def due_ns(self) -> int | None:
        return None if self.is_over else self.until.time_ns + _QUIET_NS

    def missed(self) -> Iterable[Incident]:
        return self._retries.over(self)

    def refuse(self, exchange: Exchange, request: Message, places: Collection[_About]) -> Iterator[Incident]:
        """Take the next refusal."""
        now = self._retries.scene.now
        if request.time_ns - self.until.time_ns >= _PAUSE_NS:
            yield from self._pause()
        if not self.without.requests:
            self._least_ns = self._retries.patience_ns(self, now)
        paces = {pace for about in places if (pace := self._count(about, request, now)) is not None}
        is_hasty = True in paces
        if paces == {False} and not self._in_row:
            self.hasty = _Series()
        self.until = now
        self.without.add(exchange, now, len(places), is_hasty)
        self.hasty.add(exchange, now, len(places), is_hasty)
        self._judge(now)
        if self.key[1] == ErrorCode.MEMBER_ID_REQUIRED:
            self._given = [*self._given[-_KEPT:], getattr(_body(exchange.response), "member_id", None)]
        if self.remedy is not None and A.METADATA in self.remedy.by and _has_hint(exchange.response):
            yield from self.heal()

    def _pause(self) -> Iterator[Incident]:
        """Take a pause of the client: a loop without one is over."""
        if self.hasty.is_loop:
            yield from self.incident()
            self.restart()
        self.hasty, self._in_row = _Series(), False
        for place in self._places.values():
            place.hasty = 0

    def _count(self, about: _About, request: Message, now: PacketTime) -> bool | None:
        """Count a refusal if the client knew the one before.

        Return True if it sent the request at once, False if it paused, None if it did not know.
        """
        place = self._places.get(about)
        if place is None:
            if len(self._places) < limits.RETRIED_PLACES:
                self._places[about] = _Place(now)
            return None
        if not _knows(request, place.known):
            return None
        is_hasty = self._is_hasty(place.known, request)
        place.hasty = place.hasty + 1 if is_hasty else 0
        place.times, place.sure, place.known = place.times + 1, place.sure + 1, now
        return is_hasty

    def _is_hasty(self, refused: PacketTime, request: Message) -> bool:
        if request.time_ns - refused.time_ns >= _HASTY_NS:
            return False
        return self._retries.scene.durations.elapsed(refused, time_of(request)).is_below(_HASTY_NS)

    def _judge(self, now: PacketTime) -> None:
        """Decide whether the refusals so far are a loop."""
        if self.remedy is not None and now.time_ns - self.without.since.time_ns >= self._least_ns:
            for about, place in self._places.items():
                if place.times >= _TIMES:
                    self._include(about)
                    self.without.is_loop = True
                    self.without.is_proved = self.without.is_proved or place.sure >= _TIMES
        hasty = [about for about, place in self._places.items() if place.hasty >= _HASTY_TIMES]
        self._in_row = self._in_row or bool(hasty)
        if hasty and now.time_ns - self.hasty.since.time_ns >= self._burst_ns() and is_retry(*self.key[:2]):
            for about in hasty:
                self._include(about)
            self.hasty.is_loop = True

    def _include(self, about: _About) -> None:
        if about not in self._looping:
            topic_id, partition, name = about
            if topic_id is None and partition is not None and name is not None:
                topic_id = self._retries.scene.topic_id(name)
            self._looping[about] = topic_id

    def _burst_ns(self) -> int:
        is_fetch = self.key[0] in (A.FETCH, A.SHARE_FETCH)
        return _BACKOFF_NS if is_fetch else max(_BURST_NS, self._retries.change_ns(self, self.hasty.since))

    def is_healed_by(self, request: Message) -> bool:
        """True if a request of its process is the remedy."""
        remedy = self.remedy
        if remedy is None or request.api_key not in remedy.by:
            return False
        if request.api_key != A.JOIN_GROUP:
            return True
        body = _body(request)
        is_new = self.key[1] == ErrorCode.MEMBER_ID_REQUIRED and not getattr(body, "member_id", None)
        return getattr(body, "group_id", None) == self.key[3][0] and not is_new

    def heal(self, request: Message | None = None) -> Iterator[Incident]:
        """Take the remedy: it ends a loop without it, and not one without a pause."""
        if request is not None and getattr(_body(request), "member_id", None) in self._given[:-1]:
            # Several members on one connection: each of them adopts its own id.
            self.restart()
        elif self.without.is_loop:
            yield from self.incident()
            self.restart()
        self.without = _Series()
        for place in self._places.values():
            place.times = place.sure = 0
        if not self.hasty.is_loop:
            self._looping = {}

    def succeed(self, places: Iterable[_About]) -> Iterator[Incident]:
        """Take an answer without an error about places. A loop about one of them is over."""
        for about in places:
            if about in self._looping:
                yield from self.incident()
                self.restart()
                return
            self._places.pop(about, None)

    def restart(self) -> None:
        """Forget all refusals."""
        self.without, self.hasty = _Series(), _Series()
        self._places, self._looping, self._given = {}, {}, []
        self._in_row = False

    @property
    def is_empty(self) -> bool:
        return not self._places

    def lose(self) -> None:
        """Take a gap: the remedy may be in it."""
        for place in self._places.values():
            place.sure = 0

    def move(self, flow: Flow) -> None:
        """Go on on another connection, which was opened after this one had ended: all refusals are known there."""
        self.flow = flow
        for place in self._places.values():
            place.known = place.known._replace(packet=0)

    def incident(self) -> Iterator[Incident]:
        """Yield the incident, if it is one."""
        remedy, series = self.remedy, self.without
        because = None if series.is_proved else "gap"
        if because is None and remedy is not None and remedy.elsewhere and not self._retries.sees_all(self):
            because = "hidden_traffic"
        if remedy is not None and series.is_loop and (because is None or not self.hasty.is_loop):
            verdict: Verdict = "violation" if remedy.is_fault else "note"
            yield self._incident(series, remedy.cause, verdict, because, remedy.lacks)
        elif self.hasty.is_loop:
            is_without = remedy is not None and series.is_loop
            lacks = f"{remedy.lacks} (as far as the capture shows)" if remedy is not None and is_without else ""
            yield self._incident(self.hasty, "no_pause", "note", None, lacks)

    def _incident(self, series: _Series, cause: str, verdict: Verdict, because: str | None, lacks: str) -> Incident:
        _, code, _, owner = self.key
        topic_ids = {*self._looping.values()}
        topic_id = next(iter(topic_ids)) if len(topic_ids) == 1 else None
        partitions = {about[1] for about in self._looping}
        group_id = owner[0]
        client = self.process.client_id or self.process.host
        return Incident(
            RETRY_WITHOUT_REMEDY,
            series.since,
            series.until,
            self.flow,
            self._sentence(series, lacks),
            Where(
                frozenset({self.flow.broker}),
                hosts=frozenset({self.process.host}),
                client_id=self.process.client_id,
                group_id=group_id if isinstance(group_id, str) else None,
                topic_ids=None if topic_id is None else frozenset({topic_id}),
                partition=next(iter(partitions)) if len(partitions) == 1 else None,
            ),
            tuple(series.witness),
            verdict,
            "client",
            cause,
            because,
            of_client=True,
            client_id=self.process.client_id,
            grounds=self._grounds(series, cause),
            refusals=Counter({Refusal(self.api, code, client): series.codes}),
        )

    def _grounds(self, series: _Series, cause: str) -> tuple[Lasted, ...]:
        scene = self._retries.scene
        if cause == "no_pause":
            # Any doubt about the clock is one about each of the pauses.
            most_ns = 2 * (series.until.time_ns - series.since.time_ns) + _HASTY_NS
            return (Lasted(scene.durations, series.since, series.until, AT_MOST, most_ns),)
        return (scene.lasted(self._least_ns, series.since, series.until),) if self._least_ns else ()

    def _sentence(self, series: _Series, lacks: str) -> str:
        code = self.key[1]
        name = ErrorCode(code).name if code in {*ErrorCode} else "error"
        target = listed(sorted({*filter(None, map(self._name, self._looping))}))
        group = self.key[3][0]
        if not target and isinstance(group, str) and group:
            target = f"group {group}"
        took = seconds(series.until.time_ns - series.since.time_ns)
        pace = ""
        if series.hasty * 2 >= series.requests:
            most = "each was" if series.hasty >= series.requests - 1 else f"{series.hasty:,} of them were"
            pace = f"{most} sent less than 10 ms after the refusal before"
        facts = ", and ".join(filter(None, (lacks and f"the client {lacks}", pace)))
        return (
            f"{self.process.name} sent {counted(series.requests, f'{self.api} request')} in {took}"
            f"{f' for {target}' if target else ''} to broker {self.flow.broker}, {span(series.since, series.until)}; "
            f"each was refused with {name} ({code}): {facts}"
        )

    def _name(self, about: _About) -> str:
        topic_id, partition, name = about
        topic = name or (self._retries.scene.topic(topic_id) if topic_id else "")
        return topic if partition is None else f"{topic}[{partition}]"


class Retries(Watcher):
    """Follow refusals by process, connection, API and code."""

    rows = (RETRY_WITHOUT_REMEDY,)
    apis = None
    requests = frozenset({*REMEDY_APIS, A.CREATE_TOPICS, A.DELETE_TOPICS})
    refusals = True
    kinds = (Closed, Gap)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._processes: OrderedDict[tuple[str, str | None], _Process] = OrderedDict()
        self._by_flow: dict[int, dict[_Key, _Loop]] = {}
        #: Loops whose connection is over, by process, broker and API.
        self._parked: dict[tuple[_Process, str, int], dict[_Key, _Loop]] = {}
        #: The number of loops of each API.
        self._live: Counter[Any] = Counter()
        #: Hosts and the brokers with which they were seen.
        self._seen: set[tuple[str, str]] = set()
        self._topics_changed = _NEVER

    def request(self, request: Message) -> Iterable[Incident]:
        if request.api_key in (A.CREATE_TOPICS, A.DELETE_TOPICS):
            self._topics_changed = time_of(request)
            return NOTHING
        process = self._process(host_of(request.client), client_id_of(request))
        assert isinstance(request.api_key, int)
        process.did[request.api_key] = time_of(request)
        if request.api_key == A.JOIN_GROUP:
            _learn_timeout(process, _body(request))
        healed = [loop for loop in process.loops if loop.is_healed_by(request)]
        return [incident for loop in healed for incident in loop.heal(request)]

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or request.api_key not in self._live or response is None:
            return NOTHING
        if self._parked:
            self._adopt(exchange.flow, request)
        loops = self._by_flow.get(exchange.flow.id)
        if loops is None:
            return NOTHING
        of_api = [loop for key, loop in loops.items() if key[0] == request.api_key]
        return self._succeeded(of_api, response) if of_api else NOTHING

    def _succeeded(self, loops: Sequence[_Loop], response: Message) -> list[Incident]:
        is_good: dict[_About, bool] = {}
        for placed in self.scene.codes.every(response.body, response.api_key, response.version):
            is_good[placed[1:]] = is_good.get(placed[1:], True) and not placed.code
        places = [about for about, good in is_good.items() if good]
        incidents = [incident for loop in loops for incident in loop.succeed(places)]
        for loop in loops:
            if loop.is_empty:
                self._end(loop)
        return incidents

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is None or request.api_key in BETWEEN_BROKERS or _is_replica(request):
            return NOTHING
        if request.weird is not UNSET and doubt_of(request) is not None:
            return NOTHING
        incidents: list[Incident] = []
        places: dict[int, dict[_About, None]] = {}
        for placed in codes:
            if placed.code not in OTHER_RULES:
                places.setdefault(placed.code, {})[placed[1:]] = None
        owner = tuple(getattr(_body(request), field, None) for field in _OWNER)
        for code, about in places.items():
            loop = self._loop(exchange.flow, request, code, owner)
            if loop is not None:
                incidents += loop.refuse(exchange, request, about)
        return incidents

    def _loop(self, flow: Flow, request: Message, code: int, owner: tuple[object, ...]) -> _Loop | None:
        api_key, api = request.api_key, request.api
        assert isinstance(api_key, int)
        assert isinstance(api, str)
        if remedy_of(api_key, code) is None and not is_retry(api_key, code):
            return None
        loops = self._by_flow.setdefault(flow.id, {})
        key = api_key, code, request.version, owner
        loop = loops.get(key)
        if loop is None:
            process = self._process(host_of(flow.client), client_id_of(request))
            if len(loops) >= limits.RETRIED_PLACES:
                return None
            loop = loops[key] = _Loop(self, process, flow, key, api)
            loop.until = self.scene.now
            process.loops[loop] = None
            self._live[api_key] += 1
            self.due.add(loop)
        return loop

    def _process(self, host: str, client_id: str | None) -> _Process:
        process = self._processes.get((host, client_id))
        if process is None:
            process = self._processes[host, client_id] = _Process(host, client_id)
            if len(self._processes) > limits.RETRYING:
                _, oldest = self._processes.popitem(last=False)
                for loop in [*oldest.loops]:
                    self._end(loop)
        else:
            self._processes.move_to_end((host, client_id))
        return process

    def _adopt(self, flow: Flow, request: Message) -> None:
        """Move loops of a connection that is over to the one with which the client goes on."""
        process = self._processes.get((host_of(flow.client), client_id_of(request)))
        if process is None or not process.loops:
            return
        assert isinstance(request.api_key, int)
        parked = process, _broker_of(flow, request.api_key), request.api_key
        loops = self._parked.get(parked)
        if loops is None or any(flow.first_packet <= loop.until.packet for loop in loops.values()):
            return
        del self._parked[parked]
        here = self._by_flow.setdefault(flow.id, {})
        for key, loop in loops.items():
            if key not in here:
                loop.move(flow)
                here[key] = loop
            else:
                self._forget(loop)

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Gap):
            host = host_of(event.flow.client)
            for loop in self._loops():
                if loop.process.host == host:
                    loop.lose()
            return NOTHING
        if not isinstance(event, Closed):
            return NOTHING
        flow = event.flow
        if flow.service == "kafka" and len(self._seen) < limits.PAIRS:
            self._seen.add((host_of(flow.client), flow.broker))
        for key, loop in self._by_flow.pop(flow.id, {}).items():
            parked = self._parked.setdefault((loop.process, _broker_of(flow, key[0]), key[0]), {})
            if key in parked:
                self._forget(loop)
            else:
                parked[key] = loop
        return NOTHING

    def _loops(self) -> Iterator[_Loop]:
        for loops in (*self._by_flow.values(), *self._parked.values()):
            yield from loops.values()

    def over(self, loop: _Loop) -> Iterable[Incident]:
        """Return the incident of a loop that has ended."""
        incidents = [*loop.incident()]
        self._end(loop)
        return incidents

    def _end(self, loop: _Loop) -> None:
        api_key = loop.key[0]
        self._forget(loop)
        _remove(self._by_flow, loop.flow.id, loop)
        _remove(self._parked, (loop.process, _broker_of(loop.flow, api_key), api_key), loop)

    def _forget(self, loop: _Loop) -> None:
        if not loop.is_over:
            loop.is_over = True
            del loop.process.loops[loop]
            self._live -= Counter({loop.key[0]: 1})

    def patience_ns(self, loop: _Loop, since: PacketTime) -> int:
        """Return how long a client may go on without the remedy after its first refusal."""
        remedy = loop.remedy
        if remedy is None or not remedy.by:
            return 0
        if remedy.cause == "no_rejoin":
            return loop.process.rebalance_ns.get(loop.key[3][0], NEVER)
        if not remedy.least_ns:
            return 0
        did_ns = max((loop.process.did.get(api, _NEVER).time_ns for api in remedy.by), default=0)
        is_recent = since.time_ns - did_ns < _RECENT_NS
        return max(remedy.least_ns, _BACKOFF_NS if is_recent else 0, self.change_ns(loop, since))

    def change_ns(self, loop: _Loop, since: PacketTime) -> int:
        """Return how long a client may not know of a topic that was created or deleted."""
        is_about = loop.key[1] in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
        return _BACKOFF_NS if is_about and since.time_ns - self._topics_changed.time_ns < _RECENT_NS else 0

    def sees_all(self, loop: _Loop) -> bool:
        """True if the capture has the connections of the loop's host to all brokers of the cluster."""
        host = loop.process.host
        open_flows = [flow for flow in self.scene.flows.values() if host_of(flow.client) == host]
        if any(flow.service == "tls" for flow in open_flows):
            return False
        if self.scene.complete:
            return True
        addresses = {broker for client, broker in self._seen if client == host}
        addresses.update(flow.broker for flow in open_flows if flow.service == "kafka")
        broker = self.scene.broker_of(loop.flow)
        brokers = self.scene.brokers.with_nodes(broker)
        return broker.is_alone or (bool(brokers) and all(not addresses.isdisjoint(it.addresses) for it in brokers))

    def close(self) -> Iterable[Incident]:
        for process in self._processes.values():
            for loop in process.loops:
                yield from loop.incident()


def _remove(loops: Any, index: object, loop: _Loop) -> None:
    """Remove a loop from a table of tables."""
    found = loops.get(index)
    if found is not None and found.get(loop.key) is loop:
        del found[loop.key]
        if not found:
            del loops[index]


def _broker_of(flow: Flow, api_key: int) -> str:
    """Return the broker to which an API's refusals are bound. Credentials are the same at all brokers."""
    return "" if api_key == A.SASL_AUTHENTICATE else flow.broker


def _knows(request: Message, refused: PacketTime) -> bool:
    """True if the client had received a refusal when it sent a request."""
    return isinstance(request.knows, int) and request.knows >= refused.packet


def _body(message: Message | None) -> Any:
    return None if message is None or message.body is UNSET else message.body


def _is_replica(request: Message) -> bool:
    """True if a broker or a voter sends the request, to replicate."""
    body = _body(request)
    state = getattr(body, "replica_state", None)
    replica_id = getattr(state or body, "replica_id", None)
    return isinstance(replica_id, int) and replica_id >= 0


def _has_hint(response: Message | None) -> bool:
    """True if an answer names the leader of a partition that it refuses (KIP-951)."""
    topics = getattr(_body(response), "responses", None)
    if not isinstance(topics, list | tuple):
        return False
    return any(
        getattr(getattr(partition, "current_leader", None), "leader_id", -1) >= 0
        for topic in topics
        for partition in getattr(topic, "partition_responses", None) or getattr(topic, "partitions", None) or ()
    )


def _learn_timeout(process: _Process, body: Any) -> None:
    """Remember the rebalance timeout in a JoinGroup; version 0 has the session timeout instead."""
    timeouts = (getattr(body, name, None) for name in ("rebalance_timeout_ms", "session_timeout_ms"))
    timeout_ms = next((it for it in timeouts if isinstance(it, int) and it > 0), None)
    if timeout_ms is not None and len(process.rebalance_ns) < limits.RETRIED_PLACES:
        process.rebalance_ns[getattr(body, "group_id", None)] = timeout_ms * _MS
