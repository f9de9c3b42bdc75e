"""The member machines: the coordinator's answer to a heartbeat and its effect, by the state of the member.

Source: KIP-932 and KIP-848; Kafka's GroupMetadataManager, throwIfShareGroupMemberEpochIsInvalid and
throwIfConsumerGroupMemberEpochIsInvalid. It is the same in 4.0 to 4.4, except that before 4.2 a member that is still in
the group may not join again (KAFKA-19233). Members of share and consumer groups differ in two cells: a consumer that
sends the epoch before is accepted only if it owns nothing that it lost since, and a static member (KIP-345) leaves
for a while with epoch -2.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from msgspec.structs import replace

from kshark.analysis.facts.calls import FINAL, INITIAL, NEGATIVE, SUBSEQUENT
from kshark.analysis.facts.heartbeats import (
    ACCEPTED,
    ELSEWHERE,
    FENCED,
    FULL,
    INVALID,
    NO_GROUP,
    UNANSWERED,
    UNCLEAR,
    UNKNOWN_MEMBER,
    Beat,
    HeartbeatReply,
)
from kshark.analysis.facts.machine import Machine
from kshark.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SHARE_GROUP_HEARTBEAT,
    SYNC_GROUP,
)


class MemberState(NamedTuple):
    """A possible state of a member in the coordinator: its epoch and the previous one; None if they are unknown.

    Epoch ABSENT: there is no such member. Then `gone` is the reason: `left`, `expired`, or empty if it was not seen. An
    unknown epoch is higher than the previous one.
    """

    epoch: int | None
    previous: int | None = None
    gone: str = ""


#: The epoch of a member that is not in the group; those of members are 1 or more.
ABSENT: Final = 0


class Relation(Enum):
    """The relation of a heartbeat's epoch to the state in the coordinator."""

    NO_MEMBER = 0
    ITS_OWN = 1
    PREVIOUS = 2
    GREATER = 3
    SMALLER = 4


class MemberOutcome(Enum):
    """The coordinator's action for a heartbeat."""

    JOIN = "joined"
    STAY = "stayed"
    REVIEW = "stayed or fenced"
    LEAVE = "left"
    UNKNOWN = "unknown"
    FENCE = "fenced"
    REJECT = "rejected"


NO_MEMBER, ITS_OWN, PREVIOUS, GREATER, SMALLER = Relation
_JOIN, _STAY, _REVIEW, _LEAVE, _UNKNOWN, _FENCE, _REJECT = MemberOutcome
#: epoch         no such member  its own  the one before  a higher one  a lower one
MEMBER_OUTCOME: Final = {
    INITIAL: (_JOIN, _JOIN, _JOIN, _JOIN, _JOIN),
    SUBSEQUENT: (_UNKNOWN, _STAY, _STAY, _FENCE, _FENCE),
    FINAL: (_UNKNOWN, _LEAVE, _LEAVE, _LEAVE, _LEAVE),
    NEGATIVE: (_REJECT, _REJECT, _REJECT, _REJECT, _REJECT),
}
CONSUMER_OUTCOME: Final = {
    **MEMBER_OUTCOME,
    SUBSEQUENT: (_UNKNOWN, _STAY, _REVIEW, _FENCE, _FENCE),
    NEGATIVE: (_UNKNOWN, _LEAVE, _LEAVE, _LEAVE, _LEAVE),
}
#: The table of each API.
OUTCOMES: Final = {SHARE_GROUP_HEARTBEAT: MEMBER_OUTCOME, CONSUMER_GROUP_HEARTBEAT: CONSUMER_OUTCOME}


class MemberEffect(Enum):
    """The member after a heartbeat: unchanged; gone; new with the answer's epoch; with that epoch after its own."""

    STAYS = 0
    GONE = 1
    NEW = 2
    NEXT = 3


