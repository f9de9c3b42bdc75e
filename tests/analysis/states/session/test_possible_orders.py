"""The runner over sets of possible states, where requests are open at the same time: which of them the broker took
first."""

from __future__ import annotations

import pytest

from kshark.analysis.facts.calls import ACCEPTED, INVALID_EPOCH, ShareStep
from kshark.analysis.states.session.possible import situation
from tests.analysis.plain import connection, session, step
from tests.analysis.states.session.test_possible import HERE, THERE, due, taken
from tests.analysis.talks import caused, opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND, Conversation, note, violation


def test_a_request_that_overtook_another_explains_its_refusal() -> None:
    """Sent later, answered before it, on another connection: the broker took it first."""
    state = session(4)
    waiting, ahead = step(4, 10, 123, on=HERE, answered=20, fetch=False), step(4, 12, on=THERE)
    now = taken(state, waiting, [ahead])
    assert [one.due for one in now.agreeing] == [5]
    assert now.rivals == (ahead,)
    (branch,) = state.branches or ()
    assert [other for other, _ in branch.early] == [ahead]
    assert due(state) == [5]
    now = taken(state, ahead)
    assert ([one.due for one in now.agreeing], due(state)) == ([4], [5])
    assert [branch.early for branch in state.branches or ()] == [()]


def test_a_rival_that_was_not_answered_may_have_been_taken_first() -> None:
    state = session(4)
    taken(state, step(4, 10, 123, on=HERE, answered=20, fetch=False), [step(4, 12, None, on=THERE)])
    assert due(state) == [5]


def test_on_one_connection_requests_are_taken_in_their_order() -> None:
    """The second of two on the other connection cannot have overtaken where the first did not."""
    state = session(4)
    first, second = step(9, 12, 123, on=THERE), step(4, 14, 0, on=THERE)
    now = situation(state, step(4, 10, 123, on=HERE, answered=20, fetch=False), [first, second])
    assert [[other for other, _ in branch.early] for branch in now.after] == [[first, second]]
    now = situation(state, step(4, 10, 123, on=HERE, answered=20, fetch=False), [step(4, 12, 122, on=THERE), second])
    assert now.after == ()


def test_arrival_counts_where_requests_were_pipelined() -> None:
    state = session(4)
    first, second = step(4, 14, 0, on=THERE), step(5, 12, 0, on=THERE)
    second.arrival = 15
    now = situation(state, step(5, 10, 123, on=HERE, answered=20, fetch=False), [second, first])
    assert [[other for other, _ in branch.early] for branch in now.after] == [[], [first, second]]


def test_what_was_answered_meanwhile_tells_which_order_there_was() -> None:
    """Epoch 2 waits on one connection while another one opens the session anew and counts to 2: it came before all of
    them."""
    elsewhere = connection(7)
    again, first, refused, second = (
        step(0, 14, on=THERE),
        step(1, 16, on=THERE),
        step(1, 18, 123, on=elsewhere),
        step(2, 20, on=THERE),
    )
    waiting = step(2, 10, on=HERE, answered=40)
    now = situation(session(2), waiting, [again, first, refused, second])
    assert {tuple(other.packet for other, _ in branch.early) for branch in now.after} == {(), (18,)}
    now = situation(session(2), waiting, [again, first, refused])
    assert (14, 16) in {tuple(other.packet for other, _ in branch.early) for branch in now.after}


def test_also_where_their_own_order_is_not_certain() -> None:
    """One that was open beside others meanwhile, or had no answer, can be put in some order."""
    again, first, second = step(0, 14, on=THERE), step(1, 16, on=THERE), step(2, 20, on=THERE)
    beside, silent = step(1, 15, 123, on=connection(7), answered=17), step(1, 15, None, on=connection(7))
    waiting = step(2, 10, on=HERE, answered=40)
    for other in (beside, silent):
        now = situation(session(2), waiting, [again, other, first, second])
        assert (14, 16) not in {tuple(early.packet for early, _ in branch.early) for branch in now.after}


def test_many_are_not_put_in_order() -> None:
    again, first, second = step(0, 14, on=THERE), step(1, 16, on=THERE), step(2, 20, on=THERE)
    others = [step(9, 22, 123, on=HERE) for _ in range(6)]
    now = situation(session(2), step(2, 10, on=HERE, answered=40), [again, first, second, *others])
    assert (14, 16) in {tuple(early.packet for early, _ in branch.early) for branch in now.after}


