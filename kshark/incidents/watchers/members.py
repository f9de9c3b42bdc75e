"""Members of share groups that stop fetching. Incident 132."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.bases import AT_LEAST, NO_CONNECTION
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, client_named, seconds, span, time_of
from kshark.incidents.usage import Member
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Gap, Message, Witness
from kshark.units import counted

#: A member that sends heartbeats for so long, and so many, and fetches nothing, has stopped fetching.
_LEAST_NS: Final = 30_000_000_000
_HEARTBEATS: Final = 10
_SESSION: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})

MEMBER_STOPPED_FETCHING: Final = Rule(
    number=132,
    code="MEMBER_STOPPED_FETCHING",
    text="A member of a share group sends heartbeats, and does not fetch from its partitions.",
    source="KIP-932; Kafka: ShareConsumerImpl (max.poll.interval.ms)",
    rests_on=(AT_LEAST, NO_CONNECTION),
    verdicts=("note", "unknown"),
    must="A member fetches from the partitions that it is assigned.",
    advice="Look at the application at this time: it may process records for long (legal up to max.poll.interval.ms, "
    "5 minutes), or wait for something else. Its unacknowledged records go to other members when their locks expire.",
    weight=45,
    explains=("NEVER_ACKED", "ACK_AFTER_LOCK_TIMEOUT", "LOCK_TIMEOUT_REDELIVERY"),
)


class _Fetcher:
    """A member that has fetched.

    `since`: it has sent nothing of its sessions since then, and may send; None: something is open, or was refused.
    `beats`: its heartbeats since then, the last one with `heard`. `has_stopped`: it has stopped.
    """

    __slots__ = ("beats", "flow", "flows", "has_stopped", "heard", "last", "since")

    def __init__(self) -> None:
        #: Connections of its sessions, the last request of these and its connection.
        self.flows: dict[int, None] = {}
        self.last: Message | None = None
        self.flow: Flow | None = None
        self.since: PacketTime | None = None
        self.beats = 0
        self.heard: tuple[PacketTime, Witness] | None = None
        self.has_stopped = False


class Members(Watcher):
    """Watch heartbeats and fetches of members of share groups."""

    rows = (MEMBER_STOPPED_FETCHING,)
    apis = _SESSION | {SHARE_GROUP_HEARTBEAT, METADATA}
    refusals = True
    kinds = (Gap, Closed)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._fetchers: OrderedDict[tuple[str, str], _Fetcher] = OrderedDict()
        #: The last packet with lost bytes, by connection.
        self._lost: dict[int, int] = {}
        #: The leaders of assigned partitions.
        self._leaders: dict[tuple[str, int], int] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request = exchange.request
        if request is None or (request.weird is not UNSET and not is_whole(request)):
            return NOTHING
        if request.api_key in _SESSION:
            return self._fetched(exchange, request)
        if request.api_key == METADATA:
            self._learn_leaders(exchange)
            return NOTHING
        return self._beat(exchange, request)

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        if exchange.request is not None and exchange.request.api_key in _SESSION:
            fetcher = self._fetchers.get(_key(exchange.request))
            if fetcher is not None:
                # It may have to look for another leader, or to wait.
                fetcher.since = None
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Gap):
            if len(self._lost) < limits.FLOWS:
                self._lost[event.flow.id] = event.packet
        elif isinstance(event, Closed) and event.how != "capture":
            self._lost.pop(event.flow.id, None)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for key, fetcher in self._fetchers.items():
            yield from self._over(key, fetcher, None)

    def lasting(self) -> Iterable[Incident]:
        for key, fetcher in self._fetchers.items():
            if fetcher.has_stopped:
                yield from self._stopped(key, fetcher, None)

    def _fetched(self, exchange: Exchange, request: Message) -> Iterable[Incident]:
        body: Any = request.body
        fetcher = self._fetchers.get((body.group_id, body.member_id))
        if fetcher is None or fetcher.beats >= _HEARTBEATS or fetcher.flow is not exchange.flow:
            over = self._resumed(exchange, request)
            fetcher = self._fetchers[_key(request)]
        else:
            over = NOTHING
        fetcher.last, fetcher.beats = request, 0
        fetcher.since = None if exchange.response is None else self.scene.now
        return over

    def _resumed(self, exchange: Exchange, request: Message) -> Iterable[Incident]:
        """Take a request of a member that is new, begins on another connection, or may have stopped until now."""
        key = _key(request)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = _Fetcher()
            if len(self._fetchers) > limits.GROUP_MEMBERS:
                self._fetchers.popitem(last=False)
        self._decide(key, fetcher, request.time_ns)
        over = [*self._over(key, fetcher, time_of(request))]
        if len(fetcher.flows) >= limits.CONNECTIONS_OF_MEMBER:
            fetcher.flows = {}
        fetcher.flow = exchange.flow
        fetcher.flows[exchange.flow.id] = None
        return over

    def _beat(self, exchange: Exchange, request: Message) -> Iterable[Incident]:
        key = _key(request)
        fetcher, response = self._fetchers.get(key), exchange.response
        if fetcher is None or response is None or not is_whole(response):
            return NOTHING
        body: Any = response.body
        member = self.scene.usage.members.get(key)
        if member is None or body.error_code != 0 or not any(member.assigned.values()):
            # It has left, was put out, or has nothing to fetch any more.
            self._fetchers.pop(key)
            return self._over(key, fetcher, time_of(response))
        heard = time_of(response), witness_of(exchange)[0]
        if fetcher.has_stopped:
            fetcher.heard, fetcher.beats = heard, fetcher.beats + 1
        elif body.assignment is not None or self._is_waiting(key, fetcher):
            # It has to begin with new partitions, and cannot fetch while an answer is missing.
            fetcher.beats = 0
            fetcher.since = None if fetcher.since is None else self.scene.now
        elif fetcher.since is not None:
            fetcher.heard, fetcher.beats = heard, fetcher.beats + 1
            self._decide(key, fetcher, response.time_ns)
        return NOTHING

    def _decide(self, key: tuple[str, str], fetcher: _Fetcher, now_ns: int) -> None:
        """Decide whether a member has stopped by now."""
        since, member = fetcher.since, self.scene.usage.members.get(key)
        if since is not None and member is not None and not fetcher.has_stopped:
            is_long = fetcher.beats >= _HEARTBEATS and now_ns - since.time_ns >= _LEAST_NS
            fetcher.has_stopped = is_long and self._is_seen(member, fetcher)

    def _is_waiting(self, key: tuple[str, str], fetcher: _Fetcher) -> bool:
        """True if a request of its sessions has no answer yet, or a throttled answer lets it wait."""
        now_ns, throttled_until = self.scene.now.time_ns, self.scene.throttled_until
        return any(throttled_until.get(flow, 0) >= now_ns for flow in fetcher.flows) or any(
            request.api_key in _SESSION and _key(request) == key
            for flow in fetcher.flows
            for (request,) in self.scene.open.get(flow, {}).values()
        )

    def _is_seen(self, member: Member, fetcher: _Fetcher) -> bool:
        """True if the capture would show its fetches: it fetched all its partitions on open connections, and no other
        broker leads them since."""
        fetched: dict[str, set[int]] = {}
        nodes = set()
        for flow in fetcher.flows:
            client, connection = self.scene.usage.of(flow), self.scene.flows.get(flow)
            if client is not None and connection is not None:
                nodes.add(self.scene.broker_of(connection).node)
                for topic_id, numbers in client.fetched.items():
                    fetched.setdefault(topic_id, set()).update(numbers)
        known = {node[1] for node in nodes if node is not None}
        for topic_id, partitions in member.assigned.items():
            if not partitions <= fetched.get(topic_id, set()):
                return False
            leaders = {self._leaders.get((topic_id, partition)) for partition in partitions} - {None}
            if None not in nodes and not leaders <= known:
                return False
        return True

    def _learn_leaders(self, exchange: Exchange) -> None:
        body: Any = None if exchange.response is None else exchange.response.body
        for topic in getattr(body, "topics", None) or ():
            topic_id = getattr(topic, "topic_id", None)
            if not isinstance(topic_id, str):
                continue
            for partition in topic.partitions or ():
                key = topic_id, partition.partition_index
                if key in self._leaders or len(self._leaders) < limits.SHARE_PARTITIONS:
                    self._leaders[key] = partition.leader_id

    def _over(self, key: tuple[str, str], fetcher: _Fetcher, until: PacketTime | None) -> Iterator[Incident]:
        """End the incident of a member, if it had stopped; until None: with the capture."""
        for incident in self._stopped(key, fetcher, until) if fetcher.has_stopped else NOTHING:
            fetcher.has_stopped = False
            yield incident

    def _stopped(self, key: tuple[str, str], fetcher: _Fetcher, until: PacketTime | None) -> Iterator[Incident]:
        """Yield the incident of a member that has stopped, unless it had to wait."""
        since, flow, heard = fetcher.since, fetcher.flow, fetcher.heard
        if since is None or flow is None or heard is None:
            return
        group_id, member_id = key
        client_id = client_id_of(fetcher.last)
        last_beat, beat = heard
        end = until or last_beat
        is_lost = any(self._lost.get(it, 0) >= since.packet for it in fetcher.flows)
        yield Incident(
            MEMBER_STOPPED_FETCHING,
            since,
            until,
            flow,
            f"{client_named(flow, client_id)}, group {group_id}, did not fetch for "
            f"{seconds(end.time_ns - since.time_ns)} {span(since, until)}, and acknowledged nothing; it sent "
            f"{counted(fetcher.beats, 'heartbeat')} meanwhile, and keeps its partitions",
            Where(group_id=group_id, member_id=member_id),
            (*witness_of(fetcher.last), beat),
            blame="client",
            because="gap" if is_lost else None,
            of_client=True,
            client_id=client_id,
            grounds=(self.scene.lasted(_LEAST_NS, since, end),),
        )


def _key(request: Message) -> tuple[str, str]:
    """Return the group and the member of a request."""
    body: Any = request.body
    return getattr(body, "group_id", None) or "", getattr(body, "member_id", None) or ""
