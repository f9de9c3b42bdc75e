"""The table of share-session epochs, held against the broker written a second time."""

from __future__ import annotations

import pytest

from kshark.analysis.facts.calls import LAST_EPOCH, Answer, Reply, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.states.tables.session import (
    ABSENT,
    SessionOutcome,
    due_after,
    outcome_of,
    proved_alone,
    thens,
)
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.model import Ends, Flow
from tests.analysis.reference import ReferenceBroker, Session

FLOW = ConnectionFacts(Flow(0, Ends("10.0.0.1:50000", "10.0.0.9:9092"), 1, 0))


def step(api_key: int, epoch: int, error: int | None) -> ShareStep:
    answer = None if error is None else Answer(11, 1, error, None)
    return ShareStep(FLOW, api_key, "", 1, 10, 0, 1, "c1", "g", "m", epoch, answer=answer)


def states_after(asked: ShareStep, due: int) -> set[int]:
    return {due_after(then, asked, due) for then in thens(asked, due, asked.reply)}


@pytest.mark.parametrize("api_key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
@pytest.mark.parametrize("state", [ABSENT, 1, 5, LAST_EPOCH])
@pytest.mark.parametrize("epoch", [-7, -1, 0, 1, 4, 5, 6, LAST_EPOCH])
def test_the_table_and_the_reference_agree(api_key: int, state: int, epoch: int) -> None:
    broker = ReferenceBroker(session=None if state == ABSENT else Session(state, "a"))
    error = broker.ask("a", fetch=api_key == SHARE_FETCH, epoch=epoch)
    after = ABSENT if broker.session is None else broker.session.due
    asked = step(api_key, epoch, error)
    assert states_after(asked, state) == {after}
    if asked.reply is Reply.ACCEPTED:
        alone = proved_alone(asked, asked.reply)
        assert alone is not None
        assert due_after(alone, asked, 77) == after


def test_an_unanswered_request_was_taken_or_not() -> None:
    silent = step(SHARE_FETCH, 5, None)
    assert states_after(silent, 5) == {5, 6}
    assert states_after(silent, 4) == {4}


def test_an_answer_may_contradict_a_state() -> None:
    refused = step(SHARE_FETCH, 5, 123)
    assert outcome_of(refused, 5) is SessionOutcome.ADVANCE
    assert states_after(refused, 5) == set()
    assert states_after(refused, 6) == {6}
