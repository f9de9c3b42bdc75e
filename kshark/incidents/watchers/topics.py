"""Topics that are deleted while clients use them. Incident 133."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import NO_ADMIN
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    WRITE_SHARE_GROUP_STATE,
)
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, client_of, listed, time_of
from kshark.incidents.usage import FETCHES, HEARTBEATS, Client
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Finding, Flow, Message, Witness
from kshark.units import clock
from kshark_dissectors.enums import ErrorCode

#: A client that has not fetched for so long, and a member without a heartbeat, do not use the topic any more.
_IDLE_NS: Final = 60_000_000_000
#: The same without a session: it names its partitions in each request, and waits less than this for an answer.
_WAITING_NS: Final = 5_000_000_000
#: Failures that are no further apart belong to one deletion.
_PAUSE_NS: Final = 60_000_000_000
#: The id that means "no topic". Kafka: Uuid.ZERO_UUID.
_NO_ID: Final = "A" * 22
#: Requests of leaders about the state of a share partition.
_STATE: Final = frozenset({READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE})
#: Failed requests that are kept as evidence.
_KEPT: Final = 4
#: What fails, in words: one and many.
_FAILURES: Final = {
    PRODUCE: ("Produce was refused", "Produce requests were refused"),
    FETCH: ("fetch failed", "fetches failed"),
    SHARE_FETCH: ("fetch failed", "fetches failed"),
    SHARE_ACKNOWLEDGE: ("acknowledgement was refused", "acknowledgements were refused"),
    METADATA: ("Metadata request did not find it", "Metadata requests did not find it"),
    READ_SHARE_GROUP_STATE: ("read of its state was refused", "reads of its state were refused"),
    READ_SHARE_GROUP_STATE_SUMMARY: ("read of its state was refused", "reads of its state were refused"),
    WRITE_SHARE_GROUP_STATE: ("write of its state was refused", "writes of its state were refused"),
}

TOPIC_DELETED_IN_USE: Final = Rule(
    number=133,
    code="TOPIC_DELETED_IN_USE",
    text="A topic is deleted while clients use it.",
    source="Kafka: DeleteTopics; KIP-932 (share coordinators drop the state of a deleted topic)",
    rests_on=(NO_ADMIN,),
    blame=(),
    verdicts=("note", "unknown"),
    must="Clients stop to use a topic before it is deleted.",
    advice="If that was intended, stop the clients that still use the topic, or take it from their subscriptions. If "
    "not, find out who deleted it: its records are lost.",
    weight=50,
    explains=(
        "TOPIC_ID_UNKNOWN",
        "PARTITION_UNINITIALIZED",
        "ACK_REFUSED",
        "ACK_WRONG_LEADER",
        "WRITE_UNINITIALIZED",
        "RETRY_WITHOUT_REMEDY",
        "ASSIGNED_NEVER_FETCHED",
    ),
    excuses=("STATE_LOST",),
)


class _Failures(Struct):
    """Failed requests of one kind. `first`, `last`: the packets of their answers."""

    first: int
    last: int
    count: int = 0


class _Deletion:
    """A topic that a request asked to delete, with the clients that used it then."""

    def __init__(self, watcher: Topics, request: Message, flow: Flow, keys: set[str], name: str) -> None:
        self._watcher = watcher
        self.request: Final = request
        self.flow: Final = flow
        self.since: Final = time_of(request)
        #: Its id and its name, as far as known.
        self.keys = keys
        self.name = name
        self.is_answered = False
        #: The deletion, and the first requests that failed.
        self.evidence: list[Witness] = [*witness_of(request)]
        #: Clients that fetched it, and that still produced to it: they had its leaders from an earlier Metadata answer.
        self.consumers: Final[dict[str, None]] = {}
        self._producers: dict[str, None] = {}
        #: Groups with state of it that a leader asked for.
        self._groups: dict[str, None] = {}
        self.until = self.since
        self._failures: dict[tuple[str, str], _Failures] = {}

    def lead(self, exchange: Exchange) -> None:
        """Note a leader that reads or writes its state after the deletion: its group uses it."""
        request = exchange.request
        if request is None or request.packet < self.since.packet or self.is_by(exchange.flow, request.client_id):
            return
        body: Any = request.body
        topics = getattr(body, "topics", None) or ()
        if isinstance(getattr(body, "group_id", None), str) and any(topic.topic_id in self.keys for topic in topics):
            self._groups[body.group_id] = None

    def fail(self, exchange: Exchange) -> None:
        """Note a failed request about it."""
        response = exchange.response
        assert response is not None
        api_key = response.api_key if isinstance(response.api_key, int) else -1
        words = _FAILURES.get(api_key, (f"{response.api} was refused", f"{response.api} requests were refused"))
        failures = self._failures.setdefault(words, _Failures(response.packet, response.packet))
        failures.count, failures.last = failures.count + 1, response.packet
        if api_key == PRODUCE and not self.is_by(exchange.flow, response.client_id):
            self._producers[client_of(exchange.flow, response.client_id)] = None
        if len(self.evidence) <= _KEPT:
            self.evidence += witness_of(exchange)
        self.until = time_of(response)

    def is_by(self, flow: Flow, client_id: object) -> bool:
        """True if the client of a connection is the one that deletes it."""
        return host_of(flow.client) == host_of(self.flow.client) and client_id == self.request.client_id

    def due_ns(self) -> int:
        return self.until.time_ns + _PAUSE_NS

    def missed(self) -> Iterable[Incident]:
        return self._watcher.over(self)

    def incident(self) -> Iterator[Incident]:
        """Yield the incident, if the topic was deleted and in use."""
        uses = [*self._uses()]
        if not uses or not (self.is_answered or self._failures):
            return
        ids = frozenset(self.keys - {self.name}) or frozenset({self.name})
        how = "was deleted" if self.is_answered else "was to be deleted"
        yield Incident(
            TOPIC_DELETED_IN_USE,
            self.since,
            self.until,
            self.flow,
            f"topic {self.name} {how} by {client_of(self.flow, client_id_of(self.request))} at "
            f"{clock(self.since.time_ns, 3)} (packet {self.since.packet}) while {listed(uses)}: {self._failed()}",
            Where(topic_ids=ids),
            tuple(self.evidence),
            because=None if self.is_answered else "unanswered",
            client_id=client_id_of(self.request),
        )

    def _uses(self) -> Iterator[str]:
        if self.consumers:
            yield f"{listed(self.consumers)} consumed it"
        if self._producers:
            yield f"{listed(self._producers)} produced to it"
        if self._groups and not self.consumers:
            yield f"{'group' if len(self._groups) == 1 else 'groups'} {listed(self._groups)} consumed it"

    def _failed(self) -> str:
        if not self._failures:
            return "no request about it failed"
        parts = []
        for (single, many), failures in self._failures.items():
            if failures.count == 1:
                parts.append(f"one {single} (packet {failures.first})")
            else:
                parts.append(f"{failures.count:,} {many} (packets {failures.first} to {failures.last})")
        return ", ".join(parts)


class Topics(Watcher):
    """Watch the usage of topics, their deletion, and what fails after it."""

    rows = (TOPIC_DELETED_IN_USE,)
    apis = FETCHES | HEARTBEATS | _STATE | {DELETE_TOPICS, CREATE_TOPICS}
    requests = frozenset({DELETE_TOPICS})
    refusals = True
    kinds = (Closed,)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._deletions: list[_Deletion] = []

    def request(self, request: Message) -> Iterable[Incident]:
        flow = self.scene.flows.get(request.flow)
        if flow is not None and is_whole(request):
            self._asked(request, flow)
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request = exchange.request
        if request is None:
            return NOTHING
        if request.api_key in FETCHES:
            self.scene.usage.feed(request, exchange.flow)
        elif request.api_key in _STATE:
            for deletion in self._deletions:
                deletion.lead(exchange)
        elif request.api_key in HEARTBEATS:
            self.scene.usage.heartbeat(exchange)
        elif request.api_key == DELETE_TOPICS:
            self._answered(exchange)
        else:
            self._created(exchange)
        return NOTHING

    def _created(self, exchange: Exchange) -> None:
        """Take a topic that is created: from now on, its name is that of another topic."""
        for name, _ in _accepted(exchange, "topics") if self._deletions else ():
            for deletion in self._deletions:
                deletion.keys.discard(name or "")

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        if not self._deletions or exchange.response is None or exchange.response.api_key == DELETE_TOPICS:
            return NOTHING
        ids = {code.topic_id for code in codes} | self._of_session(exchange)
        cluster = self.scene.cluster_of(exchange.flow)
        for deletion in self._deletions:
            if self.scene.cluster_of(deletion.flow) != cluster:
                continue
            keys = deletion.keys
            if not keys.isdisjoint(ids) or _is_refused(exchange.response.body, keys):
                deletion.fail(exchange)
        return NOTHING

    def _of_session(self, exchange: Exchange) -> set[str | None]:
        """Return the topics of a share session, if a request in it failed as it does when one of them is unknown.

        Kafka: SharePartitionManager.newContext, which fails for the whole request.
        """
        body: Any = None if exchange.response is None else exchange.response.body
        is_share = exchange.response is not None and exchange.response.api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE)
        client = self.scene.usage.of(exchange.flow.id)
        is_unknown = is_share and getattr(body, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR
        return {*client.fetched} if is_unknown and client is not None else set()

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Closed):
            self.scene.usage.close(event.flow.id)
        return NOTHING

    def over(self, deletion: _Deletion) -> Iterable[Incident]:
        """Return the incident of a deletion that nothing fails about any more."""
        if deletion in self._deletions:
            self._deletions.remove(deletion)
        return deletion.incident()

    def may_excuse(self, finding: Finding) -> bool:
        """True if a topic was to be deleted by then, and its deletion is not over."""
        return any(deletion.since.packet <= finding.packet for deletion in self._deletions)

    def close(self) -> Iterable[Incident]:
        for deletion in self._deletions:
            yield from deletion.incident()

    def _asked(self, request: Message, flow: Flow) -> None:
        body: Any = request.body
        named = getattr(body, "topics", None) or ()
        asked = [(topic.name, topic.topic_id) for topic in named]
        asked += [(name, None) for name in getattr(body, "topic_names", None) or ()]
        for name, topic_id in asked[: max(limits.UNFINISHED_OPERATIONS - len(self._deletions), 0)]:
            keys = {key for key in (name, topic_id) if isinstance(key, str) and key != _NO_ID}
            keys |= {*self._other_names(keys)}
            if not keys:
                continue
            known = name if isinstance(name, str) else next(iter(keys - {topic_id}), str(topic_id))
            deletion = _Deletion(self, request, flow, keys, known)
            self._note_users(deletion)
            self._deletions.append(deletion)
            self.due.add(deletion)

    def _other_names(self, keys: set[str]) -> Iterator[str]:
        """Yield the name of each id, and the last id of each name."""
        by_id = self.scene.names.by_id
        for key in keys:
            if key in by_id:
                yield by_id[key]
            elif (last := next((topic_id for topic_id in reversed(by_id) if by_id[topic_id] == key), None)) is not None:
                yield last

    def _note_users(self, deletion: _Deletion) -> None:
        now_ns, keys = self.scene.now.time_ns, deletion.keys
        for client in self.scene.usage.users(keys):
            is_elsewhere = self.scene.cluster_of(client.flow) != self.scene.cluster_of(deletion.flow)
            if is_elsewhere or deletion.is_by(client.flow, client.client_id):
                continue
            name = client_of(client.flow, client.client_id)
            if self._is_active(client, now_ns):
                deletion.consumers[name] = None
        for member in self.scene.usage.members.values():
            is_assigned = any(member.assigned.get(key) for key in keys)
            if is_assigned and now_ns - member.heard_ns < _IDLE_NS and member.flow.id in self.scene.flows:
                deletion.consumers[client_of(member.flow, member.client_id)] = None

    def _is_active(self, client: Client, now_ns: int) -> bool:
        idle_ns = _IDLE_NS if client.has_session else _WAITING_NS
        return now_ns - client.last_ns < idle_ns and client.flow.id in self.scene.flows

    def _answered(self, exchange: Exchange) -> None:
        """Confirm the deletions of an answered request; forget those that were refused."""
        if exchange.response is None or not is_whole(exchange.response):
            return
        deleted = [{*filter(None, topic)} for topic in _accepted(exchange, "responses")]
        for deletion in [it for it in self._deletions if it.request is exchange.request]:
            topic = next((keys for keys in deleted if not keys.isdisjoint(deletion.keys)), None)
            if topic is None:
                self._deletions.remove(deletion)
            else:
                deletion.is_answered, deletion.evidence[:1] = True, witness_of(exchange)
                if not topic <= deletion.keys:
                    # The request had its name alone, and its clients use its id.
                    deletion.keys |= topic
                    self._note_users(deletion)


def _accepted(exchange: Exchange, field: str) -> Iterator[tuple[str | None, str | None]]:
    """Yield name and id of each topic without an error; None for a missing one."""
    body = None if exchange.response is None else exchange.response.body
    for topic in getattr(body, field, None) or ():
        if topic.error_code == 0:
            yield _text(topic, "name"), _text(topic, "topic_id")


def _text(topic: Any, field: str) -> str | None:
    text = getattr(topic, field, None)
    return text if isinstance(text, str) and text != _NO_ID else None


def _is_refused(body: Any, keys: set[str]) -> bool:
    """True if an answer has an error of a topic, or of one of its partitions, by name or id."""
    for field in ("topics", "responses", "results"):
        for topic in getattr(body, field, None) or ():
            if any(getattr(topic, name, None) in keys for name in ("name", "topic", "topic_id", "topic_name")):
                return _has_error(topic)
    return False


def _has_error(topic: Any) -> bool:
    if getattr(topic, "error_code", 0):
        return True
    partitions = getattr(topic, "partitions", None) or getattr(topic, "partition_responses", None) or ()
    return any(getattr(partition, "error_code", 0) for partition in partitions)
