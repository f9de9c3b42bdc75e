"""The situation of a heartbeat: the possible states before and after it, and all facts that member rules may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import SUBSEQUENT, Call, Partition, ShareStep
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, Beat
from kshark.analysis.facts.known import ALWAYS, NOTHING_HIDDEN, Known, known_if, never
from kshark.analysis.facts.machine import StepType
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.tables.member import (
    ABSENT,
    MACHINE_OF,
    PREVIOUS,
    SMALLER,
    MemberState,
    Relation,
    proved_alone,
    relations,
    states_after,
)

#: Possible states that are followed at the same time; with more of them the state counts as unknown.
_STATES: Final = 16


class Acquisition(NamedTuple):
    """The last answer with records of a share partition: the partition's leader, and the request."""

    leader: Broker
    request: ShareStep


#: Returns the last acquisition from a partition of a group; None if no member acquired its records.
AcquisitionsOf = Callable[[Broker | None, str | None, Partition], Acquisition | None]


class MemberSituation:
    """A heartbeat, its answer, and the possible states of the member at that time.

    `met`: the states that it may have met; None: any state.
    `agreeing`: those of `met` that agree with its answer.
    `relations`: the relation of its epoch to these states.
    `after`: the possible states after it.
    """

    def __init__(
        self,
        member: Member,
        beat: Beat,
        acquisitions: AcquisitionsOf,
    ) -> None:
        self.step, self.member, self._acquisitions = beat, member, acquisitions
        #: The member sends no heartbeat while another is open (Kafka: AbstractHeartbeatRequestManager), so its silence
        #: begins with the answer.
        self.gap_ns = 0 if member.last is None else beat.time_ns - member.last.end_ns
        late = member.last is not None and 0 < 2 * member.last.interval_ns < self.gap_ns
        beat.late = late and beat.kind is SUBSEQUENT
        self.met = None if member.states is None else tuple(_with_ends(member.states, expires=late))
        ways = [
            (state, relation, after)
            for state in self.met or ()
            for relation in relations(beat.epoch, state)
            if (after := states_after(beat, state, relation))
        ]
        self.agreeing = tuple(dict.fromkeys(state for state, _, _ in ways))
        self.relations: frozenset[Relation] = frozenset(relation for _, relation, _ in ways)
        self.after = tuple(dict.fromkeys(state for _, _, after in ways for state in after))

    def last_acquisition(self, partition: Partition) -> Acquisition | None:
        """Return the group's last acquisition from a partition; None if no member acquired its records."""
        return self._acquisitions(self.step.connection.broker, self.step.group_id, partition)

    @property
    def call(self) -> Call:
        """The exchange of the step."""
        return self.step

    @property
    def step_type(self) -> StepType:
        beat = self.step
        machine = MACHINE_OF[beat.api_key]
        return StepType(machine.name, beat.api_key, beat.kind, beat.reply, beat.reply is ACCEPTED, beat.refused)

    @property
    def knowledge(self) -> Known:
        """The states that it has met: they were observed, and the coordinator's answer agrees with them."""
        return self.member.states_known if self.met is None else known_if(self.agreeing, "hidden_traffic")

    @property
    def subject(self) -> None:
        """None: a finding about a member names no share partition, unless its argument does."""

    @property
    def is_outdated(self) -> bool:
        """True if its epoch is certainly older than the member's."""
        return bool(self.relations) and self.relations <= {PREVIOUS, SMALLER}

    @property
    def before_here(self) -> Beat | None:
        """The heartbeat before this one, if it was sent on the same connection."""
        before = self.member.before
        return before if before is not None and before.connection is self.step.connection else None

    @property
    def gone(self) -> str | None:
        """Why the coordinator does not have the member: `left`, `expired`; None if this is unknown."""
        causes = {state.gone for state in self.agreeing if state.epoch == ABSENT}
        return (
            causes.pop() or None if len(causes) == 1 and all(state.epoch == ABSENT for state in self.agreeing) else None
        )

    @property
    def was_down(self) -> bool:
        """True if the coordinator went down after the last heartbeat that it accepted."""
        last, broker = self.member.last, None if self.member.last is None else self.member.last.connection.broker
        return (
            last is not None and broker is not None and broker.restarted_between(last.packet, self.step.end) is not None
        )

    @property
    def observed(self) -> Known:
        """The states that it has met, as the capture shows them: its answer may contradict them."""
        return ALWAYS if self.met is not None else self.member.states_known

    @property
    def explanation(self) -> Known:
        """The explanation of its refusal if no rule has one: never certain."""
        return never("unanswered") if self.agreeing else NOTHING_HIDDEN


def _with_ends(states: tuple[MemberState, ...], *, expires: bool) -> tuple[MemberState, ...]:
    """Add the expired member to the possible states if the heartbeat is late. The answer shows which one is right."""
    present = any(state.epoch != ABSENT for state in states)
    return (*states, MemberState(ABSENT, None, "expired")) if expires and present else states


def conclude(situation: MemberSituation) -> None:
    """Compute the states that are possible after the heartbeat, and add it to the member's past."""
    member, beat = situation.member, situation.step
    proved = proved_alone(beat)
    if beat.any_doubt is not None:
        member.lose_sight(beat.any_doubt)
    elif situation.after:
        member.states = situation.after
        if len(situation.after) > _STATES:
            member.lose_sight("unanswered")
    elif proved is not None:
        member.states = (proved,)
    elif situation.met is not None or beat.reply is FENCED:
        member.lose_sight("hidden_traffic")
    member.remember(beat)
