"""Members of share and consumer groups: the state that their heartbeats show."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import FINAL, INITIAL, Partition, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, UNANSWERED, UNKNOWN_MEMBER, Beat
from kshark.analysis.facts.known import BEGINNING, Known, known_if, never
from kshark.analysis.states.tables.member import MemberState

#: Highest number of assignments that are kept for a member.
_ASSIGNMENTS: Final = 16
#: Shared by all members: each empty frozenset takes 216 bytes.
_NO_PARTITIONS: Final[frozenset[Partition]] = frozenset()
#: After this time a member could fetch from all partitions of an assignment.
SETTLED_NS: Final = 10_000_000_000
#: A message on one connection may arrive this much later than requests on another connection.
ON_ITS_WAY_NS: Final = 1_000_000_000
#: Longest wait of a client for an answer, and before it retries (request.timeout.ms). A request on one connection may
#: be delayed for this time while requests on another connection arrive.
REQUEST_TIMEOUT_NS: Final = 30_000_000_000


#: The capture does not show that the member had received the answer with its assignment.
NOT_RECEIVED: Final = never("in_flight")


class Assignment(Struct, eq=False):
    """An assignment of the member, from a packet and its time on; `partitions` None: unknown from there on.

    `confirmed`: the last request that still had the epoch of this assignment: none is missing before that request.
    `on`: the connection of the heartbeat.
    """

    packet: int
    partitions: frozenset[Partition] | None
    on: ConnectionFacts | None = None
    time_ns: int = 0
    confirmed: int = 0


class Member:
    """A member of a group. Its size is bounded for any number of heartbeats."""

    __slots__ = (
        "assigned_by",
        "assignments",
        "before",
        "brokers",
        "complete_since",
        "departure",
        "epoch",
        "heard",
        "join",
        "last",
        "last_leave",
        "leave",
        "listed",
        "silence",
        "states",
        "states_known",
        "stayed_since",
        "unanswered",
        "waiting",
    )

    def __init__(self) -> None:
        #: The possible states in the coordinator; None: any state, for the reason of `states_known`.
        self.states: tuple[MemberState, ...] | None = None
        self.states_known: Known = BEGINNING
        #: Its join, if the capture shows nothing of the member before.
        self.join: Beat | None = None
        #: The heartbeat before; the last accepted one that did not leave; one after that without an answer.
        self.before: Beat | None = None
        self.last: Beat | None = None
        self.unanswered: Beat | None = None
        #: The heartbeat that left the group, if no join was seen after it.
        self.leave: Beat | None = None
        #: The last heartbeat that left the group, also if the member joined again.
        self.last_leave: Beat | None = None
        #: The last heartbeat, if it left the group or was refused because the member is out.
        self.departure: Beat | None = None
        self.assignments: tuple[Assignment, ...] = ()
        #: The last heartbeat that brought an assignment or asked to join.
        self.assigned_by: Beat | None = None
        #: Partitions that its share requests listed; None: there are too many, or a request was not fully read.
        self.listed: frozenset[Partition] | set[Partition] | None = _NO_PARTITIONS
        #: The member epoch that the coordinator gave last.
        self.epoch: int | None = None
        #: No assignment is missing from this packet on: the first join, or the answer to a leave. None: some may be
        #: missing, because the member used an epoch that no seen answer gave, or asked to join while it was in the
        #: group.
        self.complete_since: int | None = None
        #: The first heartbeat since which the member has stayed in the group without joining again.
        self.stayed_since: Beat | None = None
        #: The last share request to its coordinator; the last one before a silence longer than a heartbeat interval,
        #: and the end of that silence.
        self.heard: ShareStep | None = None
        self.silence: tuple[ShareStep | None, int] = None, 0
        #: Brokers of its share sessions, and those whose sessions wait for its next heartbeat as a proof.
        self.brokers: dict[Broker, None] = {}
        self.waiting: dict[Broker, None] = {}

    def lose_sight(self, because: str) -> None:
        """Forget the possible states, because they may be wrong."""
        self.states, self.states_known = None, never(because)

    def remember(self, beat: Beat) -> None:
        """Add a heartbeat to the past. Its effect on the possible states was computed before."""
        self.before = beat
        left = beat.leaves and beat.reply is ACCEPTED
        self.departure = beat if left or beat.reply is FENCED or beat.reply is UNKNOWN_MEMBER else None
        if beat.assigned is not None or beat.kind is INITIAL:
            self.assigned_by = beat
        if self.departure is not None or (beat.kind is INITIAL and beat.reply is ACCEPTED):
            self.stayed_since = None
        if beat.reply is ACCEPTED:
            self.unanswered = None
            self.stayed_since = None if left else self.stayed_since or beat
            if left:
                self.leave = self.last_leave = beat
            else:
                self.last, self.leave = beat, None
        elif beat.reply is UNANSWERED:
            self.unanswered = beat
        given = beat.given if beat.reply is ACCEPTED else None
        answer = None if beat.answer is None else beat.answer.packet
        self.heartbeat(beat.packet, beat.epoch, answer, given, beat.assigned, beat.connection, beat.end_ns)

    def lists(self, step: ShareStep) -> None:
        """Note the partitions that a share request lists."""
        if self.listed is not None:
            listed = self.listed if isinstance(self.listed, set) else set()
            for entry in step.listed:
                listed.add(entry.partition)
            self.listed = None if step.doubt is not None or len(listed) > limits.SESSION_PARTITIONS else listed

    def hears(self, step: ShareStep) -> None:
        """Note a share request. If it goes to the coordinator, a heartbeat could arrive at that time, too."""
        last, heard = self.last, self.heard
        if last is None or last.connection.broker is not step.connection.broker:
            return
        if heard is None or step.time_ns - heard.time_ns > last.interval_ns:
            self.silence = heard, step.time_ns
        self.heard = step

    def heard_instead(self, beat: Beat) -> ShareStep | None:
        """Return a share request that was sent when the heartbeat was overdue by an interval.

        It is older than all requests that came together with the heartbeat.
        """
        last = self.last
        if last is None:
            return None
        before, until_ns = self.silence
        heard = before if until_ns > beat.time_ns - last.interval_ns else self.heard
        return heard if heard is not None and heard.time_ns > last.end_ns + 2 * last.interval_ns else None

    def was_in_group(self, since: int, until_ns: int) -> bool | None:
        """True if the member was in its group between that packet and that time: the group was not empty.

        None: a later heartbeat may show it. Session timeouts are settings, and longer than the heartbeat interval in
        each answer (Kafka: GroupCoordinatorConfig, GroupConfig.validateValues).
        """
        if self.stayed_since is None or self.last is None or self.stayed_since.end > since:
            return False
        return True if until_ns <= self.last.end_ns + self.last.interval_ns else None

    def settles(self, beat: Beat) -> bool:
        """True if the heartbeat is the first one after SETTLED_NS with the assignment."""
        if self.assigned_by is None or self.last is None:
            return False
        return self.last.time_ns < self.assigned_by.end_ns + SETTLED_NS <= beat.time_ns

    def heartbeat(
        self, request: int, sent: int, answer: int | None, given: int | None, partitions: frozenset[Partition] | None,
        on: ConnectionFacts | None = None, time_ns: int = 0,
    ) -> None:  # fmt: skip
        """Note a heartbeat.

        `request`, `sent`: packet and member epoch of the request. `answer`, `given`: those of the answer; a refusal has
        no epoch. `partitions`: the assignment in the answer.

        A member uses a new epoch with a new assignment (KIP-848). An epoch that no seen answer gave came with a missing
        answer.
        """
        if self.epoch is not None and sent == self.epoch:
            if self.assignments:
                self.assignments[-1].confirmed = max(self.assignments[-1].confirmed, request)
        elif sent != INITIAL or answer is None:
            self.complete_since = None
            if self.assignments:
                self._learn(max(self.assignments[-1].confirmed, self.assignments[-1].packet + 1), None, on)
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
        self, packet: int, partitions: frozenset[Partition] | None, on: ConnectionFacts | None, time_ns: int = 0
    ) -> None:
        if partitions is not None or (self.assignments and self.assignments[-1].partitions is not None):
            self.assignments = (*self.assignments, Assignment(packet, partitions, on, time_ns))[-_ASSIGNMENTS:]

    def assignment_at(self, packet: int) -> Assignment | None:
        """Return the last assignment before that packet."""
        return next((assignment for assignment in reversed(self.assignments) if assignment.packet <= packet), None)

    def is_assigned(self, partition: Partition, packet: int) -> bool | None:
        """True if the partition was assigned to the member at that packet; None if this is unknown."""
        assignment = self.assignment_at(packet)
        return None if assignment is None or assignment.partitions is None else partition in assignment.partitions

    def assignment_known(self, packet: int) -> Known:
        """Return the fact that the assignment at that packet is known."""
        assignment = self.assignment_at(packet)
        return known_if(assignment is not None and assignment.partitions is not None, "assignment_unknown")

    def has_assignment(self, step: ShareStep) -> Known:
        """Return the fact that the member had received its last assignment before it sent the request."""
        by, clock = self.assigned_by, step.connection.clock
        is_ordered = by is None or by.connection is step.connection or clock.is_before(by.end_ns, step.time_ns)
        return known_if(is_ordered, "disorder")

    def lacks(self, partitions: AbstractSet[Partition] | None) -> bool:
        """True if the last assignment is known and lacks some of these partitions."""
        last = self.assignments[-1].partitions if self.assignments else None
        return last is not None and partitions is not None and not last >= partitions

    def never_had(self, partition: Partition, packet: int) -> bool:
        """True if the partition is in no assignment of the membership of that packet, and all of these are known."""
        since = self.complete_since
        if since is None or packet < since:
            return False
        assignments = [assignment for assignment in self.assignments if assignment.packet >= since]
        return len(assignments) < _ASSIGNMENTS and all(
            assignment.partitions is not None and partition not in assignment.partitions for assignment in assignments
        )


def may_have_crossed(answered_ns: int, step: ShareStep) -> bool:
    """True if the member may have sent a request before the coordinator's message of that time reached it."""
    return step.time_ns < answered_ns + ON_ITS_WAY_NS


