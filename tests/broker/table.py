"""What the product says that a broker does with a share-session epoch, as the model below asks for it: the one place
that knows its tables.

Real brokers are asked whether the tables are right: what the model foretells stands on them.
"""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.calls import LAST_EPOCH, EpochKind, Reply, next_epoch, reply_of
from kshark.analysis.facts.releases import BEHAVIOUR, Release
from kshark.analysis.states.tables.session import ABSENT, AFTER, SESSION_OUTCOME, SessionEffect, SessionOutcome

#: The answer that goes with each outcome when nothing else is wrong.
ERROR_OF: Final = {
    SessionOutcome.OPEN: 0,
    SessionOutcome.REOPEN: 0,
    SessionOutcome.ADVANCE: 0,
    SessionOutcome.CLOSE: 0,
    SessionOutcome.NOT_FOUND: 122,
    SessionOutcome.WRONG_EPOCH: 123,
}


#: A place in the product's table: API, kind of epoch, state of the session.
Cell = tuple[int, str, str]
STATES: Final = ("no session", "as expected", "another epoch")


def cell_of(api_key: int, epoch: int, due: int) -> Cell:
    """Where the table is looked up when the session expects that epoch (ABSENT: there is none)."""
    column = 0 if due == ABSENT else 1 if due == epoch else 2
    return api_key, _kind(epoch).name, STATES[column]


def cells() -> frozenset[Cell]:
    """Every place in the table that can be met: epochs 0 and below are never due."""
    return frozenset(
        (api_key, kind.name, state)
        for api_key, kind in SESSION_OUTCOME
        for state in STATES
        if kind is EpochKind.SUBSEQUENT or state != STATES[1]
    )


def outcome_of(api_key: int, epoch: int, due: int) -> SessionOutcome:
    """What becomes of a request when the session expects that epoch (ABSENT: there is none)."""
    _, _, state = cell_of(api_key, epoch, due)
    return SESSION_OUTCOME[api_key, _kind(epoch)][STATES.index(state)]


def _kind(epoch: int) -> EpochKind:
    return EpochKind.SUBSEQUENT if epoch > 0 else EpochKind(max(epoch, -2))


def due_after(outcome: SessionOutcome, error: int, epoch: int, due: int, *, failed: bool = False) -> frozenset[int]:
    """The epochs that may be due after that answer; `failed`: an opening that tripped over a partition listed twice."""
    states = {
        SessionEffect.GONE: ABSENT,
        SessionEffect.STAYS: due,
        SessionEffect.FIRST: 1,
        SessionEffect.NEXT: next_epoch(epoch),
    }
    return frozenset(states[then] for then in AFTER[outcome][Reply.FAILED_REOPEN if failed else reply_of(error)])


def dies_with_older_connection(line: str) -> bool:
    """Whether the end of a connection takes a session that was opened anew on another one (KAFKA-19950). `line`: 4.1,
    4.2 ..."""
    behaviour = BEHAVIOUR[Release.V4_1 if line == "4.1" else Release.V4_2]
    assert behaviour.dies_with_connection
    return behaviour.dies_with_older_connection


__all__ = [
    "ABSENT",
    "ERROR_OF",
    "LAST_EPOCH",
    "Cell",
    "SessionOutcome",
    "cell_of",
    "cells",
    "dies_with_older_connection",
    "due_after",
    "next_epoch",
    "outcome_of",
]
