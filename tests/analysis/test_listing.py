"""Share sessions as they are listed: opened, used, ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kshark import limits
from kshark.analysis import Analyzer, ShareSession, in_packet_order
from tests.analysis.talks import broker_closes, broker_refuses, opened
from tests.conversation import (
    BROKER,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    Thinned,
    events,
    findings,
)


def sessions(talk: Conversation | Thinned, *, steps: bool = False) -> list[ShareSession]:
    analyzer = Analyzer(steps=steps)
    for event in events(talk):
        list(analyzer.feed(event))
    list(analyzer.close())
    return analyzer.sessions()


def how(talk: Conversation | Thinned) -> list[str | None]:
    return [None if session.closed is None else session.closed.how for session in sessions(talk)]


def test_a_session_from_its_opening_to_its_final_epoch() -> None:
    talk = Conversation()
    a = opened(talk, 2)
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    last = a.share_acknowledge(-1).answered()
    first = talk.exchanges[2]
    (session,) = sessions(talk)
    assert (session.broker, session.group_id, session.member_id, session.session) == (BROKER, "g", a.member_id, 1)
    assert (session.first_epoch, session.last_epoch, session.requests, session.accepted) == (0, -1, 5, 4)
    assert (session.rejected, session.connections) == ({"123": 1}, 1)
    assert session.opened is not None
    assert session.opened.packet == first.packet
    assert session.closed is not None
    assert (session.closed.packet, session.closed.how) == (last.packet, "final_epoch")


def test_its_json_has_the_keys_that_users_rely_on() -> None:
    talk = Conversation()
    opened(talk, 1)
    keys: dict[str, Any] = msgspec.to_builtins(sessions(talk)[0])
    assert list(keys) == [
        "broker", "group_id", "member_id", "session", "opened", "closed", "first_epoch", "last_epoch", "requests", "accepted", "rejected",
        "connections",
    ]  # fmt: skip
    assert set(keys["opened"]) == {"packet", "time_ns"}
    assert set(keys["closed"]) == {"packet", "time_ns", "how"}


def test_a_row_for_every_request() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(2)
    a.on(talk.connection()).share_acknowledge(3).answered()
    (session,) = sessions(talk, steps=True)
    assert session.steps is not msgspec.UNSET
    rows = [(row.api, row.epoch, row.expected, row.error_code, row.outcome) for row in session.steps]
    assert rows == [
        ("ShareFetch", 0, None, 0, "opened"),
        ("ShareFetch", 1, 1, 0, "advanced"),
        ("ShareFetch", 3, 2, 123, "wrong epoch"),
        ("ShareFetch", 2, 2, None, "unanswered"),
        ("ShareAcknowledge", 3, [2, 3], 0, "advanced"),
    ]


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


def test_the_summary_counts_what_was_seen_and_found() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    analyzer = Analyzer()
    found = [finding for event in events(talk) for finding in analyzer.feed(event)]
    found += analyzer.close()
    assert analyzer.summary() == {
        "sessions": 1,
        "exchanges": len(talk.exchanges),
        "violations": 1,
        "unknown": 0,
        "notes": 0,
        "gaps": 0,
        "by_code": {"EPOCH_SKIP_AHEAD": 1},
    }
    assert in_packet_order(found) == found


def test_a_finding_is_there_as_soon_as_the_answer_is() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0).answered()
    analyzer = Analyzer()
    said: list[int] = []
    for event in events(talk):
        packet = getattr(event, "packet", said[-1] if said else 0)
        said += [packet for _ in analyzer.feed(event)]
    assert said[0] <= late.packet + 1


def test_a_lost_answer_does_not_hold_back_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_STEPS", 5)
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1)
    b = a.on(talk.connection())
    for epoch in range(2, 12):
        b.share_fetch(epoch).answered()
    analyzer = Analyzer(steps=True)
    for event in events(talk):
        list(analyzer.feed(event))
        waiting = [len(runner._queue) for runner in analyzer._runners.values()]
        assert max(waiting, default=0) <= 5
    list(analyzer.close())
    assert analyzer.sessions()[0].accepted == 11


def test_more_sessions_than_the_limit_forget_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 3)
    talk = Conversation()
    connection = talk.connection()
    members = [talk.member(name, connection=connection) for name in "abcdef"]
    for member in members:
        member.share_fetch(0).answered()
    wrong = members[0].share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    told = [(found.code, found.verdict, found.packet) for found in findings(talk)]
    assert ("SESSION_UNKNOWN", "unknown", wrong.packet) in told
    assert ("SESSIONS_FORGOTTEN", "note") in {(code, verdict) for code, verdict, _ in told}
    assert len(sessions(talk)) == 3
