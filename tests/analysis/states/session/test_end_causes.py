"""What may have ended a session without a request of its own, and which of several it was."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import UNANSWERED, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.releases import Release
from kshark.analysis.states.session.end_causes import end_causes
from kshark.analysis.states.session.state import EndCause, PossibleState, SessionState
from tests.analysis.plain import BROKER, connection, end, session, step
from tests.analysis.talks import broker_closes, caused, opened
from tests.conversation import SHARE_SESSION_NOT_FOUND, Conversation, note, unknown, violation

V4_0, V4_1, V4_2, _ = Release


class Met:
    """A session opened with packets 10 and 11 on a connection of its own, and a request with packets 50 and 51 that is
    told it is gone."""

    def __init__(self, *releases: Release, alive: int = 10) -> None:
        self.broker = Broker([BROKER], releases=frozenset(releases or (V4_2,)))
        self.own, self.old = connection(0), connection(1, "10.0.0.1:50001")
        self.opening = step(0, 10, on=self.own)
        self.session: SessionState = session(1, broker=self.broker)
        self.session.alive = self.opening if alive == 10 else step(1, alive, on=self.own)
        self.state = PossibleState(1, self.opening, None, (self.old,))

    def ends(self, where: ConnectionFacts, *packets: int) -> Met:
        where.ends += [end(packet, flow=where.flow.id) for packet in packets]
        return self

    def goes_down(self, *packets: int) -> Met:
        """The broker closes connections with these packets, and none is left."""
        for packet in packets:
            self.broker.ended(end(packet, "broker", 7))
        return self

    def causes(self, asked: ShareStep | None = None) -> list[EndCause]:
        return list(end_causes(self.session, self.state, asked or step(1, 50, error=122)))

    def names(self, asked: ShareStep | None = None) -> list[tuple[str, int, str | None]]:
        return [(one.cause, one.packet, one.known.because) for one in self.causes(asked)]


def test_nothing_happened() -> None:
    assert Met().names() == []


def test_a_session_without_a_sign_of_life_ended_by_nothing_seen() -> None:
    met = Met()
    met.session.alive, met.state = None, PossibleState(1)
    met.goes_down(20, 21)
    assert met.names() == []


def test_a_session_whose_opening_was_not_seen_ends_with_its_broker_alone() -> None:
    met = Met()
    met.state = PossibleState(1)
    met.ends(met.own, 20).ends(met.old, 21)
    assert met.names() == []
    assert met.goes_down(30, 31).names() == [("broker_restart", 31, None)]


def test_the_connection_that_opened_it_ended() -> None:
    met = Met()
    (cause,) = met.ends(met.own, 20).causes()
    assert cause == EndCause(
        "connection_closed",
        20,
        20_000_000,
        "the connection that opened it (10.0.0.1:50000) ended (packet 20)",
        end=end(20),
    )


def test_a_connection_without_an_answer_to_its_opening_may_not_have_opened_it() -> None:
    """A broker without room refuses it: 4.1.2 did, with an answer that came too late for the client."""
    met = Met()
    met.opening.reply = UNANSWERED
    (cause,) = met.ends(met.own, 20).causes()
    assert cause.description == (
        "the connection that asked for a new session and got no answer (10.0.0.1:50000) ended (packet 20)"
    )
    met.session.alive = step(1, 12, on=met.own)  # a later request was accepted
    (cause,) = met.causes()
    assert cause.description == "the connection that opened it (10.0.0.1:50000) ended (packet 20)"


@pytest.mark.parametrize(("packet", "counts"), [(10, False), (11, True), (51, True), (52, False)])
def test_only_ends_behind_the_opening_count_until_the_answer(packet: int, counts: bool) -> None:
    met = Met()
    assert bool(met.ends(met.own, packet).causes()) is counts


@pytest.mark.parametrize(
    ("releases", "own", "old"),
    [
        ((V4_0,), [], []),
        ((V4_1,), [("connection_closed", 20, None)], [("old_connection_closed", 20, None)]),
        ((V4_2,), [("connection_closed", 20, None)], []),
        ((V4_1, V4_2), [("connection_closed", 20, None)], [("old_connection_closed", 20, "release_unknown")]),
        ((V4_0, V4_2), [("connection_closed", 20, "release_unknown")], []),
    ],
)
def test_which_connections_take_a_session_along(releases: tuple[Release, ...], own: list[Any], old: list[Any]) -> None:
    met = Met(*releases)
    assert met.ends(met.own, 20).names() == own
    met = Met(*releases)
    assert met.ends(met.old, 20).names() == old


def test_an_older_connection_ended() -> None:
    met = Met(V4_1)
    (cause,) = met.ends(met.old, 20).causes()
    assert (
        cause.description
        == "an older connection that had opened a session of the member (10.0.0.1:50001) ended (packet 20)"
    )
    assert (cause.time_ns, cause.end) == (20_000_000, end(20, flow=1))


# -- which of several it was


def test_the_first_one_did_it() -> None:
    met = Met(V4_1)
    assert met.ends(met.own, 30).ends(met.old, 20).names() == [("connection_closed", 30, None)]
    met = Met()
    assert met.ends(met.own, 30).goes_down(20, 21).names() == [("broker_restart", 21, None)]
    met = Met()
    assert met.ends(met.own, 20).goes_down(30, 31).names() == [("connection_closed", 20, None)]


def test_a_restart_begins_with_the_first_connection_that_is_closed() -> None:
    met = Met()
    assert met.ends(met.own, 25).goes_down(20, 30).names() == [("broker_restart", 30, None)]


def test_what_is_not_certain_leaves_the_next_possible() -> None:
    met = Met(V4_0, V4_2)
    assert met.ends(met.own, 20).goes_down(30, 31).names() == [
        ("connection_closed", 20, "release_unknown"),
        ("broker_restart", 31, None),
    ]


def test_an_end_before_the_last_sign_of_life_comes_behind_those_after_it() -> None:
    """It may have been noticed late; what came later is likelier."""
    met = Met(V4_1, alive=20)
    assert met.ends(met.own, 15).ends(met.old, 30).names() == [("old_connection_closed", 30, None)]
    met = Met(V4_1, alive=20)
    assert met.ends(met.own, 30).ends(met.old, 15).names() == [("connection_closed", 30, None)]
    met = Met(V4_1, alive=20)
    assert met.ends(met.own, 15).names() == [("connection_closed", 15, None)]
    met = Met(V4_1, alive=20)
    assert met.ends(met.own, 20).ends(met.old, 21).names() == [("old_connection_closed", 21, None)]


def test_of_several_ends_of_a_connection_the_first_behind_the_last_sign_of_life() -> None:
    met = Met(alive=20)
    assert met.ends(met.own, 15, 30).names() == [("connection_closed", 30, None)]


def test_a_restart_before_the_last_sign_of_life_is_over() -> None:
    assert Met(alive=20).goes_down(15, 16).names() == []


def test_an_opening_is_a_sign_of_life() -> None:
    """Even if nothing was known to be alive since."""
    met = Met()
    met.session.alive = step(1, 2, on=met.own)
    assert met.goes_down(5, 6).names() == []


# -- idle sessions


@pytest.mark.parametrize(
    ("release", "idle_ms", "gone"),
    [(V4_0, 120_000, False), (V4_0, 120_001, True), (V4_1, 130_000, False), (V4_2, 130_000, False)],
)
def test_sessions_that_are_idle_give_way_in_4_0(release: Release, idle_ms: int, gone: bool) -> None:
    met = Met(release)
    asked = step(1, 50, error=122)
    asked.time_ns = 10_000_000 + idle_ms * 1_000_000
    assert [cause for cause, _, _ in met.names(asked)] == ["evicted"] * gone


def test_whether_a_session_gave_way_is_not_known_where_releases_differ() -> None:
    met = Met(V4_0, V4_1)
    asked = step(1, 50, error=122)
    asked.time_ns = 10**12
    assert met.names(asked) == []


def test_how_long_it_was_idle() -> None:
    met = Met(V4_0)
    asked = step(1, 50, error=122)
    asked.time_ns = 130_510_000_000
    (cause,) = met.causes(asked)
    assert cause == EndCause("evicted", 51, 51_000_000, "the session was unused for 130 s and may have been evicted")


def test_giving_way_is_the_last_that_is_thought_of() -> None:
    met = Met(V4_0)
    asked = step(1, 50, error=122)
    asked.time_ns = 130_510_000_000
    assert [cause for cause, _, _ in met.goes_down(20, 21).names(asked)] == ["broker_restart"]


# -- as conversations


@pytest.mark.parametrize(("seconds", "told"), [(119.9, "unknown"), (120.1, "note")])
def test_two_minutes_are_idle(seconds: float, told: str) -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    talk.pause(seconds)
    lost = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert [(it.verdict, it.packet) for it in caused(talk)] == [(told, lost.packet)]


def test_the_broker_restarts_and_closes_every_connection() -> None:
    talk = Conversation()
    a, b = opened(talk, 1), opened(talk, 1, name="b")
    broker_closes(a.connection)
    broker_closes(b.connection)
    lost = [each.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND) for each in (a, b)]
    assert caused(talk) == [note("SESSION_UNKNOWN", one, cause="broker_restart") for one in lost]


def test_a_session_that_was_used_after_its_connection_closed_died_of_what_came_later() -> None:
    """4.1 noticed the client's FIN late, or not at all: it was the old connection's end that it noticed."""
    talk = Conversation(release="4.1")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    c = a.on(talk.connection())
    b.connection.tcp._send(0, 0x11)
    c.share_fetch(1).answered()
    a.connection.reset()
    lost = c.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert [(it.code, it.verdict, it.packet) for it in caused(talk)] == [
        ("SESSION_KILLED_BY_OLD_CONNECTION", "note", lost.packet)
    ]


def test_an_old_connection_kills_a_session_whose_own_is_used_later() -> None:
    talk = Conversation(release="4.1")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.reset()
    killed = b.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.heartbeat(1).answered()
    assert caused(talk) == [
        violation("SESSION_KILLED_BY_OLD_CONNECTION", killed, blame="broker", cause="old_connection_closed")
    ]


def test_which_of_the_two_is_not_known_without_the_release() -> None:
    talk = Conversation(release=None)
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.close()
    lost = b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="release_unknown", cause="unknown")]
