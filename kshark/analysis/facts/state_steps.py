"""State steps: what brokers ask a share coordinator of a share partition, one partition of a request each, with its
answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct

from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.reading import call_of
from kshark.analysis.facts.releases import all_say
from kshark.api_keys import READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE
from kshark.model import Message
from kshark_dissectors.enums import ErrorCode

_NAMES: Final[dict[int, str]] = {code: code.name for code in ErrorCode}
#: Numbers of a request, and of a Read's answer, that a step's story tells.
_TOLD: Final = ("state_epoch", "leader_epoch", "start_offset")


class Reply(StrEnum):
    """Answers by what they say about the stored state. Kafka: ShareCoordinatorShard, ShareCoordinatorService.

    INVALID: a number below zero, or nothing was ever stored (both are INVALID_REQUEST). ELSEWHERE: another broker
    coordinates it."""

    TAKEN = "was accepted"
    INVALID = "was refused with INVALID_REQUEST"
    FENCED_STATE = "was refused with FENCED_STATE_EPOCH"
    FENCED_LEADER = "was refused with FENCED_LEADER_EPOCH"
    ELSEWHERE = "was refused with NOT_COORDINATOR"
    FAILED = "failed"
    UNANSWERED = "was not answered"

    __hash__ = str.__hash__


TAKEN, INVALID, FENCED_STATE, FENCED_LEADER, ELSEWHERE, FAILED, UNANSWERED = Reply
_REPLIES: Final = {None: UNANSWERED, 0: TAKEN, 42: INVALID, 124: FENCED_STATE, 74: FENCED_LEADER, 16: ELSEWHERE}


class StateBatch(NamedTuple):
    """Offsets, both ends included, with the state in which their records are and how often they were delivered."""

    first: int
    last: int
    state: int
    delivery_count: int


class StateStep(Struct, eq=False):
    """What a request says of one share partition; numbers that it does not have are None.

    `given` is what the answer to a Read or a Summary tells, in the same shape and without an answer of its own.
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
    # of its call and its error
    packet: int = 0
    is_read: bool = False
    is_write: bool = False
    reply: Reply = UNANSWERED
    taken: bool = False

    def __post_init__(self) -> None:
        call, error = self.call, self.error
        self.packet = call.packet
        self.is_read, self.is_write = call.api_key == READ_SHARE_GROUP_STATE, call.api_key == WRITE_SHARE_GROUP_STATE
        self.reply, self.taken = _REPLIES.get(error, FAILED), error == 0

    @property
    def connection(self) -> Connection:
        return self.call.connection

    def coordinator_says(self, question: str) -> bool | None:
        """What its coordinator's release does, by the name of a Behaviour's field; None where that is not known."""
        broker = self.connection.broker
        return None if broker is None else all_say(broker.releases, question)

    def is_same_leader(self, other: StateStep) -> bool:
        """Whether both are of one leadership, and came from one sender."""
        return self.connection is other.connection and self.leader_epoch == other.leader_epoch

    @property
    def negative(self) -> str | None:
        """The number in it that is below all that a broker takes: epochs may be -1, which stands for none."""
        if self.partition[1] < 0:
            return "partition"
        if self.state_epoch is not None and self.state_epoch < -1:
            return "state epoch"
        return "leader epoch" if self.leader_epoch is not None and self.leader_epoch < -1 else None

    @property
    def numbers(self) -> str:
        """`state epoch 2, leader epoch 0 and start offset 100`."""
        told = [f"{name.replace('_', ' ')} {value}" for name in _TOLD if (value := getattr(self, name)) is not None]
        return " and ".join(part for part in (", ".join(told[:-1]), *told[-1:]) if part)

    @property
    def story(self) -> str:
        """`exchange 17 (WriteShareGroupState) with state epoch 2, leader epoch 0 and start offset 100 was accepted
        (packets 88, 89)`."""
        asked = f"{self.call.here} with {self.numbers}" if self.numbers else self.call.here
        came = f"failed with {_NAMES.get(self.error or 0, self.error)}" if self.reply is FAILED else self.reply.value
        if self.given is not None:
            came = f"was answered with {self.given.numbers}"
        return f"{asked} {came} ({self.call.packets})"

    def story_after(self, before: StateStep) -> str:
        """Both stories, and where this one happened."""
        where = "the same connection" if self.connection is before.connection else self.connection.client
        return f"{before.story}; {self.story} on {where}"

    def lighten(self) -> None:
        """Lets go of what only the step's own turn asks for."""
        self.batches = ()
        if self.given is not None:
            self.given.batches = ()


def state_steps(request: Message, response: Message | None, connection: Connection) -> list[StateStep]:
    """The share partitions of a request 83 to 87, in its order; none where it was cut, no answer where that was."""
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
            if step.taken and getattr(answer, "state_epoch", UNSET) is not UNSET:
                step.given = _read(call, partition, answer, None)
            steps.append(step)
    return steps


def _read(call: Call, partition: Partition, told: Any, error: int | None) -> StateStep:
    """Not all bodies have all of it, and of those that have some versions do not."""
    state_epoch, leader_epoch = getattr(told, "state_epoch", None), getattr(told, "leader_epoch", None)
    start_offset, complete_count = getattr(told, "start_offset", None), getattr(told, "delivery_complete_count", None)
    return StateStep(
        call,
        partition,
        error,
        None if state_epoch is UNSET else state_epoch,
        None if leader_epoch is UNSET else leader_epoch,
        None if start_offset is UNSET else start_offset,
        None if complete_count is UNSET else complete_count,
        [*map(_state_batch, map(_in_batch, batches))] if (batches := getattr(told, "state_batches", None)) else (),
    )


#: What a body says of a batch of offsets.
_in_batch: Final = attrgetter("first_offset", "last_offset", "delivery_state", "delivery_count")
#: A NamedTuple made in C; see offset_ranges.
_state_batch: Final[Callable[[tuple[int, int, int, int]], StateBatch]] = partial(tuple.__new__, StateBatch)
