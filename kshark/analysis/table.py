"""What a broker does with a share-session epoch: the KIP's table, and what is possible after each answer.

Source: KIP-932; Kafka's SharePartitionManager.newContext and acknowledgeSessionUpdate, ShareSessionCache. The same in 4.0 to 4.3,
except where kshark.analysis.releases says otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kshark.analysis.steps import Kind, Reply, Step, next_epoch
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH

#: The state "no session": expected epochs are 1 or more.
ABSENT: Final = 0


class Outcome(Enum):
    """What the broker does with a request."""

    OPEN = "opened"
    REOPEN = "reopened"
    ADVANCE = "advanced"
    CLOSE = "closed"
    NOT_FOUND = "not found"
    WRONG_EPOCH = "wrong epoch"


class Then(Enum):
    """States after it: none, the session as it was, one that expects epoch 1, one that expects the epoch after the request's."""

    GONE = 0
    STAYS = 1
    FIRST = 2
    NEXT = 3


_OPEN, _REOPEN, _ADVANCE, _CLOSE, _NOT_FOUND, _WRONG_EPOCH = Outcome
#: request, epoch                      no session     epoch as expected  another epoch
SESSION_OUTCOME: Final = {
    (SHARE_FETCH, Kind.INITIAL): (_OPEN, _REOPEN, _REOPEN),
    (SHARE_FETCH, Kind.SUBSEQUENT): (_NOT_FOUND, _ADVANCE, _WRONG_EPOCH),
    (SHARE_FETCH, Kind.FINAL): (_NOT_FOUND, _CLOSE, _CLOSE),
    (SHARE_FETCH, Kind.NEGATIVE): (_NOT_FOUND, _WRONG_EPOCH, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, Kind.INITIAL): (_WRONG_EPOCH, _WRONG_EPOCH, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, Kind.SUBSEQUENT): (_NOT_FOUND, _ADVANCE, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, Kind.FINAL): (_NOT_FOUND, _CLOSE, _CLOSE),
    (SHARE_ACKNOWLEDGE, Kind.NEGATIVE): (_NOT_FOUND, _WRONG_EPOCH, _WRONG_EPOCH),
}

_GONE, _STAYS, _FIRST, _NEXT = Then
_OPENED: Final = {
    Reply.TAKEN: (_FIRST,),
    Reply.NO_SESSION: (_GONE,),
    Reply.NO_ROOM: (_GONE,),
    Reply.UNTOUCHED: (_STAYS,),
    Reply.FAILED: (_GONE,),
    Reply.UNCLEAR: (_FIRST, _STAYS, _GONE),
    Reply.SILENT: (_FIRST, _STAYS, _GONE),
}
_UNCHANGED: Final = {Reply.UNTOUCHED: (_STAYS,), Reply.UNCLEAR: (_STAYS,), Reply.SILENT: (_STAYS,)}
#: What may be true after each outcome, by the answer; an answer that is not listed contradicts the outcome.
AFTER: Final[dict[Outcome, dict[Reply, tuple[Then, ...]]]] = {
    _OPEN: _OPENED,
    _REOPEN: _OPENED,
    _ADVANCE: {Reply.TAKEN: (_NEXT,), Reply.UNTOUCHED: (_STAYS,), Reply.UNCLEAR: (_NEXT, _STAYS), Reply.SILENT: (_NEXT, _STAYS)},
    _CLOSE: {Reply.TAKEN: (_GONE,), Reply.UNTOUCHED: (_STAYS,), Reply.UNCLEAR: (_GONE, _STAYS), Reply.SILENT: (_GONE, _STAYS)},
    _NOT_FOUND: {Reply.NO_SESSION: (_STAYS,), **_UNCHANGED},
    _WRONG_EPOCH: {Reply.OTHER_EPOCH: (_STAYS,), **_UNCHANGED},
}
#: What an answer alone proves, whatever was before: request's epoch, answer -> state.
ALONE: Final = {
    (Kind.INITIAL, Reply.TAKEN): _FIRST,
    (Kind.INITIAL, Reply.NO_ROOM): _GONE,
    (Kind.INITIAL, Reply.FAILED): _GONE,
    (Kind.INITIAL, Reply.NO_SESSION): _GONE,
    (Kind.SUBSEQUENT, Reply.TAKEN): _NEXT,
    (Kind.SUBSEQUENT, Reply.NO_SESSION): _GONE,
    (Kind.FINAL, Reply.TAKEN): _GONE,
    (Kind.FINAL, Reply.NO_SESSION): _GONE,
    (Kind.NEGATIVE, Reply.NO_SESSION): _GONE,
}


#: Both tables in one: request, epoch, answer -> what may be true after it with no session, the epoch as expected, another epoch.
_THEN: Final = {
    (api_key, kind, reply): tuple(AFTER[outcome].get(reply, ()) for outcome in outcomes)
    for (api_key, kind), outcomes in SESSION_OUTCOME.items()
    for reply in Reply
}


def outcome_of(step: Step, state: int) -> Outcome:
    """What the broker does with the request in that state: ABSENT, or the epoch it expects."""
    return SESSION_OUTCOME[step.api_key, step.kind][_column(step, state)]


def states_after(step: Step, state: int, reply: Reply) -> frozenset[int]:
    """The states that are possible afterwards; none when the answer contradicts the state."""
    thens = _THEN[step.api_key, step.kind, reply][_column(step, state)]
    return frozenset([_state(then, step, state) for then in thens])


def proved_alone(step: Step, reply: Reply) -> int | None:
    """The state that the exchange proves by itself; None when it proves none."""
    then = ALONE.get((step.kind, reply))
    return None if then is None else _state(then, step, ABSENT)


def _column(step: Step, state: int) -> int:
    return 0 if state == ABSENT else 1 if state == step.epoch else 2


def _state(then: Then, step: Step, state: int) -> int:
    if then is _NEXT:
        return next_epoch(step.epoch)
    if then is _STAYS:
        return state
    return ABSENT if then is _GONE else 1
