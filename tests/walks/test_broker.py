"""The broker written a second time and the product's table: two accounts of the KIP, which agree on every request in
every state."""

from __future__ import annotations

import pytest

from tests.broker.table import ABSENT, ERROR_OF, dies_with_older_connection, due_after, outcome_of
from tests.walks.broker import HIGHEST, Broker, Request

KEY = ("g", "a")


def brought_to(due: int, release: str = "4.2") -> Broker:
    """A broker whose session, opened on connection 1, expects that epoch (ABSENT: there is none)."""
    broker = Broker(release)
    if due != ABSENT:
        broker.take(KEY, Request(1, fetch=True, epoch=0))
        broker.sessions[KEY].due = due
    return broker


@pytest.mark.parametrize("fetch", [True, False])
@pytest.mark.parametrize("due", [ABSENT, 1, 5, HIGHEST])
@pytest.mark.parametrize("epoch", [-7, -1, 0, 1, 4, 5, 6, HIGHEST])
def test_both_answer_the_same_and_expect_the_same_afterwards(fetch: bool, due: int, epoch: int) -> None:
    broker = brought_to(due)
    answer = broker.take(KEY, Request(1, fetch, epoch))
    outcome = outcome_of(78 if fetch else 79, epoch, due)
    assert answer.error == ERROR_OF[outcome]
    session = broker.sessions.get(KEY)
    assert {ABSENT if session is None else session.due} == due_after(outcome, answer.error, epoch, due)


def test_an_opening_that_lists_a_partition_twice_takes_the_old_session_away() -> None:
    broker = brought_to(5)
    answer = broker.take(KEY, Request(1, fetch=True, epoch=0, twice=True))
    assert KEY not in broker.sessions
    assert due_after(outcome_of(78, 0, 5), answer.error, 0, 5, failed=True) == {ABSENT}


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_the_end_of_an_older_connection(release: str) -> None:
    broker = brought_to(5, release)
    broker.take(KEY, Request(2, fetch=True, epoch=0))
    broker.end(1)
    assert (KEY not in broker.sessions) is dies_with_older_connection(release)
    broker.end(2)
    assert KEY not in broker.sessions


def test_a_broker_without_room_takes_the_old_session_away_before_it_says_so() -> None:
    broker = Broker(room=1)
    assert broker.take(KEY, Request(1, fetch=True, epoch=0)).error == 0
    assert broker.take(("g", "b"), Request(2, fetch=True, epoch=0)).error == 133
    assert broker.take(("g", "b"), Request(2, fetch=True, epoch=1)).causes == {"session_limit"}
