"""What a client does after a refusal, how often it opens sessions, and whether it closes them."""

from __future__ import annotations

from tests.analysis.talks import SHARE_SESSION_LIMIT_REACHED, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Asked,
    Conversation,
    Thinned,
    findings,
)


def verdicts(talk: Conversation | Thinned, code: str) -> list[tuple[str, str | None, int]]:
    return [(found.verdict, found.unknown_because, found.packet) for found in findings(talk) if found.code == code]


def at(asked: Asked) -> int:
    return asked.packets[-1]


def test_a_client_opens_a_new_session_after_a_refusal() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0).answered()
    a.share_fetch(1).answered()
    assert verdicts(talk, "NO_RECOVERY") == []


def test_a_new_session_opened_unseen_would_explain_epoch_one() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    accepted = a.share_fetch(1).answered()
    assert verdicts(talk, "NO_RECOVERY") == [("unknown", "hidden_traffic", at(accepted))]


def test_a_client_goes_on_without_a_session() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(-1).answered()
    a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    again = a.share_fetch(3).answered(SHARE_SESSION_NOT_FOUND)
    assert verdicts(talk, "NO_RECOVERY") == [("violation", None, at(again))]


def test_a_client_goes_on_though_there_was_no_room() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered(SHARE_SESSION_LIMIT_REACHED)
    on = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert verdicts(talk, "NO_RECOVERY") == [("unknown", "hidden_traffic", at(on))]


def test_a_pipelined_request_was_sent_before_the_refusal_came() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    first, second = a.share_fetch(3), a.share_fetch(4)
    first.answered(INVALID_SHARE_SESSION_EPOCH)
    second.answered(INVALID_SHARE_SESSION_EPOCH)
    assert verdicts(talk, "NO_RECOVERY") == []


def test_closing_after_a_refusal_is_no_going_on() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_acknowledge(-1).answered()
    assert verdicts(talk, "NO_RECOVERY") == []


def test_what_came_between_was_missed() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    missed = a.share_fetch(0).answered()
    for epoch in (1, 2, 3, 4):
        a.share_fetch(epoch).answered()
    thinned = talk.without_packets(missed.all_packets)
    assert [verdict for verdict, _, _ in verdicts(thinned, "NO_RECOVERY") if verdict == "violation"] == []


def test_a_session_opened_on_another_connection_long_before_the_next_request() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    talk.pause(5)
    unseen = [b.share_fetch(0).answered(), b.share_fetch(1).answered()]
    again = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    assert verdicts(talk, "NO_RECOVERY") == []
    thinned = talk.without_packets([packet for asked in unseen for packet in asked.all_packets])
    assert verdicts(thinned, "NO_RECOVERY") == [("unknown", "hidden_traffic", at(again))]


def test_a_connection_that_goes_on_at_once_waits_for_no_other() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    unseen = b.share_fetch(0).answered()
    again = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    for seen in (talk, talk.without_packets(unseen.all_packets)):
        assert verdicts(seen, "NO_RECOVERY") == [("violation", None, at(again))]


def test_sessions_are_opened_with_a_pause() -> None:
    talk = Conversation()
    a = opened(talk)
    for _ in range(4):
        talk.pause(0.2)
        a.share_fetch(0).answered()
    assert verdicts(talk, "REOPEN_HOT_LOOP") == []


def test_a_session_that_is_used_in_between_is_no_loop() -> None:
    talk = Conversation()
    a = talk.member("a")
    for _ in range(4):
        a.share_fetch(0).answered()
        a.share_fetch(1).answered()
    assert verdicts(talk, "REOPEN_HOT_LOOP") == []


def test_a_session_flaps() -> None:
    talk = Conversation()
    a = opened(talk)
    for _ in range(9):
        talk.pause(5)
        a.share_fetch(0).answered()
    assert [verdict for verdict, _, _ in verdicts(talk, "SESSION_FLAPPING")] == ["note"]


def test_sessions_opened_now_and_then_do_not_flap() -> None:
    talk = Conversation()
    a = opened(talk)
    for _ in range(9):
        talk.pause(30)
        a.share_fetch(0).answered()
    assert verdicts(talk, "SESSION_FLAPPING") == []
