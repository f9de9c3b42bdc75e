"""Why a broker says SHARE_SESSION_NOT_FOUND: what ended or prevented the session, and whether that was anybody's fault."""

from __future__ import annotations

import pytest

from tests.analysis.talks import (
    broker_closes,
    caused,
    codes,
    opened,
)
from tests.conversation import SHARE_SESSION_NOT_FOUND, Conversation, findings, note, unknown, violation


def test_a_session_is_used_after_its_final_epoch() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1).answered()
    after = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    again = a.share_fetch(3).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [
        violation("USE_AFTER_FINAL", after, blame="client", cause="final_epoch"),
        violation("USE_AFTER_FINAL", again, blame="client", cause="final_epoch"),
    ]


def test_a_final_epoch_without_an_answer_is_no_proof() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1)
    after = a.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", after, because="unanswered", cause="unknown")]


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_a_session_ends_with_the_connection_that_opened_it(release: str) -> None:
    talk = Conversation(release=release)
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [note("SESSION_UNKNOWN", lost, cause="connection_closed")]


def test_until_4_0_it_does_not() -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="hidden_traffic", cause="unknown")]


def test_which_of_the_two_is_not_known_without_the_release() -> None:
    talk = Conversation(release=None)
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.close()
    lost = b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="release_unknown", cause="unknown")]


def test_an_answered_version_tells_the_release_too() -> None:
    talk = Conversation(release=None)
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [note("SESSION_UNKNOWN", lost, cause="connection_closed")]


def test_a_session_survives_its_connection_where_the_broker_says_so() -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.reset()
    b.share_fetch(2).answered()
    assert ("BROKER_ACCEPTED_WRONG_EPOCH", "unknown") not in codes(talk)


@pytest.mark.parametrize(("release", "because"), [("4.2", "hidden_traffic"), (None, "release_unknown")])
def test_a_broker_is_not_blamed_for_that_where_its_release_is_another_or_unknown(release: str | None, because: str) -> None:
    talk = Conversation(release=release)
    a = opened(talk, 1)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.close()
    killed = b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", killed, because=because)]


def test_the_broker_restarts_and_closes_every_connection() -> None:
    talk = Conversation()
    a, b = opened(talk, 1), opened(talk, 1, name="b")
    broker_closes(a.connection)
    broker_closes(b.connection)
    lost = a.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [note("SESSION_UNKNOWN", lost, cause="broker_restart")]


def test_one_closed_connection_is_no_restart() -> None:
    talk = Conversation(release="4.0")
    a, _ = opened(talk, 1), opened(talk, 1, name="b")
    broker_closes(a.connection)
    lost = a.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="hidden_traffic")]


@pytest.mark.parametrize("release", ["4.1", "4.2", None])
def test_no_idle_session_gives_way_later(release: str | None) -> None:
    talk = Conversation(release=release)
    a = opened(talk, 1)
    talk.pause(121)
    lost = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="hidden_traffic")]


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("4.0", ("note", "session_limit", None, "unknown")),
        ("4.2", ("violation", "broker_anomaly", None, "broker")),
        (None, ("unknown", "unknown", "release_unknown", "unknown")),
    ],
)
def test_an_opening_is_answered_that_there_is_no_session(release: str | None, told: tuple[str, str, str | None, str]) -> None:
    talk = Conversation(release=release)
    talk.member("a").share_fetch(0).answered(SHARE_SESSION_NOT_FOUND)
    (found,) = findings(talk)
    assert (found.code, (found.verdict, found.cause, found.unknown_because, found.blame)) == ("SESSION_UNKNOWN", told)


def test_a_member_older_than_the_capture_may_have_opened_one() -> None:
    talk = Conversation()
    wrong = talk.member("a", joined=False).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert findings(talk) == [unknown("SESSION_UNKNOWN", wrong, because="beginning_not_seen", cause="unknown")]


def test_a_member_may_have_opened_one_on_a_connection_that_the_capture_missed() -> None:
    talk = Conversation()
    a = talk.member("a")
    wrong = a.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert findings(talk) == [unknown("SESSION_UNKNOWN", wrong, because="hidden_traffic", cause="unknown")]


def test_a_member_that_counts_on_has_opened_one_somewhere() -> None:
    talk = Conversation()
    wrong = talk.member("a").share_fetch(7).answered(SHARE_SESSION_NOT_FOUND)
    assert findings(talk) == [unknown("SESSION_UNKNOWN", wrong, because="beginning_not_seen")]


def test_an_opening_without_an_answer_may_have_failed() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0)
    wrong = a.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert findings(talk) == [unknown("SESSION_UNKNOWN", wrong, because="unanswered", cause="unknown")]


def test_what_took_the_session_stays_the_cause_until_a_new_one_is_opened() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    refused = [b.share_fetch(epoch).answered(SHARE_SESSION_NOT_FOUND) for epoch in (2, 3, -1)]
    assert caused(talk) == [note("SESSION_UNKNOWN", one, cause="connection_closed") for one in refused]
