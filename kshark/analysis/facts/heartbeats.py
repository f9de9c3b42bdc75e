"""Heartbeats of members of share and consumer groups, each with the coordinator's answer."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from msgspec import UNSET

from kshark.analysis.facts.calls import FINAL, INITIAL, NEGATIVE, SUBSEQUENT, Call, EpochKind, Partition
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.reading import partitions_of, read_as
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT
from kshark.model import Message
from kshark_dissectors.enums import ErrorCode


class HeartbeatReply(Enum):
    """Answers, by their effect on the member. Kafka: GroupCoordinatorService, GroupMetadataManager.

    ELSEWHERE: this broker does not coordinate the group, or not yet.
    """

    ACCEPTED = 0
    FENCED = 110
    UNKNOWN_MEMBER = 25
    NO_GROUP = 69
    INVALID = 42
    FULL = 81
    ELSEWHERE = 16
    UNCLEAR = -1
    UNANSWERED = None

    #: Every heartbeat is looked up in tables by these members.
    __hash__ = object.__hash__


ACCEPTED, FENCED, UNKNOWN_MEMBER, NO_GROUP, INVALID, FULL, ELSEWHERE, UNCLEAR, UNANSWERED = HeartbeatReply

_REPLIES: Final[dict[int | None, HeartbeatReply]] = {reply.value: reply for reply in HeartbeatReply} | {
    14: ELSEWHERE,
    15: ELSEWHERE,
}
#: Answers that a finding must explain.
REFUSALS: Final = frozenset({FENCED, UNKNOWN_MEMBER, NO_GROUP, INVALID, FULL, ELSEWHERE})
#: Answers that remove the member from the group.
OUT: Final = (FENCED, UNKNOWN_MEMBER, NO_GROUP)
_NAMES: Final[dict[int, str]] = {code.value: code.name for code in ErrorCode}
#: Text that brokers from 4.0 on add to FENCED_MEMBER_EPOCH: the sent epoch compared with the broker's.
_FENCED_AS: Final = re.compile(r"has a (greater|smaller) member epoch \(-?\d+\) than the one known")


class Beat(Call, eq=False):
    """A heartbeat.

    `topics`: the subscribed topics; None if the subscription is unchanged.
    `given`: the member epoch in the answer.
    `interval_ns`: the time until the next heartbeat is due.
    `assigned`: the assigned partitions; None if the assignment is unchanged.
    `message`: the error message of the answer.
    """

    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    given: int | None = None
    interval_ns: int = 0
    assigned: frozenset[Partition] | None = None
    message: str = ""
    kind: EpochKind = SUBSEQUENT
    reply: HeartbeatReply = UNANSWERED
    #: It was sent more than twice the interval after the last accepted one.
    late: bool = False

    def __post_init__(self) -> None:
        if self.end:
            return
        Call.__post_init__(self)
        self.kind = SUBSEQUENT if self.epoch > 0 else EpochKind(max(self.epoch, -2))
        error = None if self.answer is None else self.answer.error
        self.reply = _REPLIES.get(error, UNCLEAR)

    @property
    def refused(self) -> bool:
        """True if the broker refused it. A finding must explain the refusal."""
        return self.reply in REFUSALS

    @property
    def leaves(self) -> bool:
        """True if the member asks to leave: for good, or for a while as a static member of a consumer group (-2)."""
        return self.kind is FINAL or (self.kind is NEGATIVE and self.api_key == CONSUMER_GROUP_HEARTBEAT)

    @property
    def fenced_as(self) -> str | None:
        """`greater` or `smaller`: the sent epoch compared with the broker's, from the error message."""
        match = _FENCED_AS.search(self.message)
        return None if match is None else match[1]

    @property
    def story(self) -> str:
        """Return `ShareGroupHeartbeat #17 (member epoch 4) got member epoch 5 (packets 88, 89)`."""
        if self.reply is ACCEPTED and self.leaves:
            return f"{self.here} left the group ({self.packets})"
        asked = "asked to join and" if self.kind is INITIAL else f"(member epoch {self.epoch})"
        return f"{self.here} {asked} {self._outcome} ({self.packets})"

    @property
    def _outcome(self) -> str:
        error = None if self.answer is None else self.answer.error
        if error is None:
            return "was not answered"
        return f"got member epoch {self.given}" if error == 0 else f"was refused with {self.error_name}"

    @property
    def error_name(self) -> str:
        """The name of the error, like `FENCED_MEMBER_EPOCH`."""
        error = None if self.answer is None else self.answer.error
        return "" if error is None else _NAMES.get(error, f"error {error}")


def beat_of(request: Message, response: Message | None, connection: ConnectionFacts) -> Beat | None:
    """Read a heartbeat; None if its group, member or epoch is unreadable."""
    asked = request.body
    epoch = getattr(asked, "member_epoch", UNSET)
    if not isinstance(epoch, int):
        return None
    beat = read_as(Beat, request, response, connection, epoch)
    if beat.doubt != "cut":
        topics = asked.subscribed_topic_names
        beat.rack_id, beat.topics = asked.rack_id, None if topics is None else tuple(topics)
    if response is None or beat.answer is None or beat.answer.error is None or beat.answer.doubt == "cut":
        return beat
    answered = response.body
    beat.given, beat.message = answered.member_epoch, answered.error_message or ""
    beat.interval_ns = answered.heartbeat_interval_ms * 1_000_000
    if answered.assignment is not None:
        beat.assigned = frozenset(partitions_of(answered.assignment.topic_partitions or ()))
    return beat