_STAYS, _GONE, _NEW, _NEXT = MemberEffect
_UNCHANGED: Final = {INVALID: (_STAYS,), ELSEWHERE: (_STAYS,)}
_STAYED: Final[dict[HeartbeatReply, tuple[MemberEffect, ...]]] = {
    ACCEPTED: (_NEXT,),
    UNCLEAR: (_NEXT, _STAYS),
    UNANSWERED: (_NEXT, _STAYS),
    **_UNCHANGED,
}
#: Possible states after each outcome, by the answer; an answer that is not listed contradicts the outcome.
AFTER: Final[dict[MemberOutcome, dict[HeartbeatReply, tuple[MemberEffect, ...]]]] = {
    _JOIN: {
        ACCEPTED: (_NEW,),
        FENCED: (_STAYS,),
        FULL: (_GONE,),
        NO_GROUP: (_GONE,),
        UNCLEAR: (_NEW, _STAYS),
        UNANSWERED: (_NEW, _STAYS),
        **_UNCHANGED,
    },
    _STAY: _STAYED,
    _REVIEW: {**_STAYED, FENCED: (_STAYS,)},
    _LEAVE: {ACCEPTED: (_GONE,), UNCLEAR: (_GONE, _STAYS), UNANSWERED: (_GONE, _STAYS), **_UNCHANGED},
    _UNKNOWN: dict.fromkeys((UNKNOWN_MEMBER, NO_GROUP, INVALID, ELSEWHERE, UNCLEAR, UNANSWERED), (_STAYS,)),
    _FENCE: {FENCED: (_STAYS,), UNCLEAR: (_STAYS,), UNANSWERED: (_STAYS,), **_UNCHANGED},
    _REJECT: {reply: (_STAYS,) for reply in HeartbeatReply if reply is not ACCEPTED},
}
#: The state that an answer alone proves, with any state before.
ALONE: Final = {
    (INITIAL, ACCEPTED): _NEW,
    (INITIAL, FULL): _GONE,
    (INITIAL, NO_GROUP): _GONE,
    (SUBSEQUENT, ACCEPTED): _NEW,
    (SUBSEQUENT, UNKNOWN_MEMBER): _GONE,
    (SUBSEQUENT, NO_GROUP): _GONE,
    (FINAL, ACCEPTED): _GONE,
    (FINAL, UNKNOWN_MEMBER): _GONE,
    (FINAL, NO_GROUP): _GONE,
}
#: Words of brokers about an epoch that they fence, and the relations that they mean.
_FENCED_RELATIONS: Final = {"greater": (GREATER,), "smaller": (PREVIOUS, SMALLER), None: tuple(Relation)}


def relations(epoch: int, state: MemberState) -> tuple[Relation, ...]:
    """Return the possible relations of an epoch to a state."""
    current, previous, _ = state
    if current == ABSENT:
        return (NO_MEMBER,)
    if current is not None and epoch >= current:
        return (ITS_OWN,) if epoch == current else (GREATER,)
    if previous is not None and epoch <= previous:
        return (PREVIOUS,) if epoch == previous else (SMALLER,)
    if current is not None:
        return (PREVIOUS, SMALLER) if previous is None else (SMALLER,)
    return (ITS_OWN, GREATER, SMALLER) if previous is not None else (ITS_OWN, PREVIOUS, GREATER, SMALLER)


def outcome_of(beat: Beat, relation: Relation) -> MemberOutcome:
    """Return the coordinator's action."""
    return OUTCOMES[beat.api_key][beat.kind][relation.value]


def states_after(beat: Beat, state: MemberState, relation: Relation) -> tuple[MemberState, ...]:
    """Return the possible states after a heartbeat; none if the answer contradicts the state."""
    if beat.reply is FENCED and relation not in _FENCED_RELATIONS[beat.fenced_as]:
        return ()
    thens = AFTER[outcome_of(beat, relation)].get(beat.reply, ())
    states = (_after(then, beat, state, relation) for then in thens)
    return tuple(after for after in states if after is not None)


def proved_alone(beat: Beat) -> MemberState | None:
    """Return the state that the exchange alone proves, or None."""
    then = ALONE.get((beat.kind, beat.reply))
    return None if then is None else _after(then, beat, MemberState(None), ITS_OWN)


def _after(then: MemberEffect, beat: Beat, state: MemberState, relation: Relation) -> MemberState | None:
    if then is _STAYS:
        return state
    if then is _GONE:
        return MemberState(ABSENT, None, "left" if beat.kind is FINAL else state.gone)
    given = beat.given if beat.reply is ACCEPTED else None
    if then is _NEW:
        return MemberState(given)
    current = beat.epoch if relation is ITS_OWN else state.epoch
    if given is not None and current is not None and given <= current:
        return MemberState(current, state.previous) if given == current else None
    return MemberState(given, current)


MEMBER: Final = Machine(
    "member",
    key=("group_id", "member_id"),
    apis=frozenset({SHARE_GROUP_HEARTBEAT}),
    states=("no member", "in the group, with its epoch and the one before"),
    about="a member of a share group (KIP-932)",
)
CONSUMER: Final = replace(
    MEMBER,
    name="consumer",
    apis=frozenset({CONSUMER_GROUP_HEARTBEAT}),
    about="a member of a consumer group (KIP-848)",
)
#: Members by the generation (classic groups) or member epoch (consumer groups) that they use.
GENERATION: Final = Machine(
    "generation",
    key=("group_id",),
    apis=frozenset({OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT}),
    states=("its newest generation or member epoch", "the member that holds an instance id"),
    about="the generations, member epochs and instance ids that members of classic and consumer groups use",
)
#: The machine of each API.
MACHINE_OF: Final = {api: machine for machine in (MEMBER, CONSUMER) for api in machine.apis}
