"""Locks and sessions that end while an acknowledgement of the records waits for its answer: the answer decides."""

from __future__ import annotations

import pytest

from kshark.analysis import Analyzer, Change
from tests.analysis.rules.promises.acknowledgements import ACCEPT, REJECT, RELEASE, RENEW, holding
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.talks import broker_closes, handed, left_in_flight
from tests.conversation import Asked, Conversation, Member, events
from tests.shared import shared
from tests.thinning import Whole, events_of

TIMEOUT = ("lock_timeout", 0, 9)
ACQUIRED = ("acquired", 0, 9)


def changes(talk: Conversation) -> list[tuple[str, int, int]]:
    found: list[Change] = []
    analyzer = Analyzer(on_change=found.append)
    analyzer.page(events(talk))
    analyzer.close()
    return [(change.event, change.first, change.last) for change in found]


def waiting(talk: Conversation, kind: int = ACCEPT, last: int = 9) -> tuple[Member, Asked]:
    """Return a member whose acknowledgement is open when its lock of 2 s ends, and that acknowledgement."""
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(1.9)
    asked = a.share_acknowledge(1, [(0, last, kind)], version=2, renew=kind == RENEW)
    talk.pause(2)
    return a, asked


def looked_at(talk: Conversation) -> None:
    """Another member receives other records: locks that have ended expire."""
    given(talk.member("b"), 0, (10, 19, 1))


@pytest.mark.parametrize(
    ("kind", "event"), [(ACCEPT, "accepted"), (REJECT, "rejected"), (RELEASE, "released"), (RENEW, "renewed")]
)
@pytest.mark.parametrize("between", [False, True])
def test_an_accepted_acknowledgement_came_before_the_end(kind: int, event: str, *, between: bool) -> None:
    talk = Conversation()
    _, asked = waiting(talk, kind)
    if between:
        looked_at(talk)
    asked.answered()
    assert changes(talk) == [ACQUIRED, *[("acquired", 10, 19)] * between, (event, 0, 9)]


@pytest.mark.parametrize("error", [42, 121])
@pytest.mark.parametrize("between", [False, True])
def test_a_refused_acknowledgement_came_after_the_end(error: int, *, between: bool) -> None:
    talk = Conversation()
    _, asked = waiting(talk)
    if between:
        looked_at(talk)
    asked.answered(acks={0: error})
    assert changes(talk) == [ACQUIRED, *[("acquired", 10, 19)] * between, TIMEOUT]
    assert left_in_flight(talk).ranges[0].state == "available"


def test_a_refused_request_changed_nothing() -> None:
    talk = Conversation()
    _, asked = waiting(talk)
    asked.answered(123)
    assert changes(talk) == [ACQUIRED, TIMEOUT]


@pytest.mark.parametrize("error", [6, 122, 124, None])
def test_other_answers_leave_it_unknown(error: int | None) -> None:
    talk = Conversation()
    a, asked = waiting(talk)
    if error == 122:
        asked.answered(error)
    elif error is not None:
        asked.answered(acks={0: error})
    else:
        a.connection.reset()
    looked_at(talk)
    assert changes(talk) == [ACQUIRED, ("acquired", 10, 19)]


def test_without_an_answer_the_end_of_the_session_is_unknown_too() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 4, ACCEPT)])
    broker_closes(a.connection)
    looked_at(talk)
    assert changes(talk) == [ACQUIRED, ("session_released", 5, 9), ("acquired", 10, 19)]
    assert [part.state for part in left_in_flight(talk).ranges[:2]] == ["unknown", "available"]


def test_records_that_are_not_acknowledged_expire() -> None:
    talk = Conversation()
    _, asked = waiting(talk, last=4)
    looked_at(talk)
    asked.answered()
    assert changes(talk) == [ACQUIRED, ("lock_timeout", 5, 9), ("acquired", 10, 19), ("accepted", 0, 4)]


def test_an_acknowledgement_of_another_member_does_not_matter() -> None:
    talk = Conversation()
    holding(talk, (0, 9), lock_ms=2000)
    b = holding(talk, (10, 19), name="b")
    talk.pause(1.9)
    asked = b.share_acknowledge(1, [(0, 9, ACCEPT)])
    talk.pause(2)
    given(talk.member("c"), 0, (20, 29, 1))
    asked.answered(acks={0: 121})
    assert changes(talk)[2] == TIMEOUT


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_a_redelivery_overtakes_the_answer(kind: int) -> None:
    """An open release may be why the records are available."""
    talk = Conversation()
    _, asked = waiting(talk, kind)
    given(talk.member("b"), 0, (0, 9, 2))
    asked.answered(acks={0: 121})
    assert changes(talk) == [ACQUIRED, *[TIMEOUT] * (kind == ACCEPT), ACQUIRED]


def test_the_last_open_acknowledgement_decides() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(1.9)
    first, second = (a.share_acknowledge(epoch, [(0, 9, ACCEPT)]) for epoch in (1, 2))
    talk.pause(2)
    looked_at(talk)
    first.answered()
    second.answered(acks={0: 121})
    assert changes(talk) == [ACQUIRED, ("acquired", 10, 19), ("accepted", 0, 9)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_lock_may_have_ended_and_the_next_delivery_shows_it(count: int) -> None:
    """The answer with the records was slow: the lock began after the fetch and before its answer.

    The same count again: the leader did not count the delivery, so it did not see the lock expire either.
    """
    talk = Conversation()
    a = talk.member("a")
    fetch = a.share_fetch(0, [0])
    talk.pause(3)
    fetch.answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    given(a, 1, (0, 9, count), lock_ms=2000)
    assert changes(talk) == [ACQUIRED, *[TIMEOUT] * (count - 1), ACQUIRED]


@pytest.mark.parametrize("late", [0.7, 2])
def test_a_timer_may_be_late(late: float) -> None:
    """Seen on 4.4.0 under load: an acknowledgement sent 0.7 s after the lock's end was accepted."""
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(2 + late)
    looked_at(talk)
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    assert changes(talk)[1:] == [*[TIMEOUT] * (late > 1), ("acquired", 10, 19), ("accepted", 0, 9)]


def test_a_slow_share_coordinator() -> None:
    """Three brokers; the broker accepted 6322 to 6343 after their lock's end, for a request before it."""
    found: list[Change] = []
    whole = Whole.load(shared("captures/field/real-deliveries-false-lock-timeout.pcap"))
    Analyzer(on_change=found.append).page(events_of(whole.batches))
    ends = [change.event for change in found if change.first == 6322]
    assert ends == ["acquired", "accepted"]