def test_the_order_of_many_is_that_of_the_capture() -> None:
    rivals = [step(4, 12 + number, 0 if number == 0 else 123, on=connection(number + 1)) for number in range(5)]
    asked = step(4, 10, 123, on=HERE, answered=20, fetch=False)
    assert situation(session(4), asked, rivals[:4]).agreeing
    assert not situation(session(4), asked, rivals).agreeing


def test_those_on_the_same_connection_are_no_rivals() -> None:
    asked = step(4, 10, 123, on=HERE, answered=20, fetch=False)
    now = situation(session(4), asked, [step(4, 12, on=HERE)])
    assert (now.agreeing, now.rivals) == ((), ())


def test_who_was_open_beside_it() -> None:
    state = session(4)
    before, over, uncounted, same = (
        step(3, 5, on=THERE, answered=15),
        step(3, 5, on=THERE, answered=9),
        step(3, 5, 123, on=THERE, answered=15),
        step(3, 5, on=HERE, answered=15),
    )
    state.overlapping = (before, over, uncounted, same)
    behind = step(5, 12, on=THERE)
    assert situation(state, step(4, 10, 123, on=HERE, answered=20), [behind]).rivals == (before, behind)


def waits(epoch: int = 4, error: int | None = 123, *, fetch: bool = True) -> ShareStep:
    return step(epoch, 10, error, on=HERE, answered=20, fetch=fetch)


def test_a_waiting_fetch_that_was_overtaken_had_been_accepted() -> None:
    state, ahead = session(4), step(5, 12, on=THERE)
    now = taken(state, waits(), [ahead])
    assert (now.overtaker, now.reply) == (ahead, ACCEPTED)
    assert due(state) == [5]
    taken(state, ahead)
    assert due(state) == [6]


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        (waits(fetch=False), step(5, 12, on=THERE)),
        (waits(error=122), step(5, 12, on=THERE)),
        (waits(-1), step(5, 12, on=THERE)),
        (waits(), step(6, 12, on=THERE)),
        (waits(), step(0, 12, on=THERE)),
        (waits(), step(5, 9, on=THERE)),
        (waits(), step(5, 12, on=HERE)),
        (waits(), step(5, 12, 123, on=THERE)),
        (waits(error=0), step(5, 12, on=THERE, answered=20)),
    ],
    ids=(
        "acknowledgement",
        "another answer",
        "closing",
        "not the next",
        "opening",
        "sent before",
        "same connection",
        "refused",
        "too late",
    ),
)
def test_what_overtakes_no_fetch(asked: ShareStep, other: ShareStep) -> None:
    assert situation(session(4), asked, [other]).overtaker is None


def test_what_was_not_answered_may_have_overtaken_it() -> None:
    silent = step(5, 12, None, on=THERE)
    assert situation(session(4), waits(), [silent]).overtaker is silent


def test_whoever_made_the_broker_refuse_a_fetch_may_be_answered_later() -> None:
    """An acknowledgement moves the session on when it comes, and waits for its records to be stored before it is
    answered."""
    state, ahead = session(4), step(5, 12, on=THERE, answered=30, fetch=False)
    now = taken(state, waits(), [ahead])
    assert (now.overtaker, now.reply, state.contradicted_at) == (ahead, ACCEPTED, 0)
    taken(state, ahead)
    assert due(state) == [6]


def test_a_fetch_that_was_not_due_was_refused_at_once() -> None:
    now = situation(session(6), waits(), [step(5, 12, on=THERE)])
    assert (now.overtaker, now.reply) == (None, INVALID_EPOCH)


# -- as conversations


def test_two_that_cross_are_taken_in_either_order() -> None:
    """The later one was first, as its answer shows; the earlier one was told so."""
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    first, second = a.share_acknowledge(2), b.share_acknowledge(2)
    first.answered(INVALID_SHARE_SESSION_EPOCH)
    second.answered()
    wrong = a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    b.heartbeat(1)
    assert caused(talk)[0] == violation("FETCH_OVERTAKEN", first, blame="client", cause="concurrent_requests")
    assert caused(talk)[1].packet == wrong.packet


def test_a_refusal_is_judged_with_what_was_sent_before_its_answer() -> None:
    """The opening that crosses the fetch has no answer yet when the fetch has its own."""
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.share_fetch(-1).answered()
    opening = b.share_fetch(0)
    refused = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    opening.answered()
    assert [it.packet for it in caused(talk)] == [refused.packet]
    assert caused(talk) == [note("USE_AFTER_FINAL", refused, cause="final_epoch")]
