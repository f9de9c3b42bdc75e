"""Heartbeats of members of share groups: what each asks of the group coordinator, with the answer as an attribute."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from msgspec import UNSET

from kshark.analysis.facts.calls import FINAL, INITIAL, SUBSEQUENT, Call, Kind, Partition
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.reading import partitions_of, read_as
from kshark.model import Message
from kshark_dissectors.enums import ErrorCode


class HeartbeatReply(Enum):
    """Answers by what they say of the member. Kafka: GroupCoordinatorService, GroupMetadataManager.

    ELSEWHERE: this broker does not, or not yet, coordinate the group.
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

    #: Tables are asked for members with every heartbeat.
    __hash__ = object.__hash__


ACCEPTED, FENCED, UNKNOWN_MEMBER, NO_GROUP, INVALID, FULL, ELSEWHERE, UNCLEAR, UNANSWERED = HeartbeatReply

_REPLIES: Final[dict[int | None, HeartbeatReply]] = {reply.value: reply for reply in HeartbeatReply} | {
    14: ELSEWHERE,
    15: ELSEWHERE,
}
#: Answers of which one finding has to say why they came.
REFUSALS: Final = frozenset({FENCED, UNKNOWN_MEMBER, NO_GROUP, INVALID, FULL, ELSEWHERE})
#: Answers by which a member learns that the group goes on without it.
OUT: Final = (FENCED, UNKNOWN_MEMBER, NO_GROUP)
_NAMES: Final[dict[int, str]] = {code.value: code.name for code in ErrorCode}
#: What brokers from 4.0 on write beside FENCED_MEMBER_EPOCH: how the epoch stands to the one they know.
_FENCED_AS: Final = re.compile(r"has a (greater|smaller) member epoch \(-?\d+\) than the one known")


class Beat(Call, eq=False):
    """A heartbeat.

    `topics`: those that the member subscribes to, None where it leaves them as they were. `given`: the member epoch
    that the answer gives;
    `interval_ns`: how long after this heartbeat the next one is due; `assigned`: None where the answer leaves the
    assignment as it was.
    `message` is the answer's text for people.
    """

    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    given: int | None = None
    interval_ns: int = 0
    assigned: frozenset[Partition] | None = None
    message: str = ""
    kind: Kind = SUBSEQUENT
    reply: HeartbeatReply = UNANSWERED
    #: It came later than twice the interval behind the last one that was accepted.
    late: bool = False

    def __post_init__(self) -> None:
        if self.end:
            return
        Call.__post_init__(self)
        self.kind = SUBSEQUENT if self.epoch > 0 else Kind(max(self.epoch, -2))
        error = None if self.answer is None else self.answer.error
        self.reply = _REPLIES.get(error, UNCLEAR)

    @property
    def refused(self) -> bool:
        """One finding has to explain it."""
        return self.reply in REFUSALS

    @property
    def fenced_as(self) -> str | None:
        """`greater` or `smaller`: how the broker says that the epoch stands to the one it knows."""
        found = _FENCED_AS.search(self.message)
        return None if found is None else found[1]

    @property
    def story(self) -> str:
        """`exchange 17 (ShareGroupHeartbeat) used member epoch 4 and was given 5 (packets 88, 89)`."""
        if self.reply is ACCEPTED and self.kind is FINAL:
            return f"{self.here} left the group ({self.packets})"
        asked = "asked to join" if self.kind is INITIAL else f"used member epoch {self.epoch}"
        return f"{self.here} {asked} and {self._outcome} ({self.packets})"

    @property
    def _outcome(self) -> str:
        error = None if self.answer is None else self.answer.error
        if error is None:
            return "was not answered"
        return f"was given {self.given}" if error == 0 else f"was refused with {self.error_name}"

    @property
    def error_name(self) -> str:
        """`FENCED_MEMBER_EPOCH`."""
        error = None if self.answer is None else self.answer.error
        return "" if error is None else _NAMES.get(error, f"error {error}")


def beat_of(request: Message, response: Message | None, connection: Connection) -> Beat | None:
    """A heartbeat; None where its group, member or epoch could not be read."""
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
    said = response.body
    beat.given, beat.message = said.member_epoch, said.error_message or ""
    beat.interval_ns = said.heartbeat_interval_ms * 1_000_000
    if said.assignment is not None:
        beat.assigned = frozenset(partitions_of(said.assignment.topic_partitions or ()))
    return beat
