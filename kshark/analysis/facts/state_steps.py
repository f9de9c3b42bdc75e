"""State steps: one partition of a request to a share coordinator, with its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct

from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.reading import call_of
from kshark.analysis.facts.releases import agreed
from kshark.api_keys import READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE
from kshark.model import Message
from kshark_dissectors.enums import ErrorCode

_NAMES: Final[dict[int, str]] = {code: code.name for code in ErrorCode}
#: Fields of a request, and of a Read's answer, that a step's story contains.
_STORY_FIELDS: Final = ("state_epoch", "leader_epoch", "start_offset")


class StateReply(StrEnum):
    """Answers, by their effect on the stored state. Kafka: ShareCoordinatorShard, ShareCoordinatorService.

    INVALID: a number below zero, or no state was ever stored (both are INVALID_REQUEST).
    ELSEWHERE: another broker coordinates the partition.
    """

    ACCEPTED = "was accepted"
    INVALID = "was refused with INVALID_REQUEST"
    FENCED_STATE = "was refused with FENCED_STATE_EPOCH"
    FENCED_LEADER = "was refused with FENCED_LEADER_EPOCH"
    ELSEWHERE = "was refused with NOT_COORDINATOR"
    FAILED = "failed"
    UNANSWERED = "was not answered"

    __hash__ = str.__hash__


ACCEPTED, INVALID, FENCED_STATE, FENCED_LEADER, ELSEWHERE, FAILED, UNANSWERED = StateReply
_REPLIES: Final = {None: UNANSWERED, 0: ACCEPTED, 42: INVALID, 124: FENCED_STATE, 74: FENCED_LEADER, 16: ELSEWHERE}


class StateBatch(NamedTuple):
    """Offsets, both ends included, with the state and delivery count of their records."""

    first: int
    last: int
    state: int
    delivery_count: int


class StateStep(Struct, eq=False):
    """One share partition of a request; fields that the request does not have are None.

    `given`: the state in the answer to a Read or a Summary, in the same shape and without an answer of its own.
    """

    call: Call
    partition: Partition
    error: int | None = None
    state_epoch: int | None = None
    leader_epoch: int | None = None
    start_offset: int | None = None
    complete_count: int | None = None
    batches: Sequence[StateBatch] = ()
    given: StateStep | None = None
    # from the call and the error
    packet: int = 0
    is_read: bool = False
    is_write: bool = False
    reply: StateReply = UNANSWERED
    accepted: bool = False

    def __post_init__(self) -> None:
        call, error = self.call, self.error
        self.packet = call.packet
        self.is_read, self.is_write = call.api_key == READ_SHARE_GROUP_STATE, call.api_key == WRITE_SHARE_GROUP_STATE
        self.reply, self.accepted = _REPLIES.get(error, FAILED), error == 0

    @property
    def connection(self) -> ConnectionFacts:
        return self.call.connection

    def coordinator_behaviour(self, question: str) -> bool | None:
        """Return the coordinator's value of a Behaviour field, or None if it is unknown."""
        broker = self.connection.broker
        return None if broker is None else agreed(broker.releases, question)

    def is_same_leader(self, other: StateStep) -> bool:
        """True if both steps have the same leader epoch and the same sender."""
        return self.connection is other.connection and self.leader_epoch == other.leader_epoch

    @property
    def negative(self) -> str | None:
        """The name of a number below the lowest one that a broker accepts. An epoch may be -1, which means "none"."""
        if self.partition[1] < 0:
            return "partition"
        if self.state_epoch is not None and self.state_epoch < -1:
            return "state epoch"
        return "leader epoch" if self.leader_epoch is not None and self.leader_epoch < -1 else None

    @property
    def numbers(self) -> str:
        """Return `state epoch 2, leader epoch 0 and start offset 100`."""
        parts = [
            f"{name.replace('_', ' ')} {value}" for name in _STORY_FIELDS if (value := getattr(self, name)) is not None
        ]
        return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)

    @property
    def story(self) -> str:
        """Return the step as text.

        Example: `WriteShareGroupState #17 with state epoch 2, leader epoch 0 and start offset 100 was
        accepted (packets 88, 89)`.
        """
        asked = f"{self.call.here} with {self.numbers}" if self.numbers else self.call.here
        came = f"failed with {_NAMES.get(self.error or 0, self.error)}" if self.reply is FAILED else self.reply.value
        if self.given is not None:
            came = f"was answered with {self.given.numbers}"
        return f"{asked} {came} ({self.call.packets})"

    def story_after(self, before: StateStep) -> str:
        """Return both stories, with the connection of this one."""
        where = "the same connection" if self.connection is before.connection else self.connection.name
        return f"{before.story}; {self.story} on {where}"

    def lighten(self) -> None:
        """Drop the fields that only the judgement of this step needs."""
        self.batches = ()
        if self.given is not None:
            self.given.batches = ()


def state_steps(request: Message, response: Message | None, connection: ConnectionFacts) -> list[StateStep]:
    """Read the share partitions of a request 83 to 87 in its order.

    A cut request has no steps. With a cut answer the steps have no answer.
    """
    call = call_of(request, response, connection)
    if call.doubt == "cut":
        return []
    steps = []
    answers: dict[Partition, Any] = {}
    if response is not None and call.any_doubt != "cut":
        for topic in getattr(response.body, "results", None) or ():
            for answer in topic.partitions or ():
                answers[topic.topic_id, answer.partition] = answer
    for topic in getattr(request.body, "topics", None) or ():
        for asked in topic.partitions or ():
            partition = topic.topic_id, asked.partition
            answer = answers.get(partition)
            step = _read(call, partition, asked, None if answer is None else answer.error_code)
            if step.accepted and getattr(answer, "state_epoch", UNSET) is not UNSET:
                step.given = _read(call, partition, answer, None)
            steps.append(step)
    return steps


def _read(call: Call, partition: Partition, body: Any, error: int | None) -> StateStep:
    """Read a partition's fields. Some bodies or versions lack some of them."""
    state_epoch, leader_epoch = getattr(body, "state_epoch", None), getattr(body, "leader_epoch", None)
    start_offset, complete_count = getattr(body, "start_offset", None), getattr(body, "delivery_complete_count", None)
    return StateStep(
        call,
        partition,
        error,
        None if state_epoch is UNSET else state_epoch,
        None if leader_epoch is UNSET else leader_epoch,
        None if start_offset is UNSET else start_offset,
        None if complete_count is UNSET else complete_count,
        [*map(_state_batch, map(_in_batch, batches))] if (batches := getattr(body, "state_batches", None)) else (),
    )


#: The fields of a batch of offsets in a body.
_in_batch: Final = attrgetter("first_offset", "last_offset", "delivery_state", "delivery_count")
#: Creates the NamedTuple in C; see offset_ranges.
_state_batch: Final[Callable[[tuple[int, int, int, int]], StateBatch]] = partial(tuple.__new__, StateBatch)
