"""Rebalances of groups with epochs (KIP-848, KIP-932, KIP-1071): from the request that raised the group epoch to the
last member's answer with it.

A member joins, leaves, or subscribes to other topics: the coordinator raises the group epoch, and each member gets it
with its next heartbeat. A member of a consumer group keeps its old epoch until it has given up the partitions that are
no longer in its target assignment. Source: Kafka: GroupMetadataManager, CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from kshark import limits
from kshark.analysis import Moment
from kshark.groups.rebalances.listing import Rebalance, Wait
from kshark.groups.rebalances.rows import NOTICED_NS, Event, Rows, first_of, longest_first, party_of, wait
from kshark.groups.table import AWAY, Group, GroupExchange, GroupTable

_JOIN, _LEAVE = 0, -1
#: An epoch that rises again so soon after a join, without a reason in the capture, belongs to the rebalance before: the
#: coordinator initializes share partitions, or the topics of Streams.
_SAME_NS: Final = 10_000_000_000
#: The epoch rises no later than this after its reason: the next heartbeat of another member shows it.
_FOLLOWS_NS: Final = 60_000_000_000
#: A subscription that is not known.
_NONE: Final = (None, None)
#: A partition, by topic id.
_Partition = tuple[str, int]


class _Held(Struct):
    """The partitions of a member of a consumer group.

    `target`: those of the last assignment that it was sent, in packet `sent`. `owned`: those that it says it has.
    """

    target: frozenset[_Partition] = frozenset()
    sent: Moment | None = None
    owned: frozenset[_Partition] = frozenset()
    owes: frozenset[_Partition] = frozenset()


class _Round(Struct):
    """One rebalance: its trigger, the epochs, the moment at which each member reached the new one, and the members that
    gave up partitions, each from the assignment to the heartbeat that says so."""

    begun: Event
    others: int
    before: int | None
    after: int | None
    reached: dict[str, Moment] = field(default_factory=dict)
    revoked: list[Wait] = field(default_factory=list)
    until: Moment | None = None
    stood_still_ns: int | None = None
    row: Rebalance | None = None
    is_lossy: bool = False


class EpochRebalances:
    """Follow one group: `take` gets its heartbeats in the order of their answers."""

    def __init__(self, rows: Rows) -> None:
        self._rows: Final = rows
        self._epoch: int | None = None
        self._events: list[Event] = []
        self._round: _Round | None = None
        self._topics: dict[str, tuple[object, object]] = {}
        self._held: dict[str, _Held] = {}
        self._owing: set[str] = set()
        #: When each partition was given up.
        self._released: dict[_Partition, tuple[str, int]] = {}
        #: Members that left; the packet with which the last one left that came back, and the time of its return.
        self._left: dict[str, Moment] = {}
        self._back = (0, 0)
        #: Members whose end was taken, with its packet.
        self._ended: dict[str, int] = {}

    def take(self, table: GroupTable, group: Group, exchange: GroupExchange) -> None:
        """Take a heartbeat, after the group has taken it."""
        request, answer = exchange.request, exchange.answer
        member_id = request.member_id or getattr(answer, "member_id", None)
        if not member_id or answer is None or answer.error_code != 0:
            return
        if member_id not in self._topics and len(self._topics) >= limits.REBALANCING:
            self._forget(group)
        self._note(group, exchange, member_id)
        epoch = answer.member_epoch
        if request.member_epoch >= 0 and epoch > 0:
            self._given(table, group, exchange, member_id, epoch)
        self._hold(group, exchange, member_id)
        self._complete(group, exchange.at)

    def lasting(self, group: Group) -> Rebalance | None:
        """Return the rebalance that is not over; None if there is none."""
        one = self._round
        return None if one is None or one.row is not None else self._row(group, one)

    def _forget(self, group: Group) -> None:
        """Forget members that are not in the group, and beyond the limit all."""
        kept = group.present if len(group.present) < limits.REBALANCING else {}
        self._topics = {it: topics for it, topics in self._topics.items() if it in kept}
        self._held = {it: held for it, held in self._held.items() if it in kept}
        self._owing &= kept.keys()
        self._ended, self._released = {}, {}

    # -- events that raise the epoch

    def _note(self, group: Group, exchange: GroupExchange, member_id: str) -> None:
        """Collect the event of a heartbeat."""
        request, epoch = exchange.request, exchange.request.member_epoch
        party, topics = party_of(group, member_id), _topics(request, self._topics.get(member_id))
        if epoch == _JOIN:
            self._event(Event("join", party, exchange.since))
            self._came_back(member_id, exchange.since)
        elif epoch == _LEAVE:
            self._event(Event("leave", party, exchange.since))
            if len(self._left) < limits.GROUP_CHANGES:
                self._left[member_id] = exchange.since
            if not group.present:
                self._emptied(group, exchange.at)
        elif epoch != AWAY and topics is not None and self._topics.get(member_id, _NONE) not in (topics, _NONE):
            self._event(Event("subscription", party, exchange.since))
        self._topics[member_id] = topics or _NONE

    def _came_back(self, member_id: str, at: Moment) -> None:
        """Note that a member that left joins again with its id: its process went on."""
        left = self._left.pop(member_id, None)
        if left is not None:
            self._back = left.packet, at.time_ns
            for row in self._rows.kept:
                if row.packet == left.packet and row.trigger == "leave":  # one packet may hold a join, too
                    row.returned_ns = at.time_ns

    def _emptied(self, group: Group, at: Moment) -> None:
        """End the last rebalance, and add one without members."""
        events, self._events = self._events, []
        begun = first_of(events) or Event("unknown", None, at)
        if self._round is not None:
            self._finish(group, self._round)
        self._round = _Round(begun, len(events) - 1, self._epoch, None, until=at)
        self._finish(group, self._round)

    def _note_ends(self, group: Group) -> None:
        """Collect the sessions that expired."""
        for gone, member in group.members.items():
            ended = member.ended
            if ended is not None and ended.how == "expired" and self._ended.get(gone) != ended.packet:
                self._ended[gone] = ended.packet
                self._event(Event("expired", party_of(group, gone), Moment(ended.packet, ended.time_ns)))
                self._release(gone, group.life(gone).heard_ns)

    def _event(self, event: Event) -> None:
        if len(self._events) < limits.GROUP_CHANGES:
            self._events.append(event)

    # -- epochs

    def _given(self, table: GroupTable, group: Group, exchange: GroupExchange, member_id: str, epoch: int) -> None:
        """Take the epoch that a member was given."""
        is_new = exchange.request.member_epoch == _JOIN and len(group.present) == 1
        if self._epoch is None and exchange.request.member_epoch > 0:
            # The group is older than the capture.
            self._epoch, self._events = epoch, []
        elif self._epoch is None or epoch > self._epoch or (is_new and epoch < self._epoch):
            self._raised(table, group, exchange, epoch)
        one = self._round
        if one is None or one.after is None or len(one.reached) >= limits.REBALANCING:
            return
        if epoch >= one.after and member_id not in one.reached:
            one.reached[member_id] = exchange.at

    def _raised(self, table: GroupTable, group: Group, exchange: GroupExchange, epoch: int) -> None:
        """Begin a rebalance, or go on with one whose epoch rises again."""
        self._note_ends(group)
        since_ns, one, before = exchange.at.time_ns - _FOLLOWS_NS, self._round, self._epoch
        events = [event for event in self._events if event.since.time_ns >= since_ns]
        self._epoch, self._events = epoch, []
        if not events and (changed := self._changed_topics(table, group, exchange)) is not None:
            events = [Event("topics", None, changed)]
        if (
            not events
            and one is not None
            and self._rises_again(group, one)
            and exchange.at.time_ns < one.begun.since.time_ns + _SAME_NS
        ):
            one.after, one.reached = epoch, {}
            if one.row is not None:
                one.row.after = epoch
            return
        if one is not None:
            self._finish(group, one)
        event = first_of(events) or Event("unknown", None, exchange.at)
        is_lossy = one is not None and table.traffic.lost_ns > one.begun.since.time_ns
        self._round = _Round(event, max(len(events) - 1, 0), before, epoch, is_lossy=is_lossy)

    def _rises_again(self, group: Group, one: _Round) -> bool:
        """True if the coordinator raises the epoch again by itself after a rebalance."""
        return one.begun.trigger in ("join", "subscription") and group.latest.type in ("share", "streams")

    def _changed_topics(self, table: GroupTable, group: Group, exchange: GroupExchange) -> Moment | None:
        """Return the last change of a topic of the group that no rebalance has taken; None if there is none."""
        since_ns = exchange.at.time_ns - _FOLLOWS_NS
        if self._round is not None:
            since_ns = max(since_ns, self._round.begun.since.time_ns + 1)
        names = {name for member in group.present for name in group.members[member].topics or ()}
        return table.topics_changed.of(names, since_ns)

    def _complete(self, group: Group, at: Moment) -> None:
        """End the rebalance if every member has the new epoch, and nothing is left to give up."""
        one = self._round
        if one is None or one.row is not None or one.after is None:
            return
        if self._owing or not group.is_at(one.after):
            return
        ends = [*one.reached.values(), *([one.until] if one.until is not None else [])]
        one.until = max(ends, key=lambda it: it.time_ns, default=at)
        self._finish(group, one)

    # -- partitions of consumer groups

    def _hold(self, group: Group, exchange: GroupExchange, member_id: str) -> None:
        """Take the partitions that a member has, and those that it is assigned."""
        request, answer = exchange.request, exchange.answer
        if request.member_epoch < 0:
            self._release(member_id, exchange.since.time_ns)
            return
        if not hasattr(request, "topic_partitions"):
            return
        held = self._held.setdefault(member_id, _Held())
        if request.topic_partitions is not None:
            self._owns(group, exchange, member_id, held, _partitions(request.topic_partitions))
        assignment = getattr(answer, "assignment", None)
        if assignment is None:
            return
        held.target, held.sent = _partitions(assignment.topic_partitions), exchange.at
        held.owes = held.owned - held.target
        (self._owing.add if held.owes else self._owing.discard)(member_id)
        one = self._round
        for key in held.target - held.owned:
            owner, since_ns = self._released.pop(key, (member_id, 0))
            if one is not None and owner != member_id:
                one.stood_still_ns = max(exchange.at.time_ns - since_ns, one.stood_still_ns or 0)
        if one is not None and answer.member_epoch == one.after and held.target - held.owned:
            one.until = exchange.at
            if one.row is not None:
                one.row.until_packet, one.row.until_ns = exchange.at.packet, exchange.at.time_ns
                one.row.stood_still_ns = one.stood_still_ns

    def _owns(
        self, group: Group, exchange: GroupExchange, member_id: str, held: _Held, owned: frozenset[_Partition]
    ) -> None:
        for key in held.owned - owned if len(self._released) < limits.REBALANCING else ():
            self._released[key] = member_id, exchange.since.time_ns
        if held.owes and held.sent is not None and not held.owes & owned:
            if self._round is not None and len(self._round.revoked) < limits.GROUP_CHANGES:
                self._round.revoked.append(_to_give_up(group, member_id, held, exchange.since))
            held.owes = frozenset()
            self._owing.discard(member_id)
        held.owned = owned

    def _release(self, member_id: str, time_ns: int) -> None:
        held = self._held.pop(member_id, None)
        self._owing.discard(member_id)
        for key in held.owned if held is not None else ():
            self._released[key] = member_id, time_ns

    # -- rows

    def _finish(self, group: Group, one: _Round) -> None:
        if one.row is None:
            one.row = self._row(group, one)
            self._rows.add(one.row)

    def _row(self, group: Group, one: _Round) -> Rebalance:
        begun, until = one.begun, one.until
        return Rebalance(
            begun.since.packet,
            begun.since.time_ns,
            None if until is None else until.packet,
            None if until is None else until.time_ns,
            one.before,
            one.after,
            begun.trigger,
            begun.by,
            begun.reason,
            one.others,
            self._back[1] if self._back[0] == begun.since.packet and begun.trigger == "leave" else None,
            one.is_lossy,
            members=len(group.present),
            waited_for=longest_first([*self._waits(group, one)]),
            stood_still_ns=one.stood_still_ns,
        )

    def _waits(self, group: Group, one: _Round) -> Iterator[Wait]:
        """Yield the members that gave up partitions, those that still have to, and the last one with the new epoch."""
        yield from one.revoked
        named = {party.member_id for party in (it.member for it in one.revoked) if party is not None}
        for member_id in self._owing:
            held = self._held[member_id]
            named.add(member_id)
            yield _to_give_up(group, member_id, held, None)
        last = max(one.reached, key=lambda it: one.reached[it].time_ns, default=None)
        after = one.after or 0
        behind = [it for it, epoch in group.present.items() if epoch is None or epoch < after]
        for member_id in behind if one.until is None else ():
            if member_id not in named:
                yield wait("behind", party_of(group, member_id), one.begun.since, None)
        if one.begun.by is not None:
            named.add(one.begun.by.member_id)
        if last is None or behind or last in named or len(one.reached) == 1:
            return
        if one.reached[last].time_ns - one.begun.since.time_ns > NOTICED_NS:
            yield wait("behind", party_of(group, last), one.begun.since, one.reached[last])


def _topics(request: Any, before: tuple[object, object] | None) -> tuple[object, object] | None:
    """Return the names and the pattern that a member subscribes to; a field without a value changes nothing."""
    names, pattern = getattr(request, "subscribed_topic_names", None), getattr(request, "subscribed_topic_regex", None)
    known = before or _NONE
    now = known[0] if names is None else tuple(sorted(names)), known[1] if pattern is None else pattern
    return None if now == _NONE else now


def _partitions(listed: Any) -> frozenset[_Partition]:
    return frozenset((one.topic_id, number) for one in listed or () for number in one.partitions)


def _to_give_up(group: Group, member_id: str, held: _Held, until: Moment | None) -> Wait:
    """Return the time that a member needs to give up partitions, from its new assignment on."""
    one = wait("not_revoked", party_of(group, member_id), held.sent or Moment(0, 0), until)
    partitions: dict[str, list[int]] = {}
    for topic_id, number in sorted(held.owes):
        partitions.setdefault(topic_id, []).append(number)
    one.partitions = partitions
    return one
