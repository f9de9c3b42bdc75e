"""Rebalances of groups: those during which partitions stood still for long, and groups that rebalance again and again.
Rules 148 and 149."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis import Moment
from kshark.analysis.facts.bases import AT_LEAST, NO_CONNECTION, Limit
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import NOTES, Rule
from kshark.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    SYNC_GROUP,
)
from kshark.groups import GroupKey, Groups
from kshark.groups.groups import TOPIC_CHANGES
from kshark.groups.rebalances import Party, Rebalance
from kshark.groups.rebalances.listing import Trigger
from kshark.groups.rebalances.sentences import trigger_of, wait_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import seconds, span
from kshark.incidents.series import SeriesWatcher
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent
from kshark.incidents.watchers.group_protocols import CODE, GROUP_PROTOCOL_CONFLICT, Accepted, accepted, case_of
from kshark.model import Closed, Exchange, Flow, Gap, Message, Witness
from kshark.units import counted

#: A rebalance of a group that works takes no longer: two heartbeats of a consumer, and a poll.
_LONG_NS: Final = 15_000_000_000
#: So many rebalances within this time are a storm, if members came back or other events began them.
_STORM: Final = 5
_WITHIN_NS: Final = 300_000_000_000
_DISTURBED: Final = 3
#: Requests of each group whose connections are remembered, and rebalances of a storm that are named as evidence.
_KEPT: Final = 64
_NAMED: Final = 5
#: The part of a client id that differs between the processes of one deployment.
_NUMBERS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
_BEATS: Final = frozenset({HEARTBEAT, CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT})
#: Triggers that are a member's end.
_ENDS: Final = frozenset({"leave", "poll_too_late", "expired", "gone"})
#: Triggers of a rebalance that is not the second half of another one.
_TRIGGERS: Final[tuple[str, ...]] = tuple(trigger for trigger in get_args(Trigger) if trigger != "revocation")

REBALANCE: Final = Rule(
    number=148,
    code="REBALANCE",
    text="Partitions of a group stood still for long while it rebalanced.",
    source="KIP-62, KIP-429, KIP-848; Kafka: GroupMetadataManager",
    rests_on=(AT_LEAST, NO_CONNECTION, Limit("GROUPS")),
    blame=(),
    verdicts=("note", "unknown"),
    causes=(*_TRIGGERS, "revocation"),
    must="The members of a group join again soon after a rebalance begins, and its dead members are few.",
    advice="Look at the member that it waited for: it was dead (until session.timeout.ms is over its partitions stay "
    "with it), or processed records for long before it joined again (max.poll.records, max.poll.interval.ms). "
    "CooperativeStickyAssignor or group.protocol=consumer keep the other partitions running; `kshark groups "
    "--rebalances` lists all of them.",
    weight=42,
)
REBALANCE_STORM: Final = Rule(
    number=149,
    code="REBALANCE_STORM",
    text="A group rebalances again and again.",
    source="KIP-345, KIP-848; Kafka: GroupMetadataManager",
    rests_on=(NO_CONNECTION, Limit("GROUPS")),
    blame=(),
    verdicts=NOTES,
    causes=_TRIGGERS,
    must="A group that works rebalances only when its members change, and they change seldom.",
    advice="Look at the clients that are named: they restart or crash in a loop, exceed max.poll.interval.ms, or lose "
    "their session. For rolling restarts give each process a group.instance.id, and let it return within "
    "session.timeout.ms. `kshark groups --rebalances` lists all rebalances.",
    weight=44,
)


class _Sender(Struct, frozen=True):
    """A request of a group: its connection, and the evidence."""

    flow: Flow
    witness: tuple[Witness, ...]


class _Group(Struct, eq=False):
    """A group: its requests by packet, the number of rebalances that were taken, the last ones, and those of a storm.

    `senders`: also by the packets of answers.
    """

    key: GroupKey
    last: _Sender
    senders: OrderedDict[int, _Sender] = field(default_factory=OrderedDict)
    count: int = 0
    recent: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=limits.GROUP_CHANGES))
    storm: _Storm | None = None
    accepted: Accepted | None = None
    ending: _Ending | None = None

    def sender(self, row: Rebalance) -> _Sender:
        return self.senders.get(row.packet, self.last)


class _Storm(Struct, eq=False):
    """Rebalances of one group that follow each other.

    `causes`: how often which deployment did what. `names`: its client id, or what its client ids have in common.
    `left`: those that a member began that left.
    """

    first: Rebalance
    last: Rebalance
    sender: _Sender
    witness: tuple[Witness, ...] = ()
    rebalances: int = 0
    causes: dict[tuple[str, str, str], int] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    left: list[Rebalance] = field(default_factory=list)
    stood_still_ns: int = 0

    def add(self, row: Rebalance, sender: _Sender) -> None:
        self.last = row
        self.rebalances += 1
        self.stood_still_ns += row.stood_still_ns or 0
        if len(self.witness) < _NAMED:
            self.witness += sender.witness
        if row.trigger == "leave" and len(self.left) < _KEPT:
            self.left.append(row)
        deployment = _deployment(row.by)
        key = *deployment, row.trigger
        if key in self.causes or len(self.causes) < _KEPT:
            self.causes[key] = self.causes.get(key, 0) + 1
            name = "" if row.by is None else row.by.client_id or ""
            if self.names.setdefault(deployment, name) != name:
                self.names[deployment] = deployment[0]


class _Ending:  # no struct: its group refers to it, and is saved first (kshark.snapshot)
    """The end of a storm, as something due."""

    __slots__ = ("group", "watcher")

    def __init__(self, watcher: Rebalancing, group: _Group) -> None:
        self.watcher = watcher
        self.group = group

    def due_ns(self) -> int | None:
        storm, recent = self.group.storm, self.group.recent
        return None if storm is None else recent[max(len(recent) - _STORM, 0)].time_ns + _WITHIN_NS

    def missed(self) -> Iterable[Incident]:
        return self.watcher.ended(self.group)


class Rebalancing(SeriesWatcher):
    """Follow the rebalances of all groups."""

    rows = (REBALANCE, REBALANCE_STORM, GROUP_PROTOCOL_CONFLICT)
    refusals = True
    apis = (
        frozenset({JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP})
        | {CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT}
        | TOPIC_CHANGES
    )
    kinds = (Gap, Closed)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._groups = Groups(longest_pause_ns=scene.longest_pause_ns, cluster_of=scene.cluster_of)
        self._followed: OrderedDict[GroupKey, _Group] = OrderedDict()
        #: The last heartbeat that changed nothing, of each member of each group: its packet, time and connection.
        self._beats: dict[str, dict[str, tuple[int, int, Flow]]] = {}

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        self._groups.feed(event)
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None:
            return NOTHING
        is_beat = request.api_key in _BEATS and request.weird is UNSET
        if is_beat and response is not None and response.weird is UNSET:
            body: Any = request.body
            answer: Any = response.body
            if body is not None and answer is not None and answer.error_code == 0 and _is_plain(body, answer):
                # Most heartbeats: they only show that the member is alive.
                group_id = body.group_id
                beats = self._beats.get(group_id)
                if beats is None or len(beats) >= limits.REBALANCING:
                    beats = self._begin(group_id)
                beats[body.member_id] = request.packet, request.time_ns, exchange.flow
                return NOTHING
        return [*self._feed(exchange)]

    def _begin(self, group_id: str) -> dict[str, tuple[int, int, Flow]]:
        """Return a place for the heartbeats of a group until it changes. Beyond limits.GROUPS the oldest is emptied."""
        self._flush(group_id)
        if len(self._beats) >= limits.GROUPS:
            self._flush(next(iter(self._beats)))
        beats = self._beats[group_id] = {}
        return beats

    def _flush(self, group_id: str) -> None:
        """Take the heartbeats of a group."""
        for member_id, (packet, time_ns, flow) in self._beats.pop(group_id, {}).items():
            self._groups.alive(group_id, member_id, Moment(packet, time_ns), flow)

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is None or request.api_key != JOIN_GROUP or codes[0].code != CODE or not is_whole(request):
            return NOTHING
        body: Any = request.body
        key = self.scene.cluster_of(exchange.flow), body.group_id
        group = self._followed.get(key)
        before = None if group is None else group.accepted
        return self.collect(exchange, case_of(exchange, self._groups.type(key), before))

    def _feed(self, exchange: Exchange) -> Iterator[Incident]:
        self._flush(getattr(getattr(exchange.request, "body", None), "group_id", None) or "")
        if exchange.response is not None:
            self._groups.passes(exchange.response)
        for key in self._groups.feed(exchange):
            group = self._group(key, exchange)
            group.count, rows = self._groups.rebalanced(key, group.count)
            for row in rows:
                yield from self._take(group, row)
            if len(self._followed) > limits.GROUPS:
                yield from self.ended(self._followed.popitem(last=False)[1])

    def _group(self, key: GroupKey, exchange: Exchange) -> _Group:
        """Return a group, and remember the connection of a request that may begin a rebalance."""
        sender = _Sender(exchange.flow, witness_of(exchange))
        group = self._followed.get(key)
        if group is None:
            group = self._followed[key] = _Group(key, sender)
        self._followed.move_to_end(key)
        group.last = sender
        request, response = exchange.request, exchange.response
        is_join = request is not None and request.api_key == JOIN_GROUP and is_whole(request)
        if is_join and getattr(_body(response), "error_code", 1) == 0:
            group.accepted = accepted(exchange)
        if request is None or (request.api_key == HEARTBEAT and not getattr(_body(response), "error_code", 0)):
            return group
        for message in (request, response):
            if message is not None:
                group.senders[message.packet] = sender
        while len(group.senders) > _KEPT:
            group.senders.popitem(last=False)
        return group

    def _take(self, group: _Group, row: Rebalance) -> Iterator[Incident]:
        """Take a rebalance that is over."""
        if self._is_long(group.key, row):
            yield self._rebalance(group, row)
        if row.after is None or row.trigger == "revocation":
            return
        group.recent.append(row)
        if group.storm is not None:
            group.storm.add(row, group.sender(row))
        elif (rows := _storm(group.recent, row)) is not None:
            group.storm = _Storm(rows[0], row, group.sender(rows[0]))
            for one in rows:
                group.storm.add(one, group.sender(one))
        if group.storm is not None:
            group.ending = group.ending or _Ending(self, group)
            self.due.add(group.ending)

    def ended(self, group: _Group) -> Iterable[Incident]:
        """End a storm."""
        storm, group.storm = group.storm, None
        return NOTHING if storm is None else (_stormy(group.key[1], storm),)

    def lasting(self) -> Iterable[Incident]:
        yield from super().lasting()
        for group in self._followed.values():
            if group.storm is not None:
                yield _stormy(group.key[1], group.storm)
        for group_id in [*self._beats]:
            self._flush(group_id)
        now = self.scene.now
        for key, row in self._groups.rebalancing(Moment(now.packet, now.time_ns)):
            group_of = self._followed.get(key)
            if group_of is None or not self._waits(key, row):
                continue
            is_lasting = row.until_ns is None and now.time_ns - row.time_ns >= _LONG_NS
            if is_lasting or (row.is_end_inferred and self._is_long(key, row)):
                yield self._rebalance(group_of, row)

    def close(self) -> Iterable[Incident]:
        yield from self.lasting()

    # -- rebalances that take long

    def _waits(self, key: GroupKey, row: Rebalance) -> bool:
        """True if a group waits for its members, as far as the capture shows all: those of share groups never do."""
        is_waiting = self._groups.type(key) in ("classic", "consumer")
        return is_waiting and row.trigger != "unknown" and not row.is_lossy

    def _is_long(self, key: GroupKey, row: Rebalance) -> bool:
        is_over = row.until_ns is not None and (row.after is not None or row.is_end_inferred)
        if not is_over or row.until_ns is None or not self._waits(key, row):
            return False
        return max(row.until_ns - row.time_ns, row.stood_still_ns or 0) >= _LONG_NS

    def _rebalance(self, group: _Group, row: Rebalance) -> Incident:
        sender, since = group.sender(row), PacketTime(row.packet, row.time_ns)
        until, about, end_ns = None, "", self.scene.now.time_ns
        if row.until_ns is not None:
            about = "about " * row.is_end_inferred
            until = PacketTime(self.scene.now.packet if row.until_packet is None else row.until_packet, row.until_ns)
            end_ns = row.until_ns
        took = f"{about}{seconds(end_ns - row.time_ns)}"
        when = span(since, until, is_inferred=row.is_end_inferred)
        parts = [f"group {group.key[1]} rebalanced for {took}, {when}, because {_said(row)}"]
        if row.waited_for:
            longest = row.waited_for[0]
            waited_ns = (end_ns if longest.until_ns is None else longest.until_ns) - longest.time_ns
            parts.append(f"it waited for {wait_of(longest)}, for {about}{seconds(waited_ns)}")
        if row.stood_still_ns:
            parts.append(f"partitions stood still for {seconds(row.stood_still_ns)}")
        shown = None if row.is_end_inferred else until
        grounds = (self.scene.lasted(_LONG_NS, since, shown),) if end_ns - row.time_ns >= _LONG_NS else ()
        return Incident(
            REBALANCE,
            since,
            until,
            sender.flow,
            "; ".join(parts),
            Where(group_id=group.key[1], member_id=None if row.by is None else row.by.member_id),
            sender.witness,
            cause=row.trigger,
            client_id=None if row.by is None else row.by.client_id,
            grounds=grounds,
            is_end_inferred=row.is_end_inferred,
        )


def _stormy(group_id: str, storm: _Storm) -> Incident:
    """Return the incident of a storm."""
    first, last = storm.first, storm.last
    since = PacketTime(first.packet, first.time_ns)
    packet, time_ns = last.until_packet or last.packet, last.until_ns or last.time_ns
    text = f"group {group_id} rebalanced {storm.rebalances:,} times {span(since, PacketTime(packet, time_ns))}: "
    text += _counted(storm)
    if storm.stood_still_ns:
        text += f"; partitions stood still for {seconds(storm.stood_still_ns)} in all"
    if returned := sum(row.returned_ns is not None for row in storm.left):
        text += f"; {returned} of those that left joined again with the same process, as after max.poll.interval.ms"
    kinds = Counter[str]()
    for (_, _, trigger), count in storm.causes.items():
        kinds[trigger] += 0 if trigger == "join" else count
    return Incident(
        REBALANCE_STORM,
        since,
        PacketTime(packet, time_ns),
        storm.sender.flow,
        text,
        Where(group_id=group_id),
        storm.witness,
        cause=kinds.most_common(1)[0][0] if kinds.total() else "join",
    )


def _storm(recent: Iterable[Rebalance], row: Rebalance) -> list[Rebalance] | None:
    """Return the rebalances of a storm that this one completes; None if it is none.

    A group that grows or shrinks rebalances with each member: in a storm members come back, or nobody comes or goes.
    """
    rows = [one for one in recent if one.time_ns >= row.time_ns - _WITHIN_NS]
    if len(rows) < _STORM:
        return None
    disturbed, has_shrunk = 0, False
    for one in rows:
        disturbed += one.trigger not in ("join", "leave") or (one.trigger == "join" and has_shrunk)
        has_shrunk = one.trigger in _ENDS
    return rows if disturbed >= _DISTURBED else None


def _counted(storm: _Storm) -> str:
    """Return `st* (10.0.0.1) joined ×10 and left ×9; c1 (10.0.0.2) left ×1`, the most frequent first."""
    by: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for (name, address, trigger), count in storm.causes.items():
        by.setdefault((name, address), []).append((count, trigger))
    ranked = sorted(by.items(), key=lambda it: -sum(count for count, _ in it[1]))
    shown = []
    for (deployment, address), counts in ranked[:3]:
        name = storm.names.get((deployment, address)) or deployment
        did = " and ".join(f"{_DID[trigger]} ×{count}" for count, trigger in sorted(counts, reverse=True))
        shown.append(f"{name} ({address}) {did}" if address else f"{name}: {did}" if name else did)
    left = len(ranked) - len(shown)
    return "; ".join(shown) + (f"; {counted(left, 'more client')}" if left > 0 else "")


#: A trigger after the client.
_DID: Final = {
    "join": "joined",
    "leave": "left",
    "poll_too_late": "exceeded its poll interval",
    "expired": "lost its session",
    "gone": "disappeared",
    "subscription": "changed its subscription",
    "topics": "saw its topics change",
    "rejoin": "joined again by itself",
    "not_synced": "did not fetch its assignment",
    "unknown": "for an unknown reason",
}


def _deployment(party: Party | None) -> tuple[str, str]:
    """Return the client id without its numbers, and the host: processes of one deployment have the same."""
    if party is None:
        return "", ""
    return _NUMBERS.sub("*", party.client_id or "member"), party.address or ""


def _said(row: Rebalance) -> str:
    return f'{trigger_of(row)} ("{row.reason}")' if row.reason else trigger_of(row)


def _is_plain(request: Any, answer: Any) -> bool:
    """True if an accepted heartbeat changes nothing: no epoch, no subscription, no partitions."""
    return not hasattr(request, "member_epoch") or (
        0 < request.member_epoch == answer.member_epoch
        and answer.assignment is None
        and request.subscribed_topic_names is None
        and getattr(request, "topic_partitions", None) is None
        and getattr(request, "subscribed_topic_regex", None) is None
    )


def _body(message: Message | None) -> object:
    return None if message is None else message.body
