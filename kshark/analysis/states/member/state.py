"""Members of share groups: what their heartbeats tell of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import FINAL, INITIAL, Partition, Step
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, UNANSWERED, UNKNOWN_MEMBER, Beat
from kshark.analysis.states.tables.member import MemberState

#: Assignments of one member that are remembered.
_ASSIGNMENTS: Final = 16
#: Once an assignment is that old, its member has had the time to fetch all of it.
SETTLED_NS: Final = 10_000_000_000
#: What a broker says on one connection may be on its way that long while requests come on another one.
_ON_ITS_WAY_NS: Final = 1_000_000_000
#: A client waits no longer for an answer, nor before it asks again (request.timeout.ms): for so long what it asks on
#: one connection may be held up, while it is heard on another one.
REQUEST_TIMEOUT_NS: Final = 30_000_000_000


class Assignment(Struct, eq=False):
    """What the member was told to fetch from, as of a packet and its time; `partitions` None: not known from there on.

    `confirmed`: the last request that still had the epoch which came with it; `on`: the connection of that heartbeat.
    """

    packet: int
    partitions: frozenset[Partition] | None
    on: Connection | None = None
    time_ns: int = 0
    confirmed: int = 0


@dataclass(slots=True, eq=False)
class Member:
    """One member of one group. Bounded, whatever the number of its heartbeats."""

    #: What the coordinator may know of it; None: anything, because of `doubt`.
    states: tuple[MemberState, ...] | None = None
    doubt: str = "beginning_not_seen"
    #: Its join, where that is the first the capture shows of it.
    join: Beat | None = None
    #: Its heartbeat before, whatever the answer; the last that was accepted, but for leaves; one since then that was
    #: not answered.
    before: Beat | None = None
    last: Beat | None = None
    unanswered: Beat | None = None
    #: The heartbeat by which it left its group, after which it was not seen to join.
    leave: Beat | None = None
    #: The last one by which it left, whether it came back or not.
    last_leave: Beat | None = None
    #: Its last heartbeat, where by that it left, or was told that it is out.
    departure: Beat | None = None
    assignments: tuple[Assignment, ...] = ()
    #: The last heartbeat that brought an assignment, or asked to join.
    assigned_by: Beat | None = None
    #: Partitions that its share requests have listed; None: there are too many, or something of a request was not read.
    listed: frozenset[Partition] | set[Partition] | None = frozenset()
    #: The member epoch that the coordinator gave last, and the last request that came with it: until there no
    #: assignment was missed.
    epoch: int | None = None
    confirmed: int = 0
    #: From that packet on no assignment is missing: its first join, or the answer to its leave. None: some may be,
    #: since it came with an epoch that no answer gave, or asked to join though it was in the group.
    complete_since: int | None = None
    #: The last share request to its coordinator; the last one before a silence longer than a heartbeat's interval, and
    #: when that was over.
    heard: Step | None = None
    silent_since: Step | None = None
    silent_until_ns: int = 0
    #: Brokers with which it had share sessions, and those of them whose sessions wait for its next heartbeat to prove
    #: something.
    brokers: dict[Broker, None] = field(default_factory=dict)
    waiting: dict[Broker, None] = field(default_factory=dict)

    def lose_sight(self, doubt: str) -> None:
        """What was known of its state may be wrong."""
        self.states, self.doubt = None, doubt

    def remember(self, beat: Beat) -> None:
        """Takes a heartbeat, whose effect on the possible states is already known, into the past."""
        self.before = beat
        left = beat.kind is FINAL and beat.reply is ACCEPTED
        self.departure = beat if left or beat.reply is FENCED or beat.reply is UNKNOWN_MEMBER else None
        if beat.assigned is not None or beat.kind is INITIAL:
            self.assigned_by = beat
        if beat.reply is ACCEPTED:
            self.unanswered = None
            if left:
                self.leave = self.last_leave = beat
            else:
                self.last, self.leave = beat, None
        elif beat.reply is UNANSWERED:
            self.unanswered = beat
        given = beat.given if beat.reply is ACCEPTED else None
        answer = None if beat.answer is None else beat.answer.packet
        self.heartbeat(beat.packet, beat.epoch, answer, given, beat.assigned, beat.connection, beat.end_ns)

    def lists(self, step: Step) -> None:
        """Takes note of what a share request lists."""
        if self.listed is not None:
            listed = self.listed if isinstance(self.listed, set) else set()
            for one in step.listed:
                listed.add(one.partition)
            self.listed = None if step.doubt is not None or len(listed) > limits.SESSION_PARTITIONS else listed

    def hears(self, step: Step) -> None:
        """A share request: if it comes to the coordinator, a heartbeat could have come, too."""
        last, heard = self.last, self.heard
        if last is None or last.connection.broker is not step.connection.broker:
            return
        if heard is None or step.time_ns - heard.time_ns > last.interval_ns:
            self.silent_since, self.silent_until_ns = heard, step.time_ns
        self.heard = step

    def heard_instead(self, beat: Beat) -> Step | None:
        """A share request of the member that came when that heartbeat was due for an interval, and before all that came
        along with it."""
        last = self.last
        if last is None:
            return None
        heard = self.silent_since if self.silent_until_ns > beat.time_ns - last.interval_ns else self.heard
        return heard if heard is not None and heard.time_ns > last.time_ns + 2 * last.interval_ns else None

    def settles(self, beat: Beat) -> bool:
        """Whether that heartbeat is the first by which the member has had its assignment long enough."""
        if self.assigned_by is None or self.last is None:
            return False
        return self.last.time_ns < self.assigned_by.end_ns + SETTLED_NS <= beat.time_ns

    def heartbeat(
        self, request: int, sent: int, answer: int | None, given: int | None, partitions: frozenset[Partition] | None,
        on: Connection | None = None, time_ns: int = 0,
    ) -> None:  # fmt: skip
        """A heartbeat: the request's packet and member epoch, the answer's (no epoch: a refusal), and the assignment
        where that brings one.

        A member takes a new epoch with a new assignment (KIP-848): one that it was not seen to be given came with a
        missing answer."""
        if self.epoch is not None and sent == self.epoch:
            self.confirmed = max(self.confirmed, request)
            if self.assignments:
                self.assignments[-1].confirmed = request
        elif sent != INITIAL or answer is None:
            self.complete_since = None
            self._learn(max(self.confirmed, self.assignments[-1].packet + 1 if self.assignments else 0), None, on)
        if answer is None or given is None:
            return
        if sent == FINAL:
            self.epoch, self.complete_since = None, answer
            return
        if sent == INITIAL and (self.epoch is not None or request < (self.complete_since or 0)):
            self.complete_since = None
        self.epoch = given
        if partitions is not None:
            self._learn(answer, partitions, on, time_ns)

    def _learn(
        self, packet: int, partitions: frozenset[Partition] | None, on: Connection | None, time_ns: int = 0
    ) -> None:
        if partitions is not None or (self.assignments and self.assignments[-1].partitions is not None):
            self.assignments = (*self.assignments, Assignment(packet, partitions, on, time_ns))[-_ASSIGNMENTS:]

    def told(self, packet: int) -> Assignment | None:
        """The last assignment as of that packet."""
        return next((one for one in reversed(self.assignments) if one.packet <= packet), None)

    def is_assigned(self, partition: Partition, packet: int) -> bool | None:
        """Whether the partition was the member's as of that packet; None where that is not known."""
        told = self.told(packet)
        return None if told is None or told.partitions is None else partition in told.partitions

    def lacks(self, partitions: AbstractSet[Partition] | None) -> bool:
        """Whether the last assignment is known, and has not all of these."""
        last = self.assignments[-1].partitions if self.assignments else None
        return last is not None and partitions is not None and not last >= partitions

    def never_had(self, partition: Partition, packet: int) -> bool:
        """Whether all that it was told in the membership which that packet belongs to is known, and the partition in
        none of it."""
        since = self.complete_since
        if since is None or packet < since:
            return False
        told = [one for one in self.assignments if one.packet >= since]
        return len(told) < _ASSIGNMENTS and all(
            one.partitions is not None and partition not in one.partitions for one in told
        )


