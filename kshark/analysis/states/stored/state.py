"""The stored state of a share partition in its share coordinator, as far as requests and answers prove it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.known import ALWAYS, BEGINNING, Known, known_if, never
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.state_steps import INVALID, UNANSWERED, StateStep
from kshark.analysis.states.stored.batches import StoredBatches
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.persister import FITTING, NEWER_LEADER, NEWER_STATE, NOTHING, StoredCondition
from kshark.api_keys import DELETE_SHARE_GROUP_STATE, INITIALIZE_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE

#: The leader epoch of requests that know none; it is compared with nothing.
NO_EPOCH: Final = -1


class Sender(Struct, eq=False):
    """The last steps of a share partition on one connection: answered Read, accepted Initialize, accepted Write."""

    read: StateStep | None = None
    initialize: StateStep | None = None
    write: StateStep | None = None


class StoredState:
    """The stored state of one share partition.

    All fields are certain: epochs and start offset are None if they are unknown, and all `batches` were written.
    `writes`: the fact that all Writes since the state was read or set are in the capture.
    `exists`: None if it is unknown whether a state exists.
    """

    __slots__ = (
        "_senders",
        "batches",
        "begun",
        "complete_count",
        "exists",
        "leader_epoch",
        "leader_epoch_by",
        "read_epoch",
        "refused",
        "reset",
        "start_offset",
        "start_offset_by",
        "state_epoch",
        "state_epoch_by",
        "write",
        "writes",
    )

    def __init__(self) -> None:
        self.exists: bool | None = None
        self.writes: Known = BEGINNING
        self.state_epoch: int | None = None
        self.leader_epoch: int | None = None
        self.start_offset: int | None = None
        self.complete_count: int | None = None
        self.batches: StoredBatches = StoredBatches()
        #: The steps that show the state epoch, the leader epoch and the start offset.
        self.state_epoch_by: StateStep | None = None
        self.leader_epoch_by: StateStep | None = None
        self.start_offset_by: StateStep | None = None
        #: The last accepted Initialize or Delete: the earlier state is gone.
        self.reset: StateStep | None = None
        #: The last accepted Write; a later Write that was refused because there is no state any more.
        self.write: StateStep | None = None
        self.refused: StateStep | None = None
        #: True if an Initialize is the first step in the capture; the highest leader epoch of later Reads.
        self.begun: bool = False
        self.read_epoch: int = NO_EPOCH
        self._senders: OrderedDict[int, Sender] = OrderedDict()

    def held(self, step: StateStep) -> StoredCondition | None:
        """Return the stored state relative to the request; None if it is unknown."""
        if not self.exists:
            return None if self.exists is None else NOTHING
        if (
            self.leader_epoch is not None
            and step.leader_epoch is not None
            and NO_EPOCH != step.leader_epoch < self.leader_epoch
        ):
            return NEWER_LEADER
        if self.state_epoch is not None and step.state_epoch is not None and step.state_epoch < self.state_epoch:
            return NEWER_STATE
        return None if self.state_epoch is None or self.leader_epoch is None else FITTING

    def sender(self, step: StateStep) -> Sender:
        """Return the earlier steps on its connection."""
        return self._senders.get(step.call.connection.flow.id) or Sender()

    def take(self, step: StateStep) -> None:
        """Apply a step and its answer."""
        if step.reply is UNANSWERED or step.call.any_doubt:
            self._may_have_changed(step)
            return
        self._remember(step)
        if step.accepted and step.is_write:
            self._add(step)
        elif step.accepted:
            self._move(step)
        elif (step.is_read or step.is_write) and step.reply is INVALID and step.negative is None:
            self._clear(exists=False)
            self.refused = step if step.is_write else None

    def _may_have_changed(self, step: StateStep) -> None:
        if step.leader_epoch is not None and step.is_read:
            self.read_epoch = max(self.read_epoch, step.leader_epoch)
        self.writes = never("unanswered") if self.writes.is_certain else self.writes

    def _move(self, step: StateStep) -> None:
        """Apply an accepted step other than a Write."""
        api_key = step.call.api_key
        if api_key == INITIALIZE_SHARE_GROUP_STATE:
            self.begun = self.begun or self.writes != BEGINNING or self.exists is None
            self._clear(exists=True)
            self.reset = step
            self._copy(step)
        elif api_key == READ_SHARE_GROUP_STATE and step.given is not None:
            self._replace(step, step.given)
        elif api_key == DELETE_SHARE_GROUP_STATE:
            self._clear(exists=False)
            self.reset = step
        elif step.given is not None and self.exists:
            self._copy(step.given, by=step)

    def _clear(self, *, exists: bool) -> None:
        self.exists, self.writes, self.write, self.refused = exists, ALWAYS, None, None
        self.state_epoch = self.leader_epoch = self.start_offset = self.complete_count = None
        self.state_epoch_by = self.leader_epoch_by = self.start_offset_by = None
        self.batches.clear()

    def _copy(self, numbers: StateStep, *, by: StateStep | None = None) -> None:
        """Copy the numbers of a step."""
        if numbers.state_epoch is not None:
            self.state_epoch, self.state_epoch_by = numbers.state_epoch, by or numbers
        if numbers.leader_epoch is not None:
            self.leader_epoch, self.leader_epoch_by = numbers.leader_epoch, by or numbers
        if numbers.start_offset is not None:
            self.start_offset, self.start_offset_by = numbers.start_offset, by or numbers
        self.complete_count = numbers.complete_count if numbers.complete_count is not None else self.complete_count

    def _replace(self, step: StateStep, given: StateStep) -> None:
        """Replace the state by the answer to a Read, which is complete."""
        write, leader_epoch, by = self.write, self.leader_epoch, self.leader_epoch_by
        self._clear(exists=True)
        self.writes = known_if(write is None or write.call.end <= step.packet, "race")
        self._copy(given, by=step)
        asked = step.leader_epoch if step.leader_epoch is not None else NO_EPOCH
        if leader_epoch is None or asked >= leader_epoch:
            leader_epoch, by = asked, step
        self.leader_epoch, self.leader_epoch_by = leader_epoch, by
        self.read_epoch = max(self.read_epoch, asked)
        self.batches.add(given.batches, step)

    def _add(self, step: StateStep) -> None:
        """Apply an accepted Write."""
        self.exists, self.write = True, step
        sets_epochs = step.coordinator_behaviour("write_sets_epochs")
        if sets_epochs is None and (step.state_epoch != self.state_epoch or step.leader_epoch != self.leader_epoch):
            self.state_epoch = self.leader_epoch = None
        elif sets_epochs:
            self.state_epoch, self.state_epoch_by = step.state_epoch, step
            self.leader_epoch, self.leader_epoch_by = step.leader_epoch, step
        self.complete_count = step.complete_count
        self.batches.add(step.batches, step, step.start_offset)
        start, stored_start = step.start_offset, self.start_offset
        if (
            start is None
            or start < 0
            or (stored_start is not None and start < stored_start and step.coordinator_behaviour("keeps_highest_start"))
        ):
            return
        self.start_offset, self.start_offset_by = start, step

    def _remember(self, step: StateStep) -> None:
        flow = step.call.connection.flow.id
        sender = self._senders.get(flow)
        if sender is None:
            sender = self._senders[flow] = Sender()
            if len(self._senders) > limits.SENDERS_OF_A_STATE:
                self._senders.popitem(last=False)
        else:
            self._senders.move_to_end(flow)
        if step.is_read:
            sender.read = step
        elif step.accepted and step.is_write:
            sender.write = step
        elif step.accepted and step.call.api_key == INITIALIZE_SHARE_GROUP_STATE:
            sender.initialize = step


class StoredSituation(Struct, frozen=True):
    """A step, and the stored state before it."""

    step: StateStep
    stored: StoredState

    @property
    def call(self) -> Call:
        """The exchange of the step."""
        return self.step.call

    @property
    def step_type(self) -> StepType:
        return StepType(PERSISTER.name, self.step.call.api_key)

    @property
    def knowledge(self) -> Known:
        """An argument about stored state is judged without other states."""
        return ALWAYS

    @property
    def subject(self) -> Partition:
        return self.step.partition

    @property
    def own_before(self) -> StateStep | None:
        """The last accepted request of this kind on the same connection, unless the state was replaced since then."""
        step, sender, reset = self.step, self.stored.sender(self.step), self.stored.reset
        before = sender.write if step.is_write else sender.initialize
        if before is None or before.call.api_key != step.call.api_key:
            return None
        read = sender.read if step.is_write and sender.read is not None and sender.read.accepted else None
        since = max(
            (earlier.packet for earlier in (reset, read) if earlier is not None and earlier is not before), default=0
        )
        return before if before.packet >= since else None
