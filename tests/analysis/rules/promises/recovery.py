"""Promises of kshark.analysis.rules.recovery: behaviour after a refusal, and how often sessions are opened."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import opened, stranger
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, note, unknown, violation


@promise
def a_session_is_reopened() -> Said:
    talk = Conversation()
    again = opened(talk, 1).share_fetch(0).answered()
    return talk, [note("SESSION_REOPEN", again)]


@promise
def a_session_is_opened_again_and_again() -> Said:
    talk = Conversation()
    a = talk.member("a")
    for _ in range(6):
        a.share_fetch(0).answered()
        a.share_fetch(-1).answered()
        talk.pause(5)
    return talk, [note("SESSION_FLAPPING", talk.exchanges[-2])]


@promise
def a_client_continues_after_a_refusal() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    again = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [
        violation("EPOCH_SKIP_AHEAD", first, blame="client", cause="skip_ahead"),
        violation("NO_RECOVERY", again.sent, blame="client"),
        violation("EPOCH_SKIP_AHEAD", again, blame="client", cause="skip_ahead"),
    ]


@promise
def a_client_may_have_continued_after_a_refusal() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    accepted = a.share_fetch(2).answered()
    return talk, [
        violation("EPOCH_SKIP_AHEAD", first, blame="client", cause="skip_ahead"),
        unknown("NO_RECOVERY", accepted.sent, because="hidden_traffic"),
    ]


@promise
def a_client_continues_so_late_that_it_may_have_had_a_session() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    talk.pause(1)
    again = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [
        violation("EPOCH_SKIP_AHEAD", first, blame="client", cause="skip_ahead"),
        unknown("NO_RECOVERY", again.sent, because="hidden_traffic"),
        violation("EPOCH_SKIP_AHEAD", again, blame="client", cause="skip_ahead"),
    ]


@promise
def sessions_are_opened_without_a_pause() -> Said:
    talk = Conversation()
    a = opened(talk)
    second, third = a.share_fetch(0).answered(), a.share_fetch(0).answered()
    return talk, [
        note("SESSION_REOPEN", second),
        violation("REOPEN_HOT_LOOP", third.sent, blame="client"),
        note("SESSION_REOPEN", third),
    ]


@promise
def sessions_may_have_been_opened_without_a_pause() -> Said:
    talk = Conversation()
    a = stranger(talk)
    *_, third = (a.share_fetch(0).answered() for _ in range(3))
    return talk, [unknown("REOPEN_HOT_LOOP", third.sent, because="resync")]
