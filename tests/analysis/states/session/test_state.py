"""What a session's past leaves behind: its openings, its last requests, what it did on each connection."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis.facts.calls import Reply, ShareStep
from kshark.analysis.facts.known import BEGINNING
from kshark.analysis.facts.releases import ANY_RELEASE, Release
from kshark.analysis.states.session.state import Branch, EndCause, PossibleState, SessionState
from kshark.analysis.states.tables.session import ABSENT
from tests.analysis.plain import MS, connection, session, step

HERE, THERE = connection(0), connection(1, "10.0.0.2:50001")


def after(*steps: ShareStep) -> SessionState:
    state = session(1)
    for each in steps:
        state.remember(each, each.reply)
    return state


def test_states_that_are_one() -> None:
    opening, cause = step(0, on=HERE), EndCause("evicted", 5, 5, "gone")
    assert PossibleState(4, opening).identity == PossibleState(4, step(0, 50, on=HERE)).identity
    differing = [
        PossibleState(4),
        PossibleState(5),
        PossibleState(4, opening),
        PossibleState(4, step(0, on=THERE)),
        PossibleState(0, None, cause),
        PossibleState(4, replaced=(HERE,)),
    ]
    differing += [
        PossibleState(0, None, cause._replace(**one))
        for one in ({"cause": "idle"}, {"packet": 6}, {"known": BEGINNING})
    ]
    assert len({each.identity for each in differing}) == len(differing)
    assert (
        PossibleState(0, None, cause).identity
        == PossibleState(0, None, cause._replace(description="left", time_ns=6)).identity
    )


def test_whether_it_is_open() -> None:
    assert session(1, 2).is_open
    assert not session(1, ABSENT).is_open
    assert not session().is_open
    assert session().states is None


def test_its_release_is_told_by_its_broker_and_by_what_it_answered() -> None:
    state = after(step(1, version=1))
    assert state.releases == {Release.V4_1, Release.V4_2, Release.V4_4}
    state.broker.releases = frozenset({Release.V4_1})
    assert state.releases == {Release.V4_1}
    state.broker.releases = frozenset({Release.V4_0})
    assert state.releases == {Release.V4_0}
    assert after(step(1, error=42, version=1)).releases == ANY_RELEASE
    assert after(step(1, error=-1, version=0)).releases == {Release.V4_0}


def test_what_is_not_seen_is_not_known() -> None:
    state = session(1)
    state.in_flight.partitions = {("t", 1)}
    state.lose_sight("gap")
    assert (state.branches, state.states_known.because, state.in_flight.partitions) == (None, "gap", None)


# -- the last requests


def test_the_last_requests_that_were_counted() -> None:
    fetch, acknowledge, refused = step(4), step(5, 20, fetch=False), step(9, 30, 123)
    state = after(fetch, acknowledge, refused)
    assert (state.last, state.last_fetch, state.last_acknowledge, state.count) == (acknowledge, fetch, acknowledge, 5)
    assert (state.last_of(78), state.last_of(79)) == (fetch, acknowledge)
    final = step(-1, 40)
    state.remember(final, final.reply)
    assert (state.last, state.count) == (final, 5)
    failed = step(6, 50, -1)
    state.remember(failed, failed.reply)
    assert (state.last, state.count) == (failed, 6)


def test_an_overtaken_fetch_was_accepted_but_is_not_the_last() -> None:
    """Its answer does not say so: what overtook it is the last."""
    state, overtaken = session(1), step(4, error=123)
    state.remember(overtaken, Reply.ACCEPTED)
    assert (state.last, state.alive) == (None, overtaken)


def test_a_request_without_an_answer_is_remembered_until_another_is_counted() -> None:
    silent = step(4, error=None)
    assert after(silent).unanswered is silent
    assert after(silent, step(5, 20, 123)).unanswered is silent
    assert after(silent, step(5, 20)).unanswered is None
    assert after(silent, step(5, 20, -1)).unanswered is None


@pytest.mark.parametrize(
    ("epoch", "error", "alive"),
    [(4, 0, True), (4, 123, True), (4, -1, True), (4, 122, False), (4, None, False), (4, 42, False), (-1, 0, False)],
)
def test_signs_of_life(epoch: int, error: int | None, alive: bool) -> None:
    asked = step(epoch, error=error)
    state = after(asked)
    assert (state.alive is asked, state.ever_opened) == (alive, alive)


# -- openings


@pytest.mark.parametrize(
    ("error", "opens", "ever"),
    [
        (0, True, True),
        (-1, True, True),
        (1, True, True),
        (None, False, True),
        (42, False, False),
        (133, False, False),
        (122, False, False),
    ],
)
def test_what_an_opening_leaves(error: int | None, opens: bool, ever: bool) -> None:
    asked = step(0, error=error)
    state = after(asked)
    assert state.initial is asked
    assert (state.opening is asked, state.alive is asked, state.ever_opened) == (opens, opens, ever)


def test_an_opening_begins_anew() -> None:
    crossed = after(step(0, on=HERE), step(1, 20, on=THERE), step(2, 30, fetch=False, on=THERE))
    assert (crossed.crossed, crossed.last_fetch is None, crossed.last_acknowledge is None) == ((1,), False, False)
    leave, again = step(9, 35), step(0, 40, on=HERE)
    crossed.member.last_leave = leave
    assert [crossed.left_before(packet) for packet in (30, 35, 36, 99)] == [None, None, leave, leave]
    crossed.remember(again, again.reply)
    assert (crossed.crossed, crossed.last_fetch, crossed.last_acknowledge, crossed.left_before(99)) == (
        (),
        again,
        None,
        None,
    )


def test_an_opening_without_an_answer_may_have_replaced_the_session() -> None:
    state = after(step(0), step(0, 20, None))
    assert (state.opening, state.states_known.because, state.alive is None) == (None, "unanswered", False)
    assert [after(step(0), step(0, 20, error)).alive is None for error in (42, 133)] == [False, True]


def test_a_closed_session_holds_nothing() -> None:
    opening = step(0, acquired=[(("t", 1), 0, 9)])
    assert after(opening).in_flight.ranges == 1
    assert after(step(0, acquired=[(("t", 1), 0, 9)]), step(-1, 20)).in_flight.ranges == 0
    assert after(step(0, acquired=[(("t", 1), 0, 9)]), step(-1, 20, None)).in_flight.ranges == 1


# -- connections


def test_what_was_done_on_each_connection() -> None:
    first, second, other = step(1, on=HERE), step(2, 20, on=HERE), step(3, 30, on=THERE)
    state = after(first, second, other)
    assert {flow: (trace.first, trace.last) for flow, trace in state.here.items()} == {
        0: (first, second),
        1: (other, other),
    }
    assert state.hosts == ("10.0.0.1", "10.0.0.2")


def test_openings_one_behind_the_other() -> None:
    openings = [step(0, 10 * at, on=HERE) for at in range(5)]
    assert after(*openings).here[0].openings == tuple(openings[-3:])
    assert after(*openings, step(1, 90, on=HERE)).here[0].openings == ()
    assert after(openings[0], step(0, 60, fetch=False, on=HERE)).here[0].openings == ()


def test_the_connections_used_last_are_remembered() -> None:
    connections = [connection(number, f"10.0.1.{number}:1") for number in range(66)]
    state = after(
        *(step(1, 10 + number, on=each) for number, each in enumerate(connections)), step(2, 90, on=connections[3])
    )
    assert list(state.here) == [2, *range(4, 66), 3]
    assert state.hosts == tuple(each.host for each in connections[2:])


def test_where_it_crossed_to() -> None:
    assert after(step(0, on=HERE), step(1, 20, on=HERE)).crossed == ()
    assert after(step(0, on=HERE), step(1, 20, on=THERE), step(2, 30, on=THERE)).crossed == (1,)
    assert after(step(0, on=HERE), step(1, 20, 123, on=THERE)).crossed == ()
    assert after(step(0, on=HERE), step(-1, 20, on=THERE)).crossed == ()
    assert after(step(1, 20, on=THERE)).crossed == ()


def test_requests_that_later_ones_may_overlap() -> None:
    long, short = step(1, 10, answered=50), step(2, 20)
    assert after(long, short).overlapping == (long, short)
    last = step(3, 49)
    assert after(long, short, last).overlapping == (long, last)
    assert after(long, step(3, 50)).overlapping[0].packet == 50


def test_the_last_of_many_that_overlap_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OVERLAPPING_STEPS", 2)
    assert [each.packet for each in after(*(step(1, at, answered=99) for at in (10, 20, 30))).overlapping] == [20, 30]


def test_a_step_of_the_past_is_light() -> None:
    asked = step(1, acquired=[(("t", 1), 0, 9)])
    after(asked)
    assert asked.answer is not None
    assert asked.answer.acquired == ()


# -- trouble


def trouble(*seconds: float) -> SessionState:
    """Openings at these times."""
    state = session(1)
    for at in seconds:
        opening = step(0)
        opening.time_ns = int(at * 1e9)
        state.remember(opening, opening.reply)
    return state


def at(seconds: float) -> ShareStep:
    asked = step(0)
    asked.time_ns = int(seconds * 1e9)
    return asked


def test_openings_and_refusals_within_a_minute() -> None:
    state = trouble(0, 30, 59)
    assert [state.recent_troubles(at(seconds)) for seconds in (59, 60, 89.9, 90, 200)] == [4, 3, 3, 2, 1]
    assert after(step(1), step(2, 20), step(-1, 30)).troubles == ()
    assert after(step(1, 20, 123), step(1, 30, 122), step(1, 40, 133)).troubles == (20 * MS, 30 * MS)


def test_of_one_that_flaps_nothing_more_is_said_for_a_minute() -> None:
    assert trouble(0, 1, 2, 3, 4).quiet_until == 0
    assert trouble(0, 1, 2, 3, 4, 5).quiet_until == 65 * 10**9
    assert trouble(0, 1, 2, 3, 4, 5, 6, 64).quiet_until == 65 * 10**9
    assert trouble(0, 1, 2, 3, 4, 5, 60, 61, 62, 63, 64, 65).quiet_until == 125 * 10**9


def test_only_so_many_are_remembered() -> None:
    assert len(trouble(*range(0, 7000, 100)).troubles) == 64


def test_branches_are_kept_apart_from_what_is_remembered() -> None:
    state = session(1)
    state.branches = (Branch(PossibleState(7)),)
    opening = step(0)
    state.remember(opening, opening.reply)
    assert [one.due for one in state.states or ()] == [7]
