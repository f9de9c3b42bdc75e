"""The situation of a request, or of the end of a connection: all facts that a rule may read."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, Call, Reply, ShareStep, next_epoch
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import ALWAYS, BEGINNING, NOTHING_HIDDEN, Known, known_if, never
from kshark.analysis.facts.machine import StepType
from kshark.analysis.states.session.copies import is_again, may_be_copy
from kshark.analysis.states.session.state import Branch, EndCause, PossibleState, SessionState, Trace
from kshark.analysis.states.tables import SESSION
from kshark.analysis.states.tables.session import ABSENT

#: End causes that are no party's fault.
ORDINARY = ("connection_closed", "broker_restart", "evicted", "session_limit")
#: Number of a member's brokers up to which they are compared with this broker, which may have several addresses.
_BROKERS = 256


class SessionSituation:
    """A request, its answer, and the possible states of the session at that time.

    `met`: the states that it may have met; None: any state.
    `agreeing`: those of `met` that agree with its answer.
    `after`: the possible branches after it.
    `here`: the session's earlier requests on the same connection.
    `overtaker`: the request on another connection that advanced the session while this one waited.
    `rivals`: all requests that were open at the same time on other connections.
    `contested`: it may have been overtaken, or refused at once; the capture does not show which.
    `was_due`: its epoch may have been due before requests on other connections that were sent while it was open.
    """

    def __init__(
        self,
        step: ShareStep,
        session: SessionState,
        reply: Reply,
        met: tuple[PossibleState, ...] | None,
        agreeing: tuple[PossibleState, ...],
        after: tuple[Branch, ...],
        rivals: tuple[ShareStep, ...] = (),
        overtaker: ShareStep | None = None,
        contested: bool = False,
        was_due: bool = False,
    ) -> None:
        self.step, self.session, self.reply = step, session, reply
        self.met, self.agreeing, self.after = met, agreeing, after
        self.rivals, self.overtaker, self.contested, self.was_due = rivals, overtaker, contested, was_due
        self.here: Trace | None = session.here.get(step.connection.flow.id)

    @property
    def call(self) -> Call:
        """The exchange of the step."""
        return self.step

    @property
    def step_type(self) -> StepType:
        step = self.step
        accepted = step.reply is ACCEPTED
        return StepType(
            SESSION.name, step.api_key, step.kind, step.reply, accepted, step.refused, step.refused and self.contested
        )

    @property
    def knowledge(self) -> Known:
        """The states that it has met: they were observed, and the broker's answer agrees with them."""
        return self.session.states_known if self.met is None else known_if(self.agreeing, "hidden_traffic")

    @property
    def subject(self) -> None:
        """None: findings about a session name no share partition, unless their argument does."""

    @property
    def due_epochs(self) -> frozenset[int]:
        """The epochs that may have been due and agree with the answer; ABSENT if there may have been no session."""
        return frozenset(state.due for state in self.agreeing)

    @property
    def due(self) -> str:
        """The epochs due, as text."""
        return " or ".join(str(epoch) for epoch in sorted(self.due_epochs) if epoch != ABSENT)

    @property
    def epoch_witness(self) -> tuple[ShareStep, ...]:
        """The exchange that shows the due epoch, as a witness."""
        return () if self.session.anchor is None else (self.session.anchor,)

    @property
    def explanation(self) -> Known:
        """The explanation of its refusal if no rule has one: never certain."""
        if self.met is None:
            return self.knowledge
        if self.step.any_doubt:
            return never(self.step.any_doubt)
        if self.end_cause is not None and not self.end_cause.known.is_certain:
            return self.end_cause.known
        if self.rivals or self.is_seen_twice:
            return never("race")
        return never("unanswered") if self.agreeing else NOTHING_HIDDEN

    @property
    def refused_first(self) -> Known:
        """The fact that a request that was open at the same time was counted before this one, which was refused."""
        refused_in = {state.due for state in self.met or () if state not in self.agreeing}
        return known_if(len(refused_in) == 1, "race")

    @property
    def openings(self) -> Known:
        """The fact that the capture has all openings of the session since the member joined."""
        step, session, join = self.step, self.session, self.session.member.join
        first = step if self.here is None else self.here.first
        if join is None or join.packet > first.packet or first.epoch > 1:
            return BEGINNING
        brokers = session.member.brokers
        others = (broker for broker in brokers if broker is not session.broker)
        if (
            (step.connection.flow.first_packet > join.packet and not step.connection.is_complete)
            or len(brokers) > _BROKERS
            or any(not session.broker.is_not(other) for other in others)
        ):
            return NOTHING_HIDDEN
        missing = session.broker.missing_between((*session.hosts, step.connection.host), join.packet, step.end)
        return ALWAYS if missing is None else never(missing)

    @property
    def before_here(self) -> ShareStep | None:
        """The request before this one on the same connection."""
        return None if self.here is None else self.here.last

    @property
    def continues(self) -> bool:
        """True if the epoch continues from the last one counted on its connection, or from a refused one that did so.

        After an unseen opening it would not continue. Only its own connection counts: what a request on another one
        would show must not turn on whether the capture holds it.
        """
        step, session, before = self.step, self.session, self.before_here
        if step.kind is not SUBSEQUENT or step.epoch == 1:
            return False
        if session.unbroken is not None and self.here is not None and step.epoch == next_epoch(self.here.count):
            return True
        return before is not None and before is session.refused_in_sequence and continues_from(step.epoch, before.epoch)

    @cached_property
    def end_cause(self) -> EndCause | None:
        """The cause of the end of the session that the broker did not find.

        Of several possible causes it is one that accuses no party and is certain, the earliest of them. If the last
        answered opening found no room, an unanswered one more likely found no room either than opened a session that
        ended since.
        """
        causes = [state.ended for state in self.agreeing if state.due == ABSENT and state.ended is not None]
        if not causes or len(causes) < len(self.agreeing):
            return None
        ordinary = [cause for cause in causes if cause.cause in ORDINARY]
        if not ordinary and len({cause.cause for cause in causes}) > 1:
            return None
        return min(
            ordinary or causes,
            key=lambda cause: (not cause.known.is_certain, cause.cause != "session_limit", cause.packet),
        )

    @property
    def is_seen_twice(self) -> bool:
        """True if another connection carried the same request at the same time, and it was refused as well."""
        return any(is_again(other, self.step) and other.reply is self.reply for other in self.session.overlapping)

    def is_shifted(self, other: ShareStep) -> bool:
        """True if a slow clock explains that another request was open on another connection.

        Then one request is a copy of the one before the other. Two clients may open sessions in the same way, but
        hardly at the same time after the beginning of their connections.
        """
        before = self.before_here
        if before is not None and is_again(before, other):
            return True
        there = self.session.here.get(other.connection.flow.id)
        if there is None:
            return False
        before, is_copy = (
            there.before if there.last is other else there.last,
            may_be_copy if self.step.opens else is_again,
        )
        return before is not None and is_copy(before, self.step)

    def all_agree(self, relation: str) -> bool:
        """True if the epoch has this relation to every epoch that may be due: `replay`, `stale` or `ahead`.

        It must also have had this relation when it was sent.
        """
        due = self.due_epochs
        if self.was_due or self.is_seen_twice or not due or self._may_have_come_first:
            return False
        return all(relation_to(self.step.epoch, epoch, self.session.last) == relation for epoch in due)

    @property
    def _may_have_come_first(self) -> bool:
        """True if, by the disorder of times, the step may have been sent before the last counted request was answered.

        A request with the same epoch that was open at the same time on another connection may have taken its turn.
        """
        last, clock = self.session.last, self.step.connection.clock
        if not clock.disorder_ns or last is None:
            return False
        if any(other.epoch == self.step.epoch for other in self.rivals):
            return True
        return last.connection is not self.step.connection and not clock.is_before(last.end_ns, self.step.time_ns)


