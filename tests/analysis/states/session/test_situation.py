"""What a request met: how its epoch stands to the one due, and what took a session that is not there."""

from __future__ import annotations

import pytest

from kshark.analysis.facts.calls import LAST_EPOCH
from kshark.analysis.facts.known import ALWAYS, BEGINNING, NOTHING_HIDDEN, never
from kshark.analysis.states.session.situation import SessionSituation, continues_from, relation_to
from kshark.analysis.states.session.state import EndCause, PossibleState
from kshark.analysis.states.tables.session import ABSENT
from tests.analysis.plain import session, step


@pytest.mark.parametrize(
    ("epoch", "due", "last", "relation"),
    [
        (5, ABSENT, 4, "none"),
        (5, 5, 4, "due"),
        (4, 5, 4, "replay"),
        (4, 5, None, "replay"),
        (3, 5, 4, "stale"),
        (6, 5, 4, "ahead"),
        (1, 1, LAST_EPOCH, "due"),
        (LAST_EPOCH, 1, LAST_EPOCH, "replay"),
        (LAST_EPOCH, 1, 0, "ahead"),
        (LAST_EPOCH, 1, None, "ahead"),
        (2, 1, LAST_EPOCH, "ahead"),
        (1, LAST_EPOCH, LAST_EPOCH - 1, "stale"),
    ],
)
def test_how_an_epoch_stands_to_the_one_due(epoch: int, due: int, last: int | None, relation: str) -> None:
    assert relation_to(epoch, due, None if last is None else step(last)) == relation


@pytest.mark.parametrize(
    ("epoch", "before", "goes_on"),
    [
        (4, 4, True),
        (5, 4, True),
        (3, 4, False),
        (6, 4, False),
        (1, LAST_EPOCH, True),
        (LAST_EPOCH, 1, False),
        (LAST_EPOCH, LAST_EPOCH, True),
    ],
)
def test_an_epoch_goes_on_from_the_same_or_the_one_before(epoch: int, before: int, goes_on: bool) -> None:
    assert continues_from(epoch, before) is goes_on


def situation(
    *agreeing: PossibleState,
    met: tuple[PossibleState, ...] | None = (),
    epoch: int = 4,
    rivals: int = 0,
    doubt: str | None = None,
) -> SessionSituation:
    """Of a request that met states which its answer agrees with."""
    asked = step(epoch, error=122, doubt=doubt)
    return SessionSituation(asked, session(1), asked.reply, met, agreeing, (), tuple(step(9) for _ in range(rivals)))


def gone(cause: str, because: str | None = None) -> PossibleState:
    return PossibleState(
        ABSENT, None, EndCause(cause, 5, 5, cause, known=ALWAYS if because is None else never(because))
    )


def test_the_epochs_due_in_words() -> None:
    now = situation(PossibleState(7), PossibleState(ABSENT), PossibleState(6))
    assert now.due_epochs == {ABSENT, 6, 7}
    assert now.due == "6 or 7"


@pytest.mark.parametrize(
    ("states", "cause"),
    [
        ((), None),
        ((PossibleState(4),), None),
        ((gone("final_epoch"),), "final_epoch"),
        ((gone("final_epoch"), PossibleState(4)), None),
        ((gone("final_epoch"), PossibleState(ABSENT)), None),
        ((gone("final_epoch"), gone("failed_reopen")), None),
        ((gone("final_epoch"), gone("final_epoch")), "final_epoch"),
        ((gone("final_epoch"), gone("evicted")), "evicted"),
        ((gone("connection_closed"), gone("evicted")), "connection_closed"),
        ((gone("connection_closed", "release_unknown"), gone("evicted")), "evicted"),
        ((gone("connection_closed", "release_unknown"), gone("evicted", "gap")), "connection_closed"),
        ((gone("final_epoch", "unanswered"), gone("final_epoch")), "final_epoch"),
    ],
)
def test_what_took_the_session(states: tuple[PossibleState, ...], cause: str | None) -> None:
    found = situation(*states).end_cause
    assert (found and found.cause) == cause


def test_a_certain_cause_comes_before_one_in_doubt() -> None:
    found = situation(gone("final_epoch", "unanswered"), gone("final_epoch")).end_cause
    assert found is not None
    assert found.known.is_certain


def test_all_epochs_due_have_to_agree() -> None:
    assert situation(PossibleState(6), PossibleState(7)).all_agree("stale")
    assert not situation(PossibleState(5), PossibleState(6)).all_agree("stale")
    assert not situation().all_agree("stale")


def test_why_an_answer_cannot_be_explained() -> None:
    anything = situation(met=None)
    assert (anything.knowledge, anything.explanation) == (BEGINNING, BEGINNING)
    assert situation().knowledge == NOTHING_HIDDEN
    assert situation(PossibleState(4), doubt="cut").explanation.because == "cut"
    assert situation(gone("final_epoch", "release_unknown"), rivals=1).explanation.because == "release_unknown"
    assert situation(gone("final_epoch"), rivals=1).explanation.because == "race"
    assert situation(rivals=1).explanation.because == "race"
    assert situation(PossibleState(4)).explanation.because == "unanswered"
    assert situation().explanation.because == "hidden_traffic"


def test_what_made_the_epoch_known() -> None:
    now = situation()
    assert (now.epoch_witness, now.before_here) == ((), None)
    now.session.anchor = step(3)
    assert now.epoch_witness == (now.session.anchor,)