def may_have_crossed(said_ns: int, step: Step) -> bool:
    """Whether a request may have been sent before its member had heard what its coordinator said at that time."""
    return step.time_ns < said_ns + _ON_ITS_WAY_NS


class NotAssigned(NamedTuple):
    """Proof that a member was told nothing else up to a packet: its next heartbeat still has the epoch that came with
    the assignment, and nothing of what it sent to that broker in between is missing: whoever leaves and joins again may
    be given the same one."""

    member: Member
    partition: Partition
    packet: int

    def holds(self) -> bool | None:
        """None while no later heartbeat was seen."""
        told = self.member.told(self.packet)
        if told is None or told.partitions is None or self.partition in told.partitions:
            return False
        if told.confirmed > self.packet:
            broker = None if told.on is None else told.on.broker
            return (
                told.on is None
                or broker is None
                or broker.missing_between((told.on.host,), told.packet, told.confirmed) is None
            )
        return (
            None if told is self.member.assignments[-1] else False
        )  # whoever joins again may have been told more before


class NotBack(NamedTuple):
    """Proof that a member had not joined behind its departure when it took a step: its next heartbeat asks to join, or
    is told again that it is out. It comes on the connection of the departure, of which nothing is missing; a join, so
    late that it was not held up."""

    member: Member
    departure: Beat
    step: Step

    def holds(self) -> bool | str | None:
        """None while no later heartbeat was seen."""
        gone, after = self.departure, self.member.before
        if after is None or after is gone:
            return None
        is_out = after.packet > self.step.packet and (after.kind is INITIAL or after.reply is UNKNOWN_MEMBER)
        if not is_out or after.connection is not gone.connection:
            return False
        missing = gone.connection.holes.between(gone.packet, after.end)
        late_ns = after.time_ns - self.step.time_ns
        if missing is not None or after.kind is not INITIAL or late_ns >= REQUEST_TIMEOUT_NS:
            return missing or True
        return "refuted" if late_ns < _ON_ITS_WAY_NS else "race"


#: The number of the cluster, group id, member id.
_Key = tuple[int, str | None, str | None]


class Members:
    """Every member that the capture shows, the longest unused forgotten first; each is of the cluster of the broker
    that it was met at."""

    def __init__(self) -> None:
        self._members: OrderedDict[_Key, Member] = OrderedDict()
        #: Members were forgotten: nobody's first trace is its beginning any more.
        self.forgetful = False

    def of(self, broker: Broker | None, group_id: str | None, member_id: str | None) -> Member:
        key = 0 if broker is None else broker.cluster, group_id, member_id
        found = self._members.get(key)
        if found is None:
            found = self._members[key] = Member()
            if len(self._members) > limits.SESSIONS:
                self._members.popitem(last=False)
                self.forgetful = True
        else:
            self._members.move_to_end(key)
        return found

    def get(self, broker: Broker | None, group_id: str | None, member_id: str | None) -> Member | None:
        return self._members.get((0 if broker is None else broker.cluster, group_id, member_id))