class SessionEnd(NamedTuple):
    """The end of a connection that a session used."""

    session: SessionState
    connection: ConnectionFacts
    end: End

    @property
    def call(self) -> Call | None:
        """The last request of the session on the connection, if one is remembered."""
        trace = self.session.here.get(self.connection.flow.id)
        return self.session.last if trace is None else trace.last

    @property
    def step_type(self) -> StepType:
        return StepType(type(self).__name__)

    @property
    def knowledge(self) -> Known:
        """An argument about an end is judged without other states."""
        return ALWAYS

    @property
    def subject(self) -> None:
        """None: the end of a connection belongs to no share partition."""


def relation_to(epoch: int, due: int, last: ShareStep | None) -> str:
    """Return the relation of an epoch of 1 or more to the one due.

    `due`, `replay` (the one before), `stale`, `ahead`, or `none` without a session.
    """
    if due == ABSENT:
        return "none"
    if epoch == due:
        return "due"
    if next_epoch(epoch) == due and (epoch < due or (last is not None and last.epoch == epoch)):
        return "replay"
    return "stale" if epoch < due else "ahead"


def continues_from(epoch: int, before: int) -> bool:
    """True if an epoch continues from an earlier one: the same epoch, or the next."""
    return epoch == before or epoch == next_epoch(before)


def received_by(step: ShareStep, session: SessionState, because: str | None) -> Known:
    """Return the packets in which the capture has all traffic of the member with the broker: since its join, or none.

    No byte of its connections is missing, and the session's epochs have no gap since its opening: requests on an unseen
    connection would have used some of them.
    """
    join, unbroken = session.member.join, session.unbroken
    if join is None or unbroken is None or not unbroken.opens or session.last_unread > join.packet:
        return Known(step.end + 1, because=because)
    hosts = session.hosts if step.connection.host in session.hosts else (*session.hosts, step.connection.host)
    missing = session.broker.missing_between(hosts, join.packet, step.end)
    return Known(join.packet if missing is None else step.end + 1, because=because)
