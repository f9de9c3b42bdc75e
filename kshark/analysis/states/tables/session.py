"""The session machine: the broker's answer to a share-session epoch (the KIP's table), and its effect.

Source: KIP-932; Kafka's SharePartitionManager.newContext and acknowledgeSessionUpdate, ShareSessionCache. It is the
same in 4.0 to 4.4, except where kshark.analysis.facts.releases differs.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kshark.analysis.facts.calls import EpochKind, Reply, ShareStep, next_epoch
from kshark.analysis.facts.machine import Machine
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH

#: The state "no session": expected epochs are 1 or more.
ABSENT: Final = 0


class SessionOutcome(Enum):
    """The broker's action for a request."""

    OPEN = "opened"
    REOPEN = "reopened"
    ADVANCE = "advanced"
    CLOSE = "closed"
    NOT_FOUND = "not found"
    WRONG_EPOCH = "wrong epoch"


class SessionEffect(Enum):
    """The session after a request: none; unchanged; expects epoch 1; expects the epoch after the request's."""

    GONE = 0
    STAYS = 1
    FIRST = 2
    NEXT = 3


_OPEN, _REOPEN, _ADVANCE, _CLOSE, _NOT_FOUND, _WRONG_EPOCH = SessionOutcome
#: request, epoch                      no session     epoch as expected  another epoch
SESSION_OUTCOME: Final = {
    (SHARE_FETCH, EpochKind.INITIAL): (_OPEN, _REOPEN, _REOPEN),
    (SHARE_FETCH, EpochKind.SUBSEQUENT): (_NOT_FOUND, _ADVANCE, _WRONG_EPOCH),
    (SHARE_FETCH, EpochKind.FINAL): (_NOT_FOUND, _CLOSE, _CLOSE),
    (SHARE_FETCH, EpochKind.NEGATIVE): (_NOT_FOUND, _WRONG_EPOCH, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, EpochKind.INITIAL): (_WRONG_EPOCH, _WRONG_EPOCH, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, EpochKind.SUBSEQUENT): (_NOT_FOUND, _ADVANCE, _WRONG_EPOCH),
    (SHARE_ACKNOWLEDGE, EpochKind.FINAL): (_NOT_FOUND, _CLOSE, _CLOSE),
    (SHARE_ACKNOWLEDGE, EpochKind.NEGATIVE): (_NOT_FOUND, _WRONG_EPOCH, _WRONG_EPOCH),
}

_GONE, _STAYS, _FIRST, _NEXT = SessionEffect
_OPENED: Final = {
    Reply.ACCEPTED: (_FIRST,),
    Reply.FAILED_LATER: (_FIRST,),
    Reply.SESSION_NOT_FOUND: (_GONE,),
    Reply.LIMIT_REACHED: (_GONE,),
    Reply.REJECTED_EARLY: (_STAYS,),
    Reply.FAILED_REOPEN: (_GONE,),
    Reply.UNCLEAR: (_FIRST, _STAYS, _GONE),
    Reply.UNANSWERED: (_FIRST, _STAYS, _GONE),
}
_UNCHANGED: Final = {Reply.REJECTED_EARLY: (_STAYS,), Reply.UNCLEAR: (_STAYS,), Reply.UNANSWERED: (_STAYS,)}
#: Possible states after each outcome, by the answer; an answer that is not listed contradicts the outcome.
AFTER: Final[dict[SessionOutcome, dict[Reply, tuple[SessionEffect, ...]]]] = {
    _OPEN: _OPENED,
    _REOPEN: _OPENED,
    _ADVANCE: {
        Reply.ACCEPTED: (_NEXT,),
        Reply.FAILED_LATER: (_NEXT,),
        Reply.REJECTED_EARLY: (_STAYS,),
        Reply.UNCLEAR: (_NEXT, _STAYS),
        Reply.UNANSWERED: (_NEXT, _STAYS),
    },
    _CLOSE: {
        Reply.ACCEPTED: (_GONE,),
        Reply.REJECTED_EARLY: (_STAYS,),
        Reply.UNCLEAR: (_GONE, _STAYS),
        Reply.UNANSWERED: (_GONE, _STAYS),
    },
    _NOT_FOUND: {Reply.SESSION_NOT_FOUND: (_STAYS,), **_UNCHANGED},
    _WRONG_EPOCH: {Reply.INVALID_EPOCH: (_STAYS,), **_UNCHANGED},
}
#: The state that an answer alone proves, with any state before: request's epoch, answer -> state.
ALONE: Final = {
    (EpochKind.INITIAL, Reply.ACCEPTED): _FIRST,
    (EpochKind.INITIAL, Reply.FAILED_LATER): _FIRST,
    (EpochKind.INITIAL, Reply.LIMIT_REACHED): _GONE,
    (EpochKind.INITIAL, Reply.FAILED_REOPEN): _GONE,
    (EpochKind.INITIAL, Reply.SESSION_NOT_FOUND): _GONE,
    (EpochKind.SUBSEQUENT, Reply.ACCEPTED): _NEXT,
    (EpochKind.SUBSEQUENT, Reply.FAILED_LATER): _NEXT,
    (EpochKind.SUBSEQUENT, Reply.SESSION_NOT_FOUND): _GONE,
    (EpochKind.FINAL, Reply.ACCEPTED): _GONE,
    (EpochKind.FINAL, Reply.SESSION_NOT_FOUND): _GONE,
    (EpochKind.NEGATIVE, Reply.SESSION_NOT_FOUND): _GONE,
}


#: Both tables in one: request, epoch, answer -> possible states after it with no session, the epoch as expected,
#: another epoch.
_THEN: Final = {
    (api_key, kind, reply): tuple(AFTER[outcome].get(reply, ()) for outcome in outcomes)
    for (api_key, kind), outcomes in SESSION_OUTCOME.items()
    for reply in Reply
}


def outcome_of(step: ShareStep, due: int) -> SessionOutcome:
    """Return the broker's action in that state: ABSENT, or the epoch it expects."""
    return SESSION_OUTCOME[step.api_key, step.kind][_column(step, due)]


def thens(step: ShareStep, due: int, reply: Reply) -> tuple[SessionEffect, ...]:
    """Return the possible effects of a step in that state; none if the answer contradicts the state."""
    return _THEN[step.api_key, step.kind, reply][_column(step, due)]


def proved_alone(step: ShareStep, reply: Reply) -> SessionEffect | None:
    """Return the state that the exchange alone proves, or None."""
    return ALONE.get((step.kind, reply))


def due_after(then: SessionEffect, step: ShareStep, due: int) -> int:
    """Return the epoch that is due afterwards."""
    if then is _NEXT:
        return next_epoch(step.epoch)
    if then is _STAYS:
        return due
    return ABSENT if then is _GONE else 1


def _column(step: ShareStep, due: int) -> int:
    return 0 if due == ABSENT else 1 if due == step.epoch else 2


SESSION: Final = Machine(
    "session",
    key=("broker", "group_id", "member_id"),
    apis=frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE}),
    states=("no session", "open, with the epoch that is due"),
    about="a share session of a member with a broker (KIP-932)",
)
