"""What a request, or the end of a connection, met: all that a rule may look at."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, Reply, Step, next_epoch
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.machine import StepType
from kshark.analysis.states.session.copies import is_again, may_be_copy
from kshark.analysis.states.session.state import Branch, EndCause, SessionState, State, Trace
from kshark.analysis.states.tables import SESSION
from kshark.analysis.states.tables.session import ABSENT

#: End causes that are nobody's fault.
ORDINARY = ("connection_closed", "broker_restart", "evicted", "session_limit")


class Situation:
    """A request, its answer, and what was known when it came.

    `met` are the states that it may have met, None where anything is possible, because of `doubt`; `agreeing` are those
    that its answer agrees with, `after` what is possible behind them. `here` is what the session did before on the same
    connection. `overtaker` is the request on another connection that moved the session on while this one waited,
    `rivals` are all that were open at the same time on other connections; `contested`: as far as the capture tells the
    request may have been overtaken, or refused at once; `was_due`: its epoch was, or may have been, but for requests
    that were sent on other connections while it was open."""

    def __init__(
        self,
        step: Step,
        session: SessionState,
        reply: Reply,
        met: tuple[State, ...] | None,
        agreeing: tuple[State, ...],
        after: tuple[Branch, ...],
        rivals: tuple[Step, ...] = (),
        overtaker: Step | None = None,
        contested: bool = False,
        was_due: bool = False,
    ) -> None:
        self.step, self.session, self.reply = step, session, reply
        self.met, self.agreeing, self.after = met, agreeing, after
        self.rivals, self.overtaker, self.contested, self.was_due = rivals, overtaker, contested, was_due
        self.doubt = session.doubt if met is None else None
        self.here: Trace | None = session.here.get(step.connection.flow.id)

    @property
    def step_type(self) -> StepType:
        step = self.step
        accepted = step.reply is ACCEPTED
        return StepType(
            SESSION.name, step.api_key, step.kind, step.reply, accepted, step.refused, step.refused and self.contested
        )

    @property
    def knowledge(self) -> Situation:
        """The states by which arguments about the request are judged."""
        return self

    @property
    def subject(self) -> None:
        """Findings about a session name no share partition, unless their argument does."""

    @property
    def due_epochs(self) -> frozenset[int]:
        """The epochs that may have been due, as far as the answer agrees; ABSENT among them where there may have been
        no session."""
        return frozenset(state.due for state in self.agreeing)

    @property
    def due(self) -> str:
        """The epochs due, in words."""
        return " or ".join(str(epoch) for epoch in sorted(self.due_epochs) if epoch != ABSENT)

    @property
    def known(self) -> tuple[Step, ...]:
        """The exchange that made the due epoch known, as a witness."""
        return () if self.session.anchor is None else (self.session.anchor,)

    @property
    def why_unknown(self) -> str:
        """Why an answer that no rule explains cannot be explained."""
        if self.doubt or self.step.any_doubt:
            return self.doubt or self.step.any_doubt or ""
        if self.end_cause is not None and self.end_cause.because:
            return self.end_cause.because
        return "race" if self.rivals else "unanswered" if self.agreeing else "hidden_traffic"

    @property
    def before_here(self) -> Step | None:
        """The request before this one on the same connection."""
        return None if self.here is None else self.here.last

    @property
    def goes_on(self) -> bool:
        """Whether the epoch goes on, on one connection, from what the session counted last, or from a refused one that
        did; after an opening that the capture does not hold it would not."""
        step, session, before = self.step, self.session, self.before_here
        if step.kind is not SUBSEQUENT or step.epoch == 1:
            return False
        is_here = session.last is not None and session.last.connection is step.connection
        is_here = is_here or (before is not None and before.is_counted and before.epoch == session.count)
        if is_here and session.unbroken is not None and step.epoch == next_epoch(session.count):
            return True
        return before is not None and before is session.refused_in_sequence and continues_from(step.epoch, before.epoch)

    @cached_property
    def end_cause(self) -> EndCause | None:
        """What took the session that the broker did not find: where several are possible, one that accuses nobody, and
        is certain.

        Where the last opening that was answered found no room, one without an answer more likely found none either than
        died since."""
        causes = [state.ended for state in self.agreeing if state.due == ABSENT and state.ended is not None]
        if not causes or len(causes) < len(self.agreeing):
            return None
        ordinary = [cause for cause in causes if cause.cause in ORDINARY]
        if not ordinary and len({cause.cause for cause in causes}) > 1:
            return None
        return min(ordinary or causes, key=lambda cause: (cause.because is not None, cause.cause != "session_limit"))

    @property
    def is_seen_twice(self) -> bool:
        """Whether another connection carried the same request at the same time, and it was refused as well."""
        return any(is_again(other, self.step) and other.reply is self.reply for other in self.session.overlapping)

    def is_shifted(self, other: Step) -> bool:
        """Whether a clock that is behind explains that another request was open on another connection: one is a copy of
        that before the other. Two clients may open sessions alike, but hardly at the same time behind the beginning of
        their connections."""
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
        """Whether the epoch stands so to every epoch that may be due, and was so when it was sent: `replay`, `stale` or
        `ahead`."""
        due = self.due_epochs
        if self.was_due or self.is_seen_twice or not due:
            return False
        return all(relation_to(self.step.epoch, one, self.session.last) == relation for one in due)


class SessionEnd(NamedTuple):
    """What the end of a connection met that the session used."""

    session: SessionState
    connection: Connection
    end: End

    @property
    def step_type(self) -> StepType:
        return StepType(type(self).__name__)

    @property
    def knowledge(self) -> None:
        """An argument about an end is judged by itself."""

    @property
    def subject(self) -> None:
        """The end of a connection is no share partition's."""


def relation_to(epoch: int, due: int, last: Step | None) -> str:
    """How an epoch of 1 or more stands to the one due: `due`, `replay` (the one before), `stale`, `ahead`, or `none`
    without a session."""
    if due == ABSENT:
        return "none"
    if epoch == due:
        return "due"
    if next_epoch(epoch) == due and (epoch < due or (last is not None and last.epoch == epoch)):
        return "replay"
    return "stale" if epoch < due else "ahead"


def continues_from(epoch: int, before: int) -> bool:
    """Whether an epoch goes on from an earlier one: the same again, or the next."""
    return epoch == before or epoch == next_epoch(before)


def seen_since(step: Step, session: SessionState) -> int | None:
    """The packet of the member's join, where the capture holds all that it has done with the broker since; None where
    it may not.

    No byte of its connections is missing, and the session's epochs leave none out since its opening: a whole connection
    that the capture lacks would have taken some of them."""
    join, unbroken = session.member.join, session.unbroken
    if join is None or unbroken is None or not unbroken.opens or session.last_unread > join.packet:
        return None
    hosts = session.hosts if step.connection.host in session.hosts else (*session.hosts, step.connection.host)
    return join.packet if session.broker.missing_between(hosts, join.packet, step.end) is None else None
