"""What the one finding of a refusal may say, by what the broker's side of the conversation knows.

Source: the catalogue's order of causes (KIP-932's session table; one finding explains a refusal). Refused requests that
raced, or whose session the model had lost, have every cause that is possible and cannot be proved."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tests.broker.state import OLD_CONNECTION_CLOSED, RACED, REOPENING, SHARE_FETCH, Request, Turn
from tests.broker.table import SessionOutcome

NO_SESSION: Final = 122

RULES: Final = {
    "negative": 22,
    "ack_epoch_zero": 23,
    "overtaken": 34,
    "concurrent_requests": 33,
    "two_writers": 32,
    "reopened_elsewhere": 32,
    "skip_after_error": 37,
    "two_counters": 42,
    "replay": 18,
    "stale": 19,
    "skip_ahead": 20,
    "skip_after_timeout": 20,
    "final_epoch": 26,
    "failed_reopen": 45,
    "old_connection_closed": 28,
    "connection_closed": 25,
    "broker_restart": 25,
    "session_limit": 25,
    "never_opened": 25,
}
AHEAD: Final = ("skip_after_timeout", "skip_ahead")
ELSEWHERE: Final = ("reopened_elsewhere", "two_writers")
#: Reasons for having no session that no packet shows: an opening may be missing, or the broker confused two connections
#: in a race.
UNSEEN: Final = ("never_opened", RACED)
CROSSED: Final = ("concurrent_requests", "overtaken")


@dataclass(frozen=True)
class Causes:
    """What may be said of a refusal, what is likeliest, whether the packets can prove it."""

    every: frozenset[str]
    first: frozenset[str]
    provable: bool

    @property
    def rules(self) -> list[int]:
        return sorted({RULES[cause] for cause in self.every if cause in RULES})


def causes_of(
    request: Request,
    error: int,
    turns: Sequence[Turn],
    overtakers: Collection[Request],
    untouched: Collection[int],
    *,
    raced: bool,
) -> Causes:
    """The causes of a 122 or 123.

    `untouched`: requests (their n) that were refused before they reached the session; `raced`: others were outstanding
    elsewhere."""
    told = [_of_turn(request, error, turn, overtakers, untouched) for turn in turns]
    if not told:
        return Causes(frozenset({"unknown"}), frozenset({"unknown"}), False)
    every = frozenset().union(*(causes for causes, _ in told))
    first = frozenset().union(*(first for _, first in told))
    certain = not raced and len(set(told)) == 1
    hidden = error == NO_SESSION and any(turn.gone in UNSEEN for turn in turns)
    return Causes(every if certain else every | set(CROSSED), first, certain and not hidden and "unknown" not in every)


Told = tuple[frozenset[str], frozenset[str]]


def _of_turn(
    request: Request, error: int, turn: Turn, overtakers: Collection[Request], untouched: Collection[int]
) -> Told:
    if request.epoch < -1:
        return _alone("negative")
    if error == NO_SESSION:
        gone = {"model_lost": "unknown", REOPENING: "unknown", RACED: OLD_CONNECTION_CLOSED}.get(turn.gone, turn.gone)
        also = {"connection_closed"} if gone == "broker_restart" else set()
        return frozenset({gone, *also}), frozenset({gone})
    if request.epoch == 0 and request.api_key != SHARE_FETCH:
        return _alone("ack_epoch_zero")
    if turn.outcome is not SessionOutcome.WRONG_EPOCH:
        elsewhere = any(by.port != request.port for by in overtakers)
        return frozenset({*CROSSED, *(("reopened_elsewhere",) if elsewhere else ())}), frozenset(CROSSED)
    if turn.lost or turn.before is None or turn.last is None:
        return _alone("unknown")
    return _of_count(request, turn, untouched)


def _of_count(request: Request, turn: Turn, untouched: Collection[int]) -> Told:
    """An epoch that was not due."""
    assert turn.before is not None
    assert turn.last is not None
    due = turn.before.due
    base = frozenset(AHEAD) if request.epoch > due else frozenset({"replay" if request.epoch == due - 1 else "stale"})
    first = base
    causes = set(base)
    own = dict(turn.before.last_epochs).get(request.api_key)
    if turn.last.port != request.port:
        causes |= set(ELSEWHERE)
    if own is not None and turn.last.api_key != request.api_key and request.epoch == own + 1:
        causes.add("two_counters")
        first = frozenset({"two_counters"})
    if turn.last.port != request.port and turn.overtook:
        first = frozenset(ELSEWHERE)
    before = turn.previous
    if before is not None and before.n in untouched and request.epoch == before.epoch + 1 and request.epoch > due:
        causes.add("skip_after_error")
        first = frozenset({"skip_after_error"})
    return frozenset(causes), first


def _alone(cause: str) -> Told:
    return frozenset({cause}), frozenset({cause})
