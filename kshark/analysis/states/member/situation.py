"""What a heartbeat met, and what its answer leaves possible: all that a rule of members may look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import SUBSEQUENT, Partition, Step
from kshark.analysis.facts.heartbeats import ACCEPTED, FENCED, Beat
from kshark.analysis.facts.machine import StepType
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.tables import MEMBER
from kshark.analysis.states.tables.member import ABSENT, MemberState, Relation, proved_alone, relations, states_after

#: Standings that are followed at the same time; with more of them nothing is known.
_STATES: Final = 16


class Acquisition(NamedTuple):
    """The last answer with records of a share partition: the broker that leads it, and the request."""

    leader: Broker
    request: Step


#: Returns the last acquisition from a partition of a group; None where nobody acquired records of it.
AcquisitionsOf = Callable[[Broker | None, str | None, Partition], Acquisition | None]


class MemberSituation:
    """A heartbeat, its answer, and what was known of the member when it came.

    `met` are the states that it may have met, None where anything is possible, because of `doubt`; `agreeing` are those
    that its answer agrees with, `relations` how its epoch stood to them, `after` what is possible behind them."""

    def __init__(
        self,
        member: Member,
        beat: Beat,
        acquisitions: AcquisitionsOf,
    ) -> None:
        self.step, self.member, self._acquisitions = beat, member, acquisitions
        self.gap_ns = 0 if member.last is None else beat.time_ns - member.last.time_ns
        late = member.last is not None and 0 < 2 * member.last.interval_ns < self.gap_ns
        beat.late = late and beat.kind is SUBSEQUENT
        self.met = None if member.states is None else tuple(_with_ends(member.states, expires=late))
        self.doubt = member.doubt if self.met is None else None
        ways = [
            (one, how, after)
            for one in self.met or ()
            for how in relations(beat.epoch, one)
            if (after := states_after(beat, one, how))
        ]
        self.agreeing = tuple(dict.fromkeys(one for one, _, _ in ways))
        self.relations: frozenset[Relation] = frozenset(how for _, how, _ in ways)
        self.after = tuple(dict.fromkeys(state for _, _, after in ways for state in after))

    def last_acquisition(self, partition: Partition) -> Acquisition | None:
        """Return the group's last acquisition from a partition; None where nobody acquired records of it."""
        return self._acquisitions(self.step.connection.broker, self.step.group_id, partition)

    @property
    def step_type(self) -> StepType:
        beat = self.step
        return StepType(MEMBER.name, beat.api_key, beat.kind, beat.reply, beat.reply is ACCEPTED, beat.refused)

    @property
    def knowledge(self) -> MemberSituation:
        """The states by which arguments about the heartbeat are judged."""
        return self

    @property
    def subject(self) -> None:
        """Findings about a member name no share partition, unless their argument does."""

    @property
    def before_here(self) -> Beat | None:
        """The heartbeat before this one, where it came on the same connection."""
        before = self.member.before
        return before if before is not None and before.connection is self.step.connection else None

    @property
    def gone(self) -> str | None:
        """Why there is no such member: `left`, `expired`; None where that is not known."""
        causes = {state.gone for state in self.agreeing if state.epoch == ABSENT}
        return causes.pop() or None if len(causes) == 1 and all(one.epoch == ABSENT for one in self.agreeing) else None

    @property
    def was_down(self) -> bool:
        """Whether the coordinator went down since the last heartbeat that it accepted."""
        last, broker = self.member.last, None if self.member.last is None else self.member.last.connection.broker
        return (
            last is not None and broker is not None and broker.restarted_between(last.packet, self.step.end) is not None
        )

    @property
    def why_unknown(self) -> str:
        """Why an answer that no rule explains cannot be explained."""
        return self.doubt or ("unanswered" if self.agreeing else "hidden_traffic")


def _with_ends(states: tuple[MemberState, ...], *, expires: bool) -> tuple[MemberState, ...]:
    """Late as it is, the member may have been given up; the answer tells."""
    present = any(state.epoch != ABSENT for state in states)
    return (*states, MemberState(ABSENT, None, "expired")) if expires and present else states


def conclude(now: MemberSituation) -> None:
    """The states that are possible now; then the heartbeat belongs to the past."""
    member, beat = now.member, now.step
    proved = proved_alone(beat)
    if beat.any_doubt is not None:
        member.lose_sight(beat.any_doubt)
    elif now.after:
        member.states = now.after
        if len(now.after) > _STATES:
            member.lose_sight("unanswered")
    elif proved is not None:
        member.states = (proved,)
    elif now.met is not None or beat.reply is FENCED:
        member.lose_sight("hidden_traffic")
    member.remember(beat)
