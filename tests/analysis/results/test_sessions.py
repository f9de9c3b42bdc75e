"""Share sessions as they are listed: opened, used, ended."""

from __future__ import annotations

import gc
from typing import Any

import msgspec

from kshark.analysis import Analyzer, Closing, Moment, PackedSessions, ShareSession
from kshark.output.sessions import session_lines
from kshark.output.spans import plain
from tests.analysis.talks import broker_closes, broker_refuses, opened
from tests.conversation import (
    BROKER,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    Member,
    Thinned,
    events,
)


def sessions(talk: Conversation | Thinned, *, steps: bool = False) -> list[ShareSession]:
    analyzer = Analyzer(sessions=True, steps=steps)
    for event in events(talk):
        list(analyzer.feed(event))
    list(analyzer.close())
    return [*PackedSessions(analyzer.listed())]


def how(talk: Conversation | Thinned) -> list[str | None]:
    return [None if session.closed is None else session.closed.how for session in sessions(talk)]


def test_a_session_from_its_opening_to_its_final_epoch() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(8).answered(INVALID_SHARE_SESSION_EPOCH)
    a.on(talk.connection()).share_fetch(3).answered(42)
    a.share_fetch(3)
    last = a.share_acknowledge(-1).answered()
    a.share_fetch(4).answered(SHARE_SESSION_NOT_FOUND)
    first = talk.exchanges[2]
    (session,) = sessions(talk)
    assert (session.broker, session.group_id, session.member_id, session.session) == (BROKER, "g", a.member_id, 1)
    assert (session.first_epoch, session.last_epoch, session.requests, session.accepted) == (0, 4, 9, 4)
    assert (session.rejected, session.connections) == ({"123": 2, "42": 1, "122": 1}, 2)
    assert session.opened == Moment(first.packet, time_of(talk, first.packet))
    assert session.closed == Closing(last.packet, time_of(talk, last.packet), "final_epoch")


def time_of(talk: Conversation, packet: int) -> int:
    return talk.wire.packets[packet - 1].time_ns


def closings(talk: Conversation) -> list[tuple[str, int]]:
    """How each session ended, and with which packet."""
    found = [session.closed for session in sessions(talk)]
    assert all(closed is not None and closed.time_ns == time_of(talk, closed.packet) for closed in found)
    return [(closed.how, closed.packet) for closed in found if closed is not None]


def test_its_json_has_the_keys_that_users_rely_on() -> None:
    talk = Conversation()
    opened(talk, 1)
    keys: dict[str, Any] = msgspec.to_builtins(sessions(talk)[0])
    assert list(keys) == [
        "broker", "group_id", "member_id", "session", "opened", "closed", "first_epoch", "last_epoch", "requests",
        "accepted", "rejected",
        "connections",
    ]  # fmt: skip
    assert set(keys["opened"]) == {"packet", "time_ns"}
    assert set(keys["closed"]) == {"packet", "time_ns", "how"}


def rows(talk: Conversation) -> list[tuple[str, int, object, int | None, str]]:
    """Of every session: API, epoch, what was expected, error, outcome."""
    found = []
    for session in sessions(talk, steps=True):
        assert session.steps is not None
        found += [(row.api, row.epoch, row.expected, row.error_code, row.outcome) for row in session.steps]
    return found


def test_a_row_for_every_request() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(2)
    b = a.on(talk.connection())
    b.share_acknowledge(3).answered()
    b.share_fetch(4).answered(-1)
    b.share_fetch(5).answered(42)
    b.share_fetch(0).answered()
    b.share_fetch(-1).answered()
    b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(0).answered(133)
    assert rows(talk) == [
        ("ShareFetch", 0, None, 0, "opened"),
        ("ShareFetch", 1, 1, 0, "advanced"),
        ("ShareFetch", 3, 2, 123, "wrong epoch"),
        ("ShareFetch", 2, 2, None, "unanswered"),
        ("ShareAcknowledge", 3, [2, 3], 0, "advanced"),
        ("ShareFetch", 4, 4, -1, "advanced"),
        ("ShareFetch", 5, 5, 42, "refused"),
        ("ShareFetch", 0, 5, 0, "reopened"),
        ("ShareFetch", -1, 1, 0, "closed"),
        ("ShareFetch", 1, 0, 122, "not found"),
        ("ShareFetch", 0, 0, 133, "refused"),
    ]


def test_the_row_of_a_fetch_that_was_overtaken() -> None:
    talk = Conversation()
    a = opened(talk)
    waiting = a.share_fetch(1)
    a.on(talk.connection()).share_acknowledge(2).answered()
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    assert [row[-1] for row in rows(talk)] == ["opened", "overtaken", "advanced"]
    assert [step.packet for step in sessions(talk, steps=True)[0].steps] == [
        asked.sent for asked in talk.exchanges if "Share" in asked.api and asked.key != 76
    ]  # type: ignore[union-attr]


def test_without_steps_there_are_no_rows() -> None:
    talk = Conversation()
    opened(talk, 2)
    assert sessions(talk)[0].steps is None


def test_a_session_is_replaced_by_the_next() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    a.share_fetch(0).answered()
    assert how(talk) == ["reopened", "open"]
    assert [session.session for session in sessions(talk)] == [1, 2]


