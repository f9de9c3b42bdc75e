"""Why a broker says SHARE_SESSION_NOT_FOUND: what ended or prevented the session, and whether that was anybody's
fault."""

from __future__ import annotations

import pytest

from tests.analysis.talks import broker_closes, caused, codes, left, opened, unchanged
from tests.conversation import SHARE_SESSION_NOT_FOUND, Asked, Conversation, Member, findings, note, unknown


def ended_how(talk: Conversation) -> list[tuple[str, str, str | None]]:
    """Code, verdict and cause of each refusal."""
    return [(it.code, it.verdict, it.cause) for it in caused(talk)]


def used_after_final(*epochs: int, elsewhere: bool = False) -> list[str]:
    """Verdicts of requests that follow the closing epoch of a session which came to epoch 3."""
    talk = Conversation()
    a = opened(talk, 3)
    a.share_acknowledge(-1).answered()
    for epoch in epochs:
        (a.on(talk.connection()) if elsewhere else a).share_fetch(epoch).answered(SHARE_SESSION_NOT_FOUND)
    assert {code for code, _, _ in ended_how(talk)} == {"USE_AFTER_FINAL"}
    return [verdict for _, verdict, _ in ended_how(talk)]


def test_who_goes_on_counting_uses_the_closed_session() -> None:
    assert used_after_final(4) == ["violation"]
    assert used_after_final(4, elsewhere=True) == ["note"]
    assert used_after_final(4, 5, 5, 6) == ["violation"] * 4


def test_an_opening_without_an_answer_found_no_room_where_the_one_before_found_none() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered(133)
    b = a.on(talk.connection())
    b.share_fetch(0)
    b.connection.close()
    a.share_acknowledge(1).answered(SHARE_SESSION_NOT_FOUND)
    assert ended_how(talk) == [("SESSION_UNKNOWN", "note", "session_limit")]


def test_another_epoch_may_be_that_of_a_session_opened_unseen() -> None:
    for epoch in (1, 2, 3, 5, -1, 2_147_483_647):
        assert used_after_final(epoch) == ["note"], epoch
    for elsewhere in (False, True):
        assert used_after_final(7, 7, 8, 9, elsewhere=elsewhere) == ["note"] * 4
    assert used_after_final(1, 2) == ["note", "note"]


def test_a_session_that_was_opened_again_was_not_used_after_its_end() -> None:
    talk = Conversation()
    a = opened(talk, 3)
    for epoch in (-1, 0, 1):
        a.share_fetch(epoch).answered()
    gone = a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", gone, because="hidden_traffic")]


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
def test_a_broker_is_not_blamed_for_that_where_its_release_is_another_or_unknown(
    release: str | None, because: str
) -> None:
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
def test_an_opening_is_answered_that_there_is_no_session(
    release: str | None, told: tuple[str, str, str | None, str]
) -> None:
    talk = Conversation(release=release)
    talk.member("a").share_fetch(0).answered(SHARE_SESSION_NOT_FOUND)
    (found,) = findings(talk)
    assert (found.code, (found.verdict, found.cause, found.unknown_because, found.blame)) == ("SESSION_UNKNOWN", told)


def never_opened(talk: Conversation, asked: Asked) -> str | None:
    """Why it is not known that the member never opened a session; None where it is."""
    (found,) = findings(talk)
    assert (found.code, found.packet) == ("SESSION_UNKNOWN", asked.packet)
    assert (found.cause, found.verdict) == (
        ("never_opened", "note") if found.unknown_because is None else ("unknown", "unknown")
    )
    return found.unknown_because


def test_a_member_that_joined_before_may_have_opened_none() -> None:
    for epoch in (1, -1):
        talk = Conversation()
        assert never_opened(talk, talk.member("a").share_fetch(epoch).answered(SHARE_SESSION_NOT_FOUND)) is None


def test_a_member_older_than_the_capture_may_have_opened_one() -> None:
    talk = Conversation()
    asked = talk.member("a", joined=False).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert never_opened(talk, asked) == "beginning_not_seen"


