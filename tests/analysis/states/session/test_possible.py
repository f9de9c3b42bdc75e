"""The runner over sets of possible states: what a request met, and what its answer leaves possible."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import ACCEPTED, Answer, Listed, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.holes import Hole
from kshark.analysis.facts.known import ALWAYS, never
from kshark.analysis.facts.releases import Release
from kshark.analysis.states.session.possible import conclude, situation
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.session.state import REPLACED, EndCause, PossibleState, SessionState
from kshark.analysis.states.tables.session import ABSENT
from tests.analysis.plain import BROKER, connection, end, session, step
from tests.analysis.talks import caused, opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, unknown, violation

UNKNOWN_SERVER_ERROR = -1
LIMIT_REACHED = 133
HERE, THERE, ELSEWHERE = connection(0), connection(1, "10.0.0.1:50001"), connection(2, "10.0.0.2:50002")


def taken(state: SessionState, asked: ShareStep, later: Sequence[ShareStep] = ()) -> SessionSituation:
    now = situation(state, asked, later)
    conclude(now)
    return now


def due(state: SessionState) -> list[int] | None:
    return None if state.states is None else sorted(one.due for one in state.states)


# -- one step


@pytest.mark.parametrize(
    ("before", "epoch", "error", "after"),
    [
        ((4,), 4, 0, [5]),
        ((4,), 4, None, [4, 5]),
        ((4,), 7, None, [4]),
        ((4,), 4, 42, [4]),
        ((4,), 9, 123, [4]),
        ((4, 5), 5, 0, [6]),
        ((4, 5), 4, 123, [5]),
        ((4, ABSENT), 4, 122, [ABSENT]),
        ((4,), 0, 0, [1]),
        ((4,), 0, None, [ABSENT, 1, 4]),
        ((4,), 0, LIMIT_REACHED, [ABSENT]),
        ((4,), -1, 0, [ABSENT]),
        ((4,), -1, None, [ABSENT, 4]),
    ],
)
def test_answers_leave_some_states_possible(
    before: tuple[int, ...], epoch: int, error: int | None, after: list[int]
) -> None:
    state = session(*before)
    taken(state, step(epoch, error=error))
    assert due(state) == after


def test_what_the_answer_agrees_with() -> None:
    now = situation(session(4, 5), step(5, error=0), ())
    assert now.met is not None
    assert [one.due for one in now.met] == [4, 5]
    assert [one.due for one in now.agreeing] == [5]
    assert [branch.state.due for branch in now.after] == [6]
    assert (now.reply, now.overtaker, now.rivals, now.knowledge) == (ACCEPTED, None, (), ALWAYS)


def test_where_anything_is_possible_an_answer_may_prove_a_state_by_itself() -> None:
    for epoch, error, after in (
        (4, 0, [5]),
        (0, 0, [1]),
        (-1, 0, [ABSENT]),
        (4, 122, [ABSENT]),
        (4, 123, None),
        (4, None, None),
    ):
        state = session()
        now = taken(state, step(epoch, error=error))
        assert (now.met, now.agreeing, now.after) == (None, (), ())
        assert due(state) == after


def test_an_answer_that_contradicts_every_state_shows_that_something_was_missed() -> None:
    state = session(4)
    state.in_flight.partitions = {("t", 1)}
    taken(state, step(4, error=123))
    assert (due(state), state.states_known.because, state.in_flight.partitions) == (None, "hidden_traffic", None)
    state = session(4)
    state.in_flight.partitions = {("t", 1)}
    taken(state, step(9, error=0))
    assert (due(state), state.in_flight.partitions) == ([10], None)


def test_what_is_known_from_there_on() -> None:
    """A state proved by the answer alone is known since that exchange; so is one that the session went on with."""
    for epoch, error, anchors in (
        (4, 0, True),
        (4, 122, True),
        (4, 123, False),
        (4, None, False),
        (4, 42, False),
        (0, LIMIT_REACHED, True),
    ):
        state, asked = session(4), step(epoch, error=error)
        taken(state, asked)
        assert (state.anchor is asked) is anchors, (epoch, error)


def test_a_step_in_doubt_proves_nothing() -> None:
    state = session(4)
    taken(state, step(4, doubt="cut"))
    assert (due(state), state.states_known.because) == (None, "cut")


def test_too_many_ways_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshark.analysis.states.session.possible._BRANCHES", 2)
    state = session(4)
    taken(state, step(4, error=None))
    assert due(state) == [4, 5]
    taken(state, step(5, 20, None))
    assert (due(state), state.states_known.because) == (None, "unanswered")


def test_ways_that_come_to_the_same_are_one() -> None:
    for states, met in (((4, 4), [4]), ((4, 4, 5), [4, 5])):
        state = session(*states)
        now = taken(state, step(9, error=None))
        assert [one.due for one in now.met or ()] == met
        assert [one.due for one in now.agreeing] == met
        assert due(state) == met


# -- what opened it, what took it away


def states(state: SessionState) -> list[PossibleState]:
    return list(state.states or ())


def test_a_session_remembers_what_opened_it_and_what_it_replaced() -> None:
    state, first, second, third = session(ABSENT), step(0, 10, on=HERE), step(0, 20, on=THERE), step(0, 30, on=HERE)
    taken(state, first)
    taken(state, step(1, 12, on=HERE))
    (one,) = states(state)
    assert (one.due, one.opening, one.ended, one.replaced) == (2, first, None, ())
    taken(state, second)
    (one,) = states(state)
    assert (one.opening, one.replaced) == (second, (HERE,))
    taken(state, third)
    (one,) = states(state)
    assert (one.opening, one.replaced) == (third, (THERE,))


def test_connections_that_are_over_can_take_nothing_along() -> None:
    """Over when the request came: that one was to end later, and is known by now to have ended, is no reason."""
    gone, going = connection(8), connection(9)
    state = session(ABSENT)
    for asked in (step(0, 10, on=gone), step(0, 15, on=going), step(0, 20, on=HERE)):
        taken(state, asked)
    gone.over_at, going.over_at = 25, 35
    taken(state, step(0, 30, on=THERE))
    assert states(state)[0].replaced == (going, HERE)


def test_behind_traffic_that_was_not_seen_no_count_goes_on() -> None:
    """-1 is accepted where no session was left: whoever opened it counted on from there."""
    state = session(ABSENT)
    state.count = 3
    taken(state, step(-1, 10))
    assert (due(state), state.count) == ([ABSENT], 0)


def test_only_so_many_replaced_connections_are_remembered() -> None:
    state, connections = session(ABSENT), [connection(number) for number in range(REPLACED + 2)]
    for at, each in enumerate(connections):
        taken(state, step(0, 10 * at, on=each))
    assert states(state)[0].replaced == tuple(connections[1:-1])


@pytest.mark.parametrize(
    ("epoch", "error", "cause", "because"),
    [
        (-1, 0, "final_epoch", None),
        (-1, None, "final_epoch", "unanswered"),
        (-1, 1, "final_epoch", "unanswered"),
        (0, LIMIT_REACHED, "session_limit", None),
        (0, 122, "session_limit", None),
        (0, None, "session_limit", "unanswered"),
    ],
)
def test_what_took_a_session_away(epoch: int, error: int | None, cause: str, because: str | None) -> None:
    state, asked = session(4), step(epoch, error=error)
    taken(state, asked)
    (gone,) = [one for one in states(state) if one.due == ABSENT]
    assert gone.ended == EndCause(
        cause, asked.end, asked.end_ns, asked.story, asked, ALWAYS if because is None else never(because)
    )


def test_an_opening_that_lists_a_partition_twice_takes_the_session_away() -> None:
    state = session(4)
    twice = step(0, 10, None, listed=[Listed(("t", 1), ())] * 2)
    twice.settle(Answer(11, 11_000_000, UNKNOWN_SERVER_ERROR, None))
    taken(state, twice)
    (gone,) = states(state)
    assert gone.ended is not None
    assert (gone.due, gone.ended.cause, gone.ended.known) == (ABSENT, "failed_reopen", ALWAYS)


def test_a_refusal_shows_that_a_session_is_gone_for_a_reason_that_was_not_seen() -> None:
    state = session()
    taken(state, step(4, error=122))
    assert [(one.ended and (one.ended.cause, one.ended.known.because)) for one in states(state)] == [
        ("unseen", "beginning_not_seen")
    ]
    state = session(4)
    taken(state, step(4, error=122))
    assert [(one.ended and (one.ended.cause, one.ended.known.because)) for one in states(state)] == [
        ("unseen", "hidden_traffic")
    ]


def test_what_took_it_stays_the_cause_of_later_refusals() -> None:
    state, final = session(4), step(-1, 10)
    for asked in (final, step(4, 20, 122), step(-1, 30, 122)):
        taken(state, asked)
    assert [one.ended and one.ended.step for one in states(state)] == [final]


def test_a_connections_end_may_have_taken_it_unless_the_answer_shows_it_alive() -> None:
    broker = Broker([BROKER], releases=frozenset({Release.V4_2}))
    own = connection(0)
    state = session(ABSENT, broker=broker)
    taken(state, step(0, 10, on=own))
    own.ends.append(end(15))
    now = situation(state, step(1, 20, 122, on=THERE), ())
    assert [one.due for one in now.met or ()] == [1, ABSENT]
    assert [one.ended and one.ended.cause for one in now.agreeing] == ["connection_closed"]
    now = situation(state, step(1, 20, 0, on=THERE), ())
    assert [one.due for one in now.met or ()] == [1]
    now = situation(state, step(0, 20, 0, on=THERE), ())
    assert [one.due for one in now.met or ()] == [1, ABSENT]


# -- holes


@pytest.mark.parametrize(
    ("where", "first", "last", "doubt"),
    [
        (HERE, 12, 18, "gap"),
        (THERE, 12, 18, "gap"),
        (ELSEWHERE, 12, 18, None),
        (HERE, 1, 10, None),
        (HERE, 1, 11, "gap"),
        (HERE, 19, 30, "gap"),
        (HERE, 20, 30, None),
    ],
    ids=[
        "its own",
        "another connection of the host",
        "another host",
        "before what is known",
        "just behind it",
        "just before",
        "behind",
    ],
)
def test_holes_between_what_is_known_and_the_request(
    where: ConnectionFacts, first: int, last: int, doubt: str | None
) -> None:
    broker = Broker([BROKER])
    state = session(4, broker=broker)
    state.hosts, state.anchor = ("10.0.0.1",), step(3, 10, on=HERE)
    broker.lose(where.host, Hole(first, last, "gap"))
    assert situation(state, step(4, 20, on=HERE), ()).knowledge.because == doubt


def test_holes_of_every_host_that_used_the_session_count() -> None:
    broker = Broker([BROKER])
    broker.lose("10.0.0.2", Hole(12, 18, "gap"))
    state = session(4, broker=broker)
    state.hosts, state.anchor = ("10.0.0.2",), step(3, 10, on=HERE)
    assert situation(state, step(4, 20, on=HERE), ()).knowledge.because == "gap"
    state = session(4, broker=broker)
    state.anchor = step(3, 10, on=HERE)
    assert situation(state, step(4, 20, on=ELSEWHERE), ()).knowledge.because == "gap"


def test_behind_a_hole_another_connection_may_have_opened_it() -> None:
    for where, still_known in ((HERE, True), (THERE, False)):
        broker = Broker([BROKER])
        broker.lose("10.0.0.1", Hole(12, 18, "gap"))
        state = session(4, broker=broker)
        state.anchor = state.opening = step(0, 10, on=HERE)
        situation(state, step(4, 20, on=where), ())
        assert (state.opening is not None) is still_known


def test_a_hole_on_another_connection_of_the_host_is_seen() -> None:
    talk = Conversation()
    a, b = opened(talk, 1), talk.member("b")
    missing = b.heartbeat(1).answered()
    b.heartbeat(1).answered()
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk) == [violation("EPOCH_SKIP_AHEAD", late)]
    assert caused(talk.without_packets(missing.packets)) == [unknown("EPOCH_REFUSED", late, because="gap")]


def test_a_hole_on_another_hosts_connection_does_not_matter() -> None:
    talk = Conversation()
    a, b = opened(talk, 1), talk.member("b", connection=talk.connection(host="10.0.0.7"))
    missing = b.heartbeat(1).answered()
    b.heartbeat(1).answered()
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk.without_packets(missing.packets)) == [violation("EPOCH_SKIP_AHEAD", late)]
