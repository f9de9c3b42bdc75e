"""Rebalances of a classic group: from the request that began it to the assignments of its generation.

The coordinator answers all JoinGroups of a generation at once, when every member has joined again or is out; all
SyncGroups when the leader's is there. Members learn of a rebalance by REBALANCE_IN_PROGRESS.
Source: Kafka: GroupMetadataManager (classicGroupJoin, prepareRebalance, completeClassicGroupJoin).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from kshark import limits
from kshark.analysis import Moment
from kshark.api_keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from kshark.groups.expiry import ends_by
from kshark.groups.rebalances.listing import Party, Rebalance, Trigger, Wait
from kshark.groups.rebalances.protocol import Subscription, has_partitions, subscription_of
from kshark.groups.rebalances.rows import NOTICED_NS, Event, Rows, first_of, longest_first, party_of, wait
from kshark.groups.silence import Traffic
from kshark.groups.table import Group, GroupExchange, GroupTable
from kshark_dissectors.enums import ErrorCode

APIS: Final = frozenset({JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP, OFFSET_COMMIT})
#: Errors by which a member learns that it has to join again.
_TOLD: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
#: The field with the generation, where it has another name.
_NUMBERS: Final = {OFFSET_COMMIT: "generation_id_or_member_epoch"}
#: A broker's timer may end this much before the time that the capture's clock shows.
_TICK_NS: Final = 500_000_000
#: A wait for nobody who is known is noted from this on.
_LONG_NS: Final = 1_000_000_000
#: A rebalance timeout that is not known.
_LONGEST_MS: Final = 1 << 31
#: Members that left, whose connection may show that they come back.
_LEFT: Final = 64


class _Generation(Struct):
    """The members before a rebalance. `is_full`: the leader's answer listed them. `topics`: their subscriptions.
    `owners`: those with partitions. `synced`: those that fetched their assignment."""

    number: int | None = None
    members: dict[str, Party] = field(default_factory=dict)
    is_full: bool = False
    topics: dict[str, Subscription | None] = field(default_factory=dict)
    owners: set[str] = field(default_factory=set)
    synced: set[str] = field(default_factory=set)


class _Round(Struct):
    """One rebalance, and the generation that it makes.

    `announced`: the first refusal that shows it. `informed`: the members that were refused. `pending`: new members that
    were given an id, with their session timeouts in ns. `waiting`: joins that the capture shows no answer of,
    and `unanswered` those of them that may have begun it.
    `adopted`: the generation is older than the capture. `emptied`: the last member left, or its session expired:
    `ended` has the times of these ends, which are inferred.
    """

    before: _Generation = field(default_factory=_Generation)
    leaves: list[Event] = field(default_factory=list)
    left: dict[str, Moment] = field(default_factory=dict)
    joins: dict[str, Event | None] = field(default_factory=dict)
    asked: dict[str, Moment] = field(default_factory=dict)
    announced: Moment | None = None
    informed: set[str] = field(default_factory=set)
    pending: dict[str, tuple[Moment, int]] = field(default_factory=dict)
    waiting: dict[str, Moment] = field(default_factory=dict)
    unanswered: list[Event] = field(default_factory=list)
    after: _Generation = field(default_factory=_Generation)
    answered: Moment | None = None
    leader_synced: Moment | None = None
    last_synced: Moment | None = None
    adopted: bool = False
    emptied: Moment | None = None
    ended: dict[str, int] = field(default_factory=dict)
    cooperative: bool = False
    row: Rebalance | None = None
    #: The time of the last generation before it.
    since_ns: int = 0

    @property
    def number(self) -> int | None:
        """The new generation."""
        return self.after.number

    @property
    def is_begun(self) -> bool:
        """True if anything of it was seen."""
        return bool(self.leaves or self.announced or self.joins or self.waiting)


class ClassicRebalances:
    """Follow one group: `take` gets its exchanges in the order of their answers."""

    def __init__(self, rows: Rows) -> None:
        self._rows: Final = rows
        self._round = _Round()
        #: The last accepted message of each member, and the connections of those that left.
        self._heard: dict[str, Moment] = {}
        self._left: dict[int, Rebalance | _Round] = {}
        self._traffic: Traffic | None = None

    def take(self, table: GroupTable, group: Group, exchange: GroupExchange) -> None:
        """Take an exchange, after the group has taken it."""
        request, api_key = exchange.request, exchange.api_key
        self._traffic = table.traffic
        if api_key == LEAVE_GROUP:
            self._leave(group, exchange)
            return
        if api_key == JOIN_GROUP:
            self._join(table, group, exchange)
        else:
            number = getattr(request, _NUMBERS.get(api_key, "generation_id"), None)
            self._lives(group, exchange, _error_of(exchange), number)

    def alive(self, member_id: str, at: Moment) -> None:
        """Take an accepted heartbeat that changed nothing."""
        if member_id in self._heard:
            self._heard[member_id] = at

    def lasting(self, table: GroupTable, group: Group, now: Moment) -> Rebalance | None:
        """Return the rebalance that no packet ends, by what is known now; None if there is none."""
        one = self._round
        if one.row is not None or not one.is_begun or one.adopted:
            return None
        ended = self._all_expired(table, group, one, now)
        return self._row(group, replace(one, ended=ended) if ended else one)

    # -- requests

    def _join(self, table: GroupTable, group: Group, exchange: GroupExchange) -> None:
        request, answer, error = exchange.request, exchange.answer, exchange.error
        member_id = getattr(answer, "member_id", None) or request.member_id
        self._end_expired(table, group, exchange.since)
        if len(self._round.after.members) + len(self._round.waiting) >= limits.REBALANCING:
            return
        if answer is None:
            if member_id:
                one = self._open(group)
                one.waiting[member_id] = exchange.since
                if (event := self._event(table, group, exchange, member_id)) is not None:
                    one.unanswered.append(event)
            return
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            if len(self._round.pending) < limits.GROUP_CHANGES:
                self._round.pending[member_id] = exchange.at, request.session_timeout_ms * 1_000_000
            return
        if error != 0:
            self._inform(member_id)
            return
        self._accepted(table, group, exchange, member_id)

    def _accepted(self, table: GroupTable, group: Group, exchange: GroupExchange, member_id: str) -> None:
        request, answer = exchange.request, exchange.answer
        one = self._round
        if one.emptied is not None and exchange.since.time_ns < one.emptied.time_ns:
            one.emptied = None
        elif one.emptied is not None or (one.number is not None and answer.generation_id != one.number):
            one = self._turn(group)
        one.after.number = answer.generation_id
        one.answered = one.answered or exchange.at
        one.cooperative = one.cooperative or "cooperative" in (answer.protocol_name or "")
        party = party_of(group, member_id)
        topics = subscription_of(request)
        if member_id not in one.joins and not one.adopted:
            one.joins[member_id] = self._event(table, group, exchange, member_id)
            self._came_back(exchange)
            one.asked[member_id] = exchange.since
        one.after.members[member_id], one.after.topics[member_id] = party, topics
        if answer.members:
            one.after.is_full = len(answer.members) <= limits.REBALANCING
            for other in answer.members[: limits.REBALANCING]:
                one.after.members.setdefault(other.member_id, party_of(group, other.member_id))
        self._heard[member_id] = exchange.since

    def _event(self, table: GroupTable, group: Group, exchange: GroupExchange, member_id: str) -> Event | None:
        """Return a join as the event that began a rebalance, or would have; None if it is none."""
        request = exchange.request
        trigger = self._kind(table, group, exchange, member_id)
        reason = getattr(request, "reason", None) or None
        return trigger and Event(trigger, party_of(group, member_id), exchange.since, reason, exchange.flow.id)

    def _kind(self, table: GroupTable, group: Group, exchange: GroupExchange, member_id: str) -> Trigger | None:
        """Return how a join began a rebalance, or would have; None if it answers one, or this is unknown."""
        request, one = exchange.request, self._round
        instance = getattr(request, "group_instance_id", None)
        is_member = member_id in one.before.members or any(
            instance and party.instance_id == instance for party in one.before.members.values()
        )
        if not is_member:
            is_first = getattr(exchange.answer, "generation_id", None) == 1
            is_new = not request.member_id or member_id in one.pending or one.before.is_full or is_first
            return "join" if is_new else None
        if member_id in one.informed or (one.announced is None and one.before.number is None):
            return None
        return self._again(table, group, request, member_id, subscription_of(request))

    def _again(
        self, table: GroupTable, group: Group, request: Any, member_id: str, topics: Subscription | None
    ) -> Trigger | None:
        """Return why a member joins again without a refusal; None if the refusal may be lost."""
        one = self._round
        reason = getattr(request, "reason", None) or ""
        before = one.before.topics.get(member_id)
        if "revoke" in reason:
            return "revocation"
        if before is not None and topics is not None and before.topics != topics.topics:
            return "subscription"
        if one.cooperative and before is not None and topics is not None and before.owned != topics.owned:
            return "revocation"
        if not reason and self._lost(group, member_id):
            return None
        heard, names = self._heard.get(member_id), topics.topics if topics is not None else ()
        is_changed = heard is not None and table.topics_changed.of(names, heard.time_ns - _REFRESHED_NS) is not None
        return "topics" if "metadata has changed" in reason or (is_changed and not reason) else "rejoin"

    def _came_back(self, exchange: GroupExchange) -> None:
        """Note that a member that left joins again on its connection."""
        row = self._left.pop(exchange.flow.id, None)
        if isinstance(row, _Round):
            row = row.row
        if row is not None and row.returned_ns is None:
            row.returned_ns = exchange.since.time_ns

    def _lives(self, group: Group, exchange: GroupExchange, error: int | None, generation: int | None) -> None:
        """Take a Heartbeat, a SyncGroup or an OffsetCommit."""
        request, one = exchange.request, self._round
        member_id = request.member_id
        if generation is None or generation < 0 or not member_id:
            return
        if error in _TOLD:
            self._refused(group, exchange, member_id, error, generation)
        elif error == 0:
            if one.number is None and not one.is_begun and one.before.number is None:
                one.after.number, one.adopted = generation, True
            if one.number == generation and len(one.after.members) < limits.REBALANCING:
                self._heard[member_id] = exchange.since
                one.after.members.setdefault(member_id, party_of(group, member_id))
                if exchange.api_key == SYNC_GROUP:
                    self._synced(one, exchange, member_id)
                if one.last_synced is not None and (
                    exchange.api_key != SYNC_GROUP or one.after.members.keys() <= one.after.synced
                ):
                    self._finish(group, one)

    def _refused(self, group: Group, exchange: GroupExchange, member_id: str, error: int, generation: int) -> None:
        one = self._round
        if error == ErrorCode.REBALANCE_IN_PROGRESS and generation == one.number:
            one = self._turn(group)
        if error == ErrorCode.REBALANCE_IN_PROGRESS and one.number is None:
            one.announced = one.announced or exchange.at
            if one.before.number is None:
                one.before.number = generation
                one.before.members[member_id] = party_of(group, member_id)
        self._inform(member_id)

    def _inform(self, member_id: str) -> None:
        """Note that a member knows of the rebalance."""
        if len(self._round.informed) < limits.REBALANCING:
            self._round.informed.add(member_id)

    def _synced(self, one: _Round, exchange: GroupExchange, member_id: str) -> None:
        one.after.synced.add(member_id)
        one.last_synced = exchange.at
        if exchange.request.assignments:
            one.leader_synced = exchange.since
        if has_partitions(exchange.answer):
            one.after.owners.add(member_id)

    def _leave(self, group: Group, exchange: GroupExchange) -> None:
        if exchange.error != 0:
            return
        current = self._round.after if self._round.number is not None else self._round.before
        if len(self._round.leaves) >= limits.REBALANCING:
            return
        ids = {it: why for it, why in _leaving(current, exchange) if it in current.members or not current.is_full}
        if not ids:
            return
        one = self._open(group)
        for member_id, reason in ids.items():
            trigger: Trigger = "poll_too_late" if reason and "poll" in reason else "leave"
            event = Event(trigger, party_of(group, member_id), exchange.since, reason, exchange.flow.id)
            one.leaves.append(event)
            one.left[member_id] = exchange.since
            if len(self._left) < _LEFT:
                self._left[exchange.flow.id] = one
        if one.before.is_full and not one.joins and not one.before.members.keys() - one.left.keys():
            one.emptied = exchange.at

    # -- rounds

    def _open(self, group: Group) -> _Round:
        """Return the rebalance that runs; a new one if the last one made its generation."""
        return self._turn(group) if self._round.number is not None or self._round.emptied else self._round

    def _turn(self, group: Group) -> _Round:
        """End a rebalance, and begin the next one."""
        one = self._round
        if one.row is None and not one.adopted and one.is_begun:
            self._finish(group, one)
        before = _Generation(is_full=True) if one.emptied is not None else one.after
        # Members that were given an id while the last generation ran join with it now.
        pending = {it: at for it, at in one.pending.items() if it not in one.after.members}
        since = one.answered or one.emptied
        self._round = _Round(before, pending=pending, since_ns=0 if since is None else since.time_ns)
        self._heard = {member: at for member, at in self._heard.items() if member in before.members}
        return self._round

    def _finish(self, group: Group, one: _Round) -> None:
        if one.row is None and not one.adopted:
            one.row = self._row(group, one)
            self._rows.add(one.row)

    def _end_expired(self, table: GroupTable, group: Group, since: Moment) -> None:
        """End a rebalance, before a request, if the sessions of all members expired that it waited for."""
        one = self._round
        ended = self._all_expired(table, group, one, since) if one.is_begun else {}
        if ended and max(ended.values()) <= since.time_ns:
            one.ended, one.emptied = ended, Moment(since.packet, max(ended.values()))

    def _all_expired(self, table: GroupTable, group: Group, one: _Round, now: Moment) -> dict[str, int]:
        """Return when each member was out that did not leave, if nobody is in the group any more; else nothing.

        The coordinator waits for a dynamic member until the rebalance timeout at most.
        """
        awaited = one.before.members.keys() - one.left.keys()
        is_joined = one.joins or one.waiting or one.answered is not None or one.emptied is not None
        if is_joined or not awaited or not one.before.is_full:
            return {}
        ends = ends_by(table, group, now)
        if not awaited <= ends.keys():
            return {}
        timeouts = [group.life(it).rebalance_ms for it in one.before.members]
        latest_ns = self._began(group, one)[0].since.time_ns + max(it or _LONGEST_MS for it in timeouts) * 1_000_000
        ended = {it: ends[it] if one.before.members[it].instance_id else min(ends[it], latest_ns) for it in awaited}
        is_pending = any(at.time_ns + timeout_ns > max(ended.values()) for at, timeout_ns in one.pending.values())
        return {} if is_pending else ended

    def _row(self, group: Group, one: _Round) -> Rebalance:
        begun, others = self._began(group, one)
        until = one.emptied or one.last_synced
        if one.ended:
            until = Moment(0, max(begun.since.time_ns, *one.ended.values()))
        return Rebalance(
            begun.since.packet,
            begun.since.time_ns,
            None if until is None or one.ended else until.packet,
            None if until is None else until.time_ns,
            one.before.number,
            one.number,
            begun.trigger,
            begun.by,
            begun.reason,
            others,
            is_lossy=self._is_lossy(one),
            members=len(one.after.members),
            waited_for=longest_first([*self._waits(group, one, begun)]),
            stood_still_ns=self._stood_still(group, one, begun, until),
            is_end_inferred=bool(one.ended),
        )

    def _began(self, group: Group, one: _Round) -> tuple[Event, int]:
        """Return the event that began a rebalance, and the number of others."""
        events = [*one.leaves, *one.unanswered, *(event for event in one.joins.values() if event is not None)]
        first = first_of(events)
        seen = min(
            (at for at in (one.announced, one.answered, *one.asked.values(), *one.waiting.values()) if at is not None),
            key=lambda at: at.time_ns,
            default=Moment(0, 0),
        )
        if self._has_missed(group, one):
            return Event("unknown", None, seen), len(events)
        is_first = first is not None and (one.announced is None or first.since.time_ns <= one.announced.time_ns)
        if first is not None and is_first and first.trigger != "rejoin":
            return first, len(events) - 1
        missing = [member for member in self._missing(one) if member in self._heard]
        if missing:
            member = min(missing, key=lambda it: self._heard[it].time_ns)
            ends_ns = self._ends_ns(group, member)
            is_over = ends_ns is not None and ends_ns - _TICK_NS <= seen.time_ns and not self._lost(group, member)
            at = Moment(seen.packet, min(ends_ns or seen.time_ns, seen.time_ns)) if is_over else seen
            if is_over or not is_first:
                return Event("expired" if is_over else "gone", one.before.members[member], at), len(events)
        if first is not None and is_first:
            return first, len(events) - 1
        unsynced = one.before.members.keys() - one.before.synced
        is_seen = one.before.is_full and not one.before.members.keys() - self._heard.keys()
        if one.before.synced and unsynced and is_seen and not self._is_lossy(one):
            return Event("not_synced", one.before.members[min(unsynced)], seen), len(events)
        return Event("unknown", None, seen), len(events)

    def _has_missed(self, group: Group, one: _Round) -> bool:
        """True if the capture does not show a generation between the two: an empty group has one, too."""
        before, after = one.before.number, one.number
        if before is None or after is None or after <= before + 1:
            return False
        at = max(one.asked.values(), key=lambda it: it.time_ns, default=Moment(0, 0))
        gone = {*self._missing(one)} & {*self._over_before(group, one, at)}
        return not gone or gone != {*one.before.members}

    def _lost(self, group: Group, member_id: str) -> bool:
        """True if bytes from a member's host were lost since it was heard last."""
        heard, host = self._heard.get(member_id), group.life(member_id).host
        return heard is not None and self._traffic is not None and self._traffic.lost_since(host, heard.time_ns)

    def _is_lossy(self, one: _Round) -> bool:
        """True if bytes were lost since the last generation."""
        is_later = one.since_ns > 0 or one.before.number is not None
        return is_later and self._traffic is not None and self._traffic.lost_ns > one.since_ns

    def _missing(self, one: _Round) -> Iterator[str]:
        """Yield the members that neither joined again nor left, as far as the capture shows all that joined."""
        if one.answered is not None and not one.after.is_full:
            return
        instances = {party.instance_id for party in one.after.members.values() if party.instance_id}
        for member_id, party in one.before.members.items():
            is_here = member_id in one.after.members or member_id in one.left or member_id in one.waiting
            if not is_here and party.instance_id not in instances:
                yield member_id

    def _ends_ns(self, group: Group, member_id: str) -> int | None:
        """Return the end of a member's session; None if its timeout is unknown."""
        timeout_ms, heard = group.life(member_id).timeout_ms, self._heard.get(member_id)
        return None if timeout_ms is None or heard is None else heard.time_ns + timeout_ms * 1_000_000

    def _is_before(self, group: Group, member_id: str, at: Moment) -> bool:
        """True if a member's session was over before a moment."""
        ends_ns = self._ends_ns(group, member_id)
        return ends_ns is not None and ends_ns < at.time_ns

    def _waits(self, group: Group, one: _Round, begun: Event) -> Iterator[Wait]:
        """Yield what the coordinator waited for: joins, then the leader's assignment."""
        triggered, since = begun.by.member_id if begun.by is not None else None, begun.since
        for member_id, end_ns in one.ended.items():
            if member_id != triggered and end_ns > since.time_ns:
                member = one.before.members[member_id]
                yield Wait("never_joined", member, since.packet, since.time_ns, None, end_ns)
        if one.emptied is not None or one.ended:
            return
        last_id = max(one.asked, key=lambda it: one.asked[it].time_ns, default=None)
        last = begun.since if last_id is None else one.asked[last_id]
        absent: list[Wait] = []
        if one.answered is None or one.answered.time_ns - last.time_ns > NOTICED_NS:
            absent = [
                wait("never_joined", one.before.members[it], begun.since, one.answered)
                for it in self._missing(one)
                if it != triggered and not self._is_before(group, it, begun.since)
            ]
            absent += [
                wait("pending", Party(it), max(at, begun.since, key=lambda at: at.time_ns), one.answered)
                for it, (at, timeout_ns) in one.pending.items()
                if it not in one.after.members
                and it not in one.waiting
                and begun.since.time_ns < at.time_ns + timeout_ns
            ]
            if not absent and one.answered is not None and one.answered.time_ns - last.time_ns > _LONG_NS:
                empty = not one.before.members.keys() - set(self._over_before(group, one, begun.since))
                absent = [wait("initial_delay" if empty else "never_joined", None, last, one.answered)]
        yield from absent
        if last_id is not None and last_id != triggered and last.time_ns - begun.since.time_ns > NOTICED_NS:
            yield wait("joined_last", one.after.members.get(last_id), begun.since, last)
        if one.answered is None or one.leader_synced is None:
            return
        if one.leader_synced.time_ns - one.answered.time_ns > NOTICED_NS:
            yield wait("leader", None, one.answered, one.leader_synced)

    def _over_before(self, group: Group, one: _Round, at: Moment) -> Iterator[str]:
        return (it for it in one.before.members if self._is_before(group, it, at))

    def _stood_still(self, group: Group, one: _Round, begun: Event, until: Moment | None) -> int | None:
        """Return the longest time for which the partitions of a member had none; None if that is unknown."""
        if until is None or one.emptied is not None or one.ended:
            return None
        stops = []
        for member_id in one.before.owners:
            if member_id in one.asked:
                stop = None if one.cooperative else one.asked[member_id]
            else:
                stop = one.left.get(member_id) or self._heard.get(member_id)
            is_triggered = begun.by is not None and begun.by.member_id == member_id
            if stop is not None and (is_triggered or not self._is_before(group, member_id, begun.since)):
                stops.append(stop.time_ns)
        return max(until.time_ns - min(stops), 0) if stops else None


#: A topic that changed this long before a member joins again by itself may be the reason (metadata.max.age.ms).
_REFRESHED_NS: Final = 300_000_000_000


def _error_of(exchange: GroupExchange) -> int | None:
    """Return the answer's error; of an OffsetCommit the first one of its partitions."""
    if exchange.api_key != OFFSET_COMMIT or exchange.answer is None:
        return exchange.error
    codes = (part.error_code for topic in exchange.answer.topics or () for part in topic.partitions or ())
    return next((code for code in codes if code), 0)


def _leaving(current: _Generation, exchange: GroupExchange) -> Iterator[tuple[str, str | None]]:
    """Yield the members that left, each with its reason; a static member may be named by its instance."""
    request, results = exchange.request, getattr(exchange.answer, "members", None) or ()
    if isinstance(alone := getattr(request, "member_id", None), str):
        yield alone, None
        return
    for one, result in zip(request.members or (), results, strict=False):
        if result.error_code == 0:
            of_instance = (it for it, party in current.members.items() if party.instance_id == one.group_instance_id)
            member_id = one.member_id or next(of_instance, None)
            if member_id:
                yield member_id, getattr(one, "reason", None) or None
