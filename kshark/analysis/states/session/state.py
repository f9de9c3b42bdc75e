"""The state of one share session: its possible states, and the earlier facts that later requests are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.brokers import Broker, End
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_LATER,
    FINAL,
    INVALID_EPOCH,
    REJECTED_EARLY,
    SUBSEQUENT,
    UNANSWERED,
    UNCLEAR,
    Acquired,
    Call,
    Leader,
    Partition,
    Reply,
    ShareStep,
)
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.heartbeats import Beat
from kshark.analysis.facts.known import ALWAYS, BEGINNING, NOTHING_HIDDEN, Known, never
from kshark.analysis.facts.releases import ANY_RELEASE, Release, both, releases_answering
from kshark.analysis.states.member.state import Member, may_have_crossed
from kshark.analysis.states.session.held_records import InFlight, nothing
from kshark.analysis.states.tables.session import ABSENT
from kshark.api_keys import SHARE_FETCH

#: Connections of a session whose last request is kept, and kept connections of replaced sessions.
_CONNECTIONS: Final = 64
REPLACED: Final = 8
#: Highest number of times of openings and refusals that are kept.
_TROUBLES: Final = 64
#: A session flaps after this number of openings and refusals within a minute.
FLAPPING: Final = 6
#: This number of openings in a row is a loop.
LOOP: Final = 3
_MINUTE_NS: Final = 60_000_000_000
#: The end cause of a session that ended for an unseen reason.
UNSEEN: Final = "unseen"


class EndCause(NamedTuple):
    """A certain or possible cause of a session's end: an accepted epoch -1, the end of a connection, a restart.

    `description`: the cause as text.
    `known`: the packets in which it is certain.
    `step`: the request that caused it. `end`: the end of a connection that caused it.
    """

    cause: str
    packet: int
    time_ns: int
    description: str
    step: ShareStep | None = None
    known: Known = ALWAYS
    end: End | None = None


class Hint(NamedTuple):
    """Fetches in a row whose answers name the same leader of a partition: the first and the last one."""

    leader: Leader
    first: ShareStep
    last: ShareStep


class PossibleState(Struct, eq=False):
    """A possible state of the session.

    `due`: the epoch that the broker expects; ABSENT without a session.
    `ended`: the cause of the last session's end; None before the first opening.
    `opening`: the epoch 0 that opened it; None if it was not seen.
    `replaced`: connections of the sessions that it replaced.
    """

    due: int
    opening: ShareStep | None = None
    ended: EndCause | None = None
    replaced: tuple[ConnectionFacts, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """A key; of states with the same key one is enough."""
        opening, ended = self.opening, self.ended
        return (
            self.due,
            None if opening is None else id(opening.connection),
            None if ended is None else (ended.cause, ended.packet, ended.known),
            tuple(map(id, self.replaced)),
        )


class Branch(Struct, eq=False):
    """One possible order in which the broker processed the requests so far.

    `early`: requests that it processed before their turn in the capture, because they were open at the same time, with
    the states they met.
    """

    state: PossibleState
    early: tuple[tuple[ShareStep, PossibleState], ...] = ()


class Trace(Struct, eq=False):
    """The requests of a session on one connection: first, last, the one before, and the latest openings in a row.

    `count`: the last epoch other than -1 that was counted there; 0: none, or its opening.
    """

    first: ShareStep
    last: ShareStep
    before: ShareStep | None = None
    openings: tuple[ShareStep, ...] = ()
    count: int = 0


class SessionState:  # a struct takes longer to change, a dataclass to import
    """The state of a (broker, group, member). Its size is bounded for any length of the session."""

    __slots__ = (
        "alive",
        "anchor",
        "begun",
        "branches",
        "broker",
        "contradicted_at",
        "count",
        "crossed",
        "departed",
        "departed_here",
        "ever_opened",
        "forgotten_until",
        "here",
        "hints",
        "hosts",
        "in_flight",
        "initial",
        "last",
        "last_acknowledge",
        "last_acquisition",
        "last_fetch",
        "last_unanswered_fetch",
        "member",
        "moved",
        "opening",
        "overlapping",
        "quiet_until",
        "refused_in_sequence",
        "spoken",
        "states_known",
        "troubles",
        "unanswered",
        "unbroken",
        "unread",
        "unread_on",
    )

    def __init__(self, broker: Broker, member: Member) -> None:
        self.broker = broker
        self.member = member
        #: The possible states; None: any state, for the reason of `states_known`.
        self.branches: tuple[Branch, ...] | None = None
        self.states_known: Known = BEGINNING
        #: The exchange since which the states are known.
        self.anchor: ShareStep | None = None
        #: Its first request, and the first request since which no epoch is missing.
        self.begun: ShareStep | None = None
        self.unbroken: ShareStep | None = None
        #: The packet of the last request that moved to another connection.
        self.moved: int = 0
        #: The last request that was refused although its epoch continued from the counted one.
        self.refused_in_sequence: ShareStep | None = None
        #: The packet of the last request whose answer contradicts all possible states.
        self.contradicted_at: int = 0
        #: The last exchange that proved the session to exist, and the last requests that it counted.
        self.alive: ShareStep | None = None
        self.last: ShareStep | None = None
        self.last_fetch: ShareStep | None = None
        self.last_acknowledge: ShareStep | None = None
        #: The last counted epoch other than -1; 0 after traffic that the capture does not hold.
        self.count: int = 0
        #: The epoch 0 that opened it, as far as its answer shows.
        self.opening: ShareStep | None = None
        #: A session was, or may have been, opened.
        self.ever_opened: bool = False
        #: The last request without an answer, and the requests on each connection.
        self.unanswered: ShareStep | None = None
        self.here: dict[int, Trace] = {}
        #: The last request with epoch 0.
        self.initial: ShareStep | None = None
        #: Times of openings and refusals, and the time until which no more are reported.
        self.troubles: tuple[int, ...] = ()
        self.quiet_until: int = 0
        #: Requests that later ones may overlap.
        self.overlapping: tuple[ShareStep, ...] = ()
        #: The end of such requests that were forgotten: until then the broker may have counted any of them.
        self.forgotten_until: int = 0
        #: Connections to which the session moved, without the one that opened it.
        self.crossed: tuple[int, ...] = ()
        #: The member's departure after which a fetch was accepted, and True if this fetch used the heartbeat's own
        #: connection.
        self.departed: Beat | None = None
        self.departed_here: bool = False
        self.in_flight: InFlight = InFlight()
        #: The last packet of a request or an answer that was not fully read: the ranges delivered before this packet
        #: are unknown. The connections that may have had more of them since. The last packet of a fetch without an
        #: answer.
        self.unread: int = 0
        self.unread_on: list[ConnectionFacts] = []
        self.last_unanswered_fetch: int = 0
        #: The last request that acquired records, and these records, since the last answer that the session does not
        #: exist.
        self.last_acquisition: tuple[ShareStep, Sequence[Acquired]] | None = None
        #: Partitions that another broker leads, from the last fetch's answer.
        self.hints: dict[Partition, Hint] = nothing()
        #: Hosts from which it was used, and releases that answer the versions which it uses.
        self.hosts: tuple[str, ...] = ()
        self.spoken: frozenset[Release] = ANY_RELEASE

    @property
    def states(self) -> tuple[PossibleState, ...] | None:
        """The states that are possible now."""
        return None if self.branches is None else tuple(branch.state for branch in self.branches)

    @property
    def is_open(self) -> bool:
        """True if a session is certainly open."""
        return bool(self.branches) and all(branch.state.due != ABSENT for branch in self.branches or ())

    @property
    def releases(self) -> frozenset[Release]:
        """The possible releases of the broker."""
        return self.broker.releases & self.spoken or self.broker.releases

    @property
    def last_unread(self) -> int:
        """The last packet of a message that was not fully read."""
        return max(self.unread, max((connection.last_unread for connection in self.unread_on), default=0))

    @property
    def deliveries(self) -> Known:
        """The packets in which all records that the broker delivered to the session are known.

        No epoch is missing, and no answer with records can be. An earlier request that waits for its answer is not
        counted yet.
        """
        if self.unbroken is None or self.last is None:
            return NOTHING_HIDDEN
        since = max(self.unbroken.packet, self.last_unread, self.last_unanswered_fetch)
        return Known(since, self.last.packet, NOTHING_HIDDEN.because)

    def may_have_replaced(self, connection: ConnectionFacts) -> bool:
        """True if it may have replaced a session that was opened on that connection."""
        return self.states is None or any(connection in state.replaced for state in self.states)

    def last_of(self, api_key: int) -> ShareStep | None:
        return self.last_fetch if api_key == SHARE_FETCH else self.last_acknowledge

    def departure(self, step: ShareStep) -> Beat | None:
        """Return the heartbeat with which the member left its group or learned that it is out, if the step ignores it.

        A member that is out may close the session and give back its records: Java clients do so when they change their
        subscription. On another connection than the heartbeat's the member must have had an answer since then;
        otherwise it may have sent the step before.
        """
        gone = self.member.departure
        if gone is None or step.packet <= gone.end or step.kind is FINAL:
            return None
        if gone.kind is not FINAL or gone.connection is not step.connection:
            before = self.here.get(step.connection.flow.id)
            if may_have_crossed(gone.end_ns, step) or before is None or not gone.packet < before.last.end < step.packet:
                return None
        return None if not step.is_fetch or step.forgotten or step.acknowledges else gone

    def missing_before(self, step: ShareStep) -> str | None:
        """Return why requests of this session may be missing since its states are known.

        This includes all connections between its hosts and the broker.
        """
        if self.anchor is None or not self.broker.holes:
            return None
        host = step.connection.host
        hosts = self.hosts if host in self.hosts else (*self.hosts, host)
        return self.broker.missing_between(hosts, self.anchor.packet, step.packet)

    def left_before(self, packet: int) -> Call | None:
        """Return the heartbeat that left the group before that packet and after the opening."""
        leave, opening = self.member.last_leave, self.opening
        if leave is None or opening is None or leave.packet < opening.packet or leave.end > packet:
            return None
        return leave

    def lose_sight(self, because: str) -> None:
        """Forget the possible states, because they may be wrong."""
        self.branches, self.states_known, self.unbroken = None, never(because), None
        self.in_flight.forget()

    def remember(self, step: ShareStep, reply: Reply) -> None:
        """Add a step to the past. Its effect on the possible states was computed before."""
        self.begun = self.begun or step
        counted = reply is ACCEPTED or reply is FAILED_LATER
        if counted:
            self.unanswered = None
            self.spoken = both(self.spoken, releases_answering(step.version))
        elif reply is UNANSWERED:
            self.unanswered = step
        if step.reply is ACCEPTED:
            self._note_departure(step)
        if step.is_trouble:
            self._troubled(step)
        if step.kind is SUBSEQUENT:
            if counted or reply is INVALID_EPOCH:
                self.alive, self.ever_opened = step, True
        elif step.opens:
            self._opened(step, reply)
        elif step.kind is FINAL and reply is ACCEPTED:
            self.in_flight.close()
        if counted and step.is_counted:
            self._count(step)
        self.in_flight.take(step, reply)
        self._leave_trace(step)
        step.lighten()
        self._note_overlaps(step)

    def _note_overlaps(self, step: ShareStep) -> None:
        """Keep the requests that the next ones may overlap. Until forgotten ones are over, the state is unknown."""
        open_still = [other for other in (*self.overlapping, step) if other.end > step.packet]
        self.overlapping = tuple(open_still[-limits.OVERLAPPING_STEPS :])
        if len(open_still) > limits.OVERLAPPING_STEPS:
            self.forgotten_until = max(other.end for other in open_still[: -limits.OVERLAPPING_STEPS])
        if step.packet < self.forgotten_until:
            self.lose_sight("limit")

    def _note_departure(self, step: ShareStep) -> None:
        gone = self.departure(step)
        if gone is not None:
            here = gone.connection is step.connection
            self.departed, self.departed_here = gone, here or (self.departed_here and self.departed is gone)

    def _count(self, step: ShareStep) -> None:
        """Note a step whose epoch the broker counted."""
        if self.last is not None and self.last.connection is not step.connection and not step.opens:
            self.moved = step.packet
        self.last = step
        if step.kind is not FINAL:
            self.count = step.epoch
        if step.is_fetch:
            self.last_fetch = step
        else:
            self.last_acknowledge = step

    def _leave_trace(self, step: ShareStep) -> None:
        flow = step.connection.flow.id
        trace = self.here.pop(flow, None)
        if trace is None:
            trace = Trace(step, step)
            if step.connection.host not in self.hosts:
                self.hosts = (*self.hosts, step.connection.host)[-_CONNECTIONS:]
        else:
            trace.before, trace.last = trace.last, step
        self.here[flow] = trace
        if step.is_counted and step.kind is not FINAL:
            trace.count = step.epoch
        trace.openings = (*trace.openings, step)[-LOOP:] if step.opens else ()
        if len(self.here) > _CONNECTIONS:
            del self.here[next(iter(self.here))]
        elsewhere = self.opening is not None and self.opening.connection is not step.connection
        if elsewhere and step.kind is SUBSEQUENT and step.is_counted and flow not in self.crossed:
            self.crossed = (*self.crossed, flow)[-_CONNECTIONS:]

    def recent_troubles(self, step: ShareStep) -> int:
        """Return the number of openings and refusals within a minute, including this one."""
        return 1 + sum(step.time_ns - time_ns < _MINUTE_NS for time_ns in self.troubles)

    def _troubled(self, step: ShareStep) -> None:
        if step.time_ns >= self.quiet_until and self.recent_troubles(step) >= FLAPPING:
            self.quiet_until = step.time_ns + _MINUTE_NS
        self.troubles = (*self.troubles, step.time_ns)[-_TROUBLES:]

    def _opened(self, step: ShareStep, reply: Reply) -> None:
        """Note an epoch 0: the session before it may be over, with any answer."""
        self.initial = step
        if reply in (ACCEPTED, FAILED_LATER, UNCLEAR, UNANSWERED):
            self.ever_opened = True
        if reply in (ACCEPTED, FAILED_LATER, UNCLEAR):
            self.opening, self.alive = step, step
            self.last_fetch, self.last_acknowledge = None, None
            self.crossed = ()
        elif reply is UNANSWERED:
            self.opening, self.states_known = None, never("unanswered")
        elif reply is not REJECTED_EARLY:
            self.alive = None


class Unbroken(Struct, frozen=True):
    """Proof that no request of the session is missing between two packets: its epochs have no gap (KIP-932).

    If the session seems to move to another connection, an unseen third connection may have opened it again and used as
    many epochs.
    """

    because: ClassVar[str | None] = None
    session: SessionState
    since: int
    until: int

    def holds(self) -> bool | None:
        """None until a later counted request is seen."""
        begun, last = self.session.unbroken, self.session.last
        if begun is None or begun.packet > self.since or self.session.moved > self.since:
            return False
        return True if last is not None and last.packet >= self.until else None


class BothUnbroken(Struct, frozen=True):
    """Proof that no request of two sessions is missing; it waits for the session without a later request."""

    because: ClassVar[str | None] = None
    first: Unbroken
    second: Unbroken

    @property
    def session(self) -> SessionState:
        return self.first.session if self.first.holds() is None else self.second.session

    def holds(self) -> bool | None:
        """None until a later request of both is seen."""
        both = self.first.holds(), self.second.holds()
        return False if False in both else None if None in both else True


class WentOn(Struct, frozen=True):
    """Proof that a request belongs to the session.

    Its connection continues the session, and no answer contradicts the possible states.
    """

    because: ClassVar = "hidden_traffic"
    session: SessionState
    step: ShareStep

    def holds(self) -> bool | None:
        """None until a later accepted request on that connection is seen."""
        if self.session.contradicted_at >= self.step.packet:
            return False
        trace = self.session.here.get(self.step.connection.flow.id)
        if trace is not None and trace.last.packet > self.step.end:
            return True
        return False if self.step.connection.over else None