class NotAssigned(Struct, frozen=True):
    """Proof that a member had no other assignment up to a packet.

    Its next heartbeat still has the epoch of the assignment, and no traffic from its host to the coordinator is missing
    in between: a member that leaves and joins again may get the same epoch.
    """

    because: ClassVar = "assignment_unknown"
    member: Member
    partition: Partition
    packet: int

    def holds(self) -> bool | None:
        """None until a later heartbeat is seen."""
        assignment = self.member.assignment_at(self.packet)
        if assignment is None or assignment.partitions is None or self.partition in assignment.partitions:
            return False
        if assignment.confirmed > self.packet:
            broker = None if assignment.on is None else assignment.on.broker
            return (
                assignment.on is None
                or broker is None
                or broker.missing_between((assignment.on.host,), assignment.packet, assignment.confirmed) is None
            )
        # A member that joined again may have had more partitions before.
        return None if assignment is self.member.assignments[-1] else False


class NotBack(Struct, frozen=True):
    """Proof that a member had not joined again after its departure when it sent a request.

    Its next heartbeat asks to join, or is answered again with UNKNOWN_MEMBER_ID. It is sent on the connection of the
    departure, which has no missing bytes. A join is a proof only
    if it comes REQUEST_TIMEOUT_NS after the request: an earlier one may have been sent before the request and delayed.
    """

    because: ClassVar = "hidden_traffic"
    member: Member
    departure: Beat
    step: ShareStep

    def holds(self) -> bool | str | None:
        """None until a later heartbeat is seen."""
        gone, after = self.departure, self.member.before
        if after is None or after is gone:
            return None
        is_out = after.packet > self.step.packet and (after.kind is INITIAL or after.reply is UNKNOWN_MEMBER)
        if not is_out or after.connection is not gone.connection:
            return False
        missing = gone.connection.holes.between(gone.packet, after.end)
        late = gone.connection.clock.durations.elapsed(self.step.sent, after.sent)
        if missing is not None or after.kind is not INITIAL or late.least_ns >= REQUEST_TIMEOUT_NS:
            return missing or True
        return "refuted" if late.is_below(ON_ITS_WAY_NS) else "race"


#: The number of the cluster, group id, member id.
_Key = tuple[int, str | None, str | None]


class Members:
    """All members of the capture, by the cluster of their broker. The least recently used one is forgotten first."""

    def __init__(self) -> None:
        self._members: OrderedDict[_Key, Member] = OrderedDict()
        #: Members were forgotten: the first heartbeat of a member may not be its beginning.
        self.forgetful = False

    def of(self, broker: Broker | None, group_id: str | None, member_id: str | None) -> Member:
        key = 0 if broker is None else broker.cluster, group_id, member_id
        member = self._members.get(key)
        if member is None:
            member = self._members[key] = Member()
            if len(self._members) > limits.SESSIONS:
                self._members.popitem(last=False)
                self.forgetful = True
        else:
            self._members.move_to_end(key)
        return member

    def get(self, broker: Broker | None, group_id: str | None, member_id: str | None) -> Member | None:
        return self._members.get((0 if broker is None else broker.cluster, group_id, member_id))
