"""The generations and member epochs that members were given and use, and who uses an instance id."""

from __future__ import annotations

from msgspec import Struct

from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.generations import FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, Use
from kshark.analysis.facts.known import ALWAYS, NOTHING_HIDDEN, Known
from kshark.analysis.facts.machine import StepType
from kshark.analysis.states.tables.member import GENERATION
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP


class Numbered(Struct, eq=False):
    """A member: the answer that gave it its newest number, its first request with that, its last request that kept its
    session, and the one that left. `informed`: the first answer since its last JoinGroup by which it knows of a
    rebalance."""

    newest: Use | None = None
    adopted: Use | None = None
    last: Use | None = None
    left: Use | None = None
    informed: Use | None = None
    session_ns: int = 0
    rebalance_ns: int = 0

    def remember(self, use: Use) -> None:
        if self.newest is not None:
            if self.newest.connection is use.connection:
                self.newest.note_received(use)
            if self.adopted is None and use.epoch == self.newest.given and use.packet > self.newest.end:
                self.adopted = use
        self.session_ns = use.session_ns or self.session_ns
        self.rebalance_ns = use.rebalance_ns or self.rebalance_ns
        if use.api_key == JOIN_GROUP:
            self.informed = None
        elif use.error == REBALANCE_IN_PROGRESS:
            self.informed = self.informed or use
            self.last = use if use.api_key == HEARTBEAT else self.last
        if use.error != 0:
            return
        if use.api_key == LEAVE_GROUP or (use.api_key == CONSUMER_GROUP_HEARTBEAT and use.epoch < 0):
            self.left, self.newest, self.adopted = use, None, None
            return
        self.last = use
        if use.given is not None and use.given >= 0 and (self.newest is None or use.given != self.newest.given):
            self.newest, self.adopted, self.left = use, None, None


class Instance(Struct, eq=False):
    """An instance id: the last two joins of different members with it, and the last refusal as fenced."""

    holder: Use | None = None
    before: Use | None = None
    fenced: Use | None = None

    def remember(self, use: Use) -> None:
        if use.error == FENCED_INSTANCE_ID:
            self.fenced = use
        elif use.error == 0 and use.given is not None and use.given >= 0:
            if self.holder is not None and self.holder.member_id != use.member_id:
                self.before = self.holder
            self.holder = use


class Using(Struct, eq=False):
    """A situation: a request of a member, the member, and the instance id before it.

    `moved`: the last answer that gave another member of the group a newer generation. `passed`: the first one that gave
    a newer generation than the request has.
    """

    step: Use
    member: Numbered
    instance: Instance | None
    moved: Use | None
    passed: Use | None

    @property
    def call(self) -> Call:
        return self.step

    @property
    def step_type(self) -> StepType:
        step = self.step
        return StepType(GENERATION.name, step.api_key, accepted=step.error == 0, refused=step.refused)

    @property
    def knowledge(self) -> Known:
        """Each argument is judged by its own exchanges."""
        return ALWAYS

    @property
    def explanation(self) -> Known:
        """The explanation of its refusal if no rule has one: never certain."""
        return NOTHING_HIDDEN

    @property
    def subject(self) -> None:
        """None: a finding about a member names no share partition."""