def test_a_session_ends_with_its_connection() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    b = a.on(talk.connection())
    a.connection.close()
    b.share_fetch(3).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(0).answered()
    assert how(talk) == ["connection_closed", "open"]


def test_a_session_outlives_its_connection_in_4_0() -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 2)
    b = a.on(talk.connection())
    a.connection.close()
    b.share_fetch(3).answered()
    assert how(talk) == ["open"]
    assert sessions(talk)[0].connections == 2


def test_sessions_end_with_the_broker() -> None:
    talk = Conversation()
    a, b = opened(talk, 2), opened(talk, 2, name="b")
    broker_closes(a.connection)
    broker_closes(b.connection)
    a.on(talk.connection()).share_fetch(0).answered()
    assert how(talk) == ["broker_restart", "broker_restart", "open"]


def test_a_connection_that_ended_before_the_broker_did_took_its_session_along() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    a.connection.reset()
    broker_refuses(talk)
    a.on(talk.connection()).share_fetch(0).answered()
    assert how(talk) == ["connection_closed", "open"]


def test_a_session_older_than_the_capture_has_no_opening() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(7).answered()
    (session,) = sessions(talk)
    assert session.opened is None
    assert session.first_epoch == 7


def test_a_session_that_never_was_has_no_ending() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert how(talk) == [None]


# -- how it ended


def test_the_packet_with_which_it_ended() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    again = a.share_fetch(0).answered()
    fin = len(talk.packets()) + 1
    a.connection.close()
    b = a.on(talk.connection())
    b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(0).answered()
    last = b.share_fetch(1).answered()
    assert closings(talk) == [("reopened", again.packet), ("connection_closed", fin), ("open", last.packet)]


def test_a_session_that_is_used_behind_its_connections_end_goes_on() -> None:
    """The release is not known, and it may be one whose sessions do not end so."""
    for how in ("accepted", "refused"):
        talk = Conversation(release=None)
        a = talk.member("a")
        a.share_fetch(0, version=0).answered()
        b = a.on(talk.connection())
        a.connection.close()
        used = b.share_fetch(1, version=0).answered(0 if how == "accepted" else INVALID_SHARE_SESSION_EPOCH)
        assert closings(talk) == [("open", used.packet)], how


def test_it_ends_with_the_connection_that_opened_it_alone() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    used = b.share_fetch(2).answered()
    b.connection.close()
    assert closings(talk) == [("open", used.packet)]


def test_a_session_gives_way() -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    talk.pause(121)
    lost = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert closings(talk) == [("evicted", lost.packet)]


def test_a_session_is_killed_by_an_old_connection() -> None:
    talk = Conversation(release="4.1")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    reset = a.connection.tcp.reset()
    b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.share_fetch(-1).answered(SHARE_SESSION_NOT_FOUND)
    assert closings(talk)[1:] == [("connection_closed", reset)]


def test_a_session_is_gone_for_a_reason_that_was_not_seen() -> None:
    """All that the capture shows is when it was last alive."""
    talk = Conversation()
    a = opened(talk, 1)
    last = a.share_fetch(1).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert closings(talk) == [("open", last.packet)]


def test_a_restart_ends_it_unless_its_connection_ended_before() -> None:
    talk = Conversation()
    a, b = opened(talk, 2), opened(talk, 2, name="b")
    broker_closes(a.connection)
    last = len(talk.packets()) + 2
    broker_closes(b.connection)
    assert last == len(talk.packets()) - 1
    assert {found for found, _ in closings(talk)} == {"broker_restart"}


def test_an_opening_that_fails_opens_none() -> None:
    for error, opens in ((0, True), (-1, True), (1, True), (42, False), (133, False), (122, False), (None, False)):
        talk = Conversation()
        asked = talk.member("a").share_fetch(0)
        if error is not None:
            asked.answered(error)
        found = sessions(talk)
        assert [session.opened is not None for session in found] == ([] if error == 42 else [opens]), error


def test_whoever_has_no_name_has_no_session() -> None:
    for name in ("", "x" * 37):
        talk = Conversation()
        Member(talk.connection(), "g", name).share_fetch(0).answered(-1)
        Member(talk.connection(), "g", name).share_fetch(1).answered(122)
        assert sessions(talk) == []


def test_what_is_refused_early_begins_no_session() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(1).answered(42)
    assert sessions(talk) == []
    a.share_fetch(0).answered()
    a.share_fetch(1).answered(42)
    assert [(session.requests, session.rejected) for session in sessions(talk)] == [(2, {"42": 1})]


def test_sessions_that_are_over_are_kept_as_bytes() -> None:
    """Of very many only the one that is told is an object, however often they are gone through, as a table does."""
    talk = Conversation()
    connection = talk.connection()
    for number in range(6):
        talk.member(f"m{number}", connection=connection).share_fetch(0).answered()
    analyzer, listed = Analyzer(sessions=True), PackedSessions()
    for event in events(talk):
        analyzer.feed(event)
        listed.add(analyzer.listed())
    analyzer.close()
    listed.add(analyzer.listed())
    del analyzer
    before = alive()
    told = [(plain(line).split()[1], alive() - before) for line in session_lines(listed, None)]
    assert [member[:3].rstrip("A") for member, _ in told[1:]] == [f"m{number}" for number in range(6)]
    assert max(objects for _, objects in told) <= 2


def alive() -> int:
    return sum(type(one) is ShareSession for one in gc.get_objects())