def test_a_member_that_joins_late_may_have_opened_one_before() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    asked = a.share_fetch(1)
    a.on(talk.connection()).join()
    asked.answered(SHARE_SESSION_NOT_FOUND)
    assert never_opened(talk, asked) == "beginning_not_seen"


def test_a_member_may_have_opened_one_on_a_connection_that_the_capture_missed() -> None:
    talk = Conversation()
    asked = talk.member("a").on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert never_opened(talk, asked) == "hidden_traffic"


def test_a_member_that_counts_on_has_opened_one_somewhere() -> None:
    talk = Conversation()
    asked = talk.member("a").share_fetch(7).answered(SHARE_SESSION_NOT_FOUND)
    assert never_opened(talk, asked) == "beginning_not_seen"


def test_a_member_may_have_opened_one_where_bytes_are_missing() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.connection()
    other = Member(b, "g", "b" * 22)
    missing, _ = unchanged(other), unchanged(other)
    asked = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    (found,) = findings(talk.without_packets(missing.packets))
    assert (found.unknown_because, found.packet) == ("gap", asked.packet)


def test_a_member_may_have_opened_one_at_an_address_that_may_be_the_same_broker() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.on(talk.connection(broker="10.0.0.8:9092")).share_fetch(0).answered()
    assert never_opened(talk, a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)) == "hidden_traffic"


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


# -- sessions that are left open


def left_open(talk: Conversation) -> list[str]:
    return [it.argument for it in findings(talk) if it.code == "SESSION_NOT_CLOSED"]


def test_only_the_connection_that_opened_it_and_only_its_client_leave_it_open() -> None:
    for release in ("4.0", "4.2"):
        talk = Conversation(release=release)
        a = opened(talk, 1)
        b = a.on(talk.connection())
        b.share_fetch(2).answered()
        b.connection.close()
        assert left_open(talk) == []
        a.connection.reset()
        (text,) = left_open(talk)
        assert text.endswith(
            f"the client closed the connection (packet {len(talk.packets())}) without closing the session with epoch -1"
        )


def test_a_session_that_may_be_closed_is_not_left_open() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1)
    a.connection.close()
    assert left_open(talk) == []


def test_a_session_whose_opening_was_not_seen_is_not_left_open() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(7).answered()
    a.connection.close()
    assert left_open(talk) == []


def test_a_heartbeat_by_which_a_member_does_not_leave() -> None:
    """Another member's, one that was refused, one without an answer: the connection is what leaves the session open."""
    for beat in ("other", "refused", "silent"):
        talk = Conversation()
        a, b = opened(talk, 1), talk.member("b")
        (b if beat == "other" else a).heartbeat(-1)
        if beat != "silent":
            talk.exchanges[-1].answered(0 if beat == "other" else 25, member_id=a.member_id, member_epoch=-1)
        a.connection.close()
        (text,) = left_open(talk)
        assert "the client closed the connection" in text, beat


def test_a_member_that_opens_a_session_behind_its_leave_has_not_left() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    left(a)
    a.share_fetch(0).answered()
    a.connection.close()
    (text,) = left_open(talk)
    assert "the client closed the connection" in text


def test_a_member_leaves_two_brokers() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection(broker="10.0.0.8:9092"))
    b.share_fetch(0).answered()
    leave = left(a)
    for each in (a, b):
        each.connection.close()
    assert [(it.code, it.packet) for it in findings(talk)] == [("SESSION_NOT_CLOSED", leave.sent)] * 2


def test_a_session_is_closed_before_its_connection() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(-1).answered()
    a.connection.close()
    assert findings(talk) == []


def test_a_member_leaves_and_closes_its_session_afterwards() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    left(a)
    a.share_acknowledge(-1).answered()
    a.connection.close()
    assert findings(talk) == []


def test_a_broker_that_closes_the_connection_leaves_the_client_nothing_to_close() -> None:
    talk = Conversation()
    broker_closes(opened(talk, 1).connection)
    assert findings(talk) == []
