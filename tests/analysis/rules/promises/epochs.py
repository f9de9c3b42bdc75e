"""Promises of kshark.analysis.rules.epochs: counting."""

from __future__ import annotations

from typing import Final

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import INVALID_REQUEST, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    unknown,
    violation,
)

LAST: Final = 2_147_483_647


@promise
def an_epoch_is_repeated() -> Said:
    talk = Conversation()
    again = opened(talk, 2).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_REPLAY", again, blame="client", cause="replay")]


@promise
def a_request_is_repeated_whose_answer_was_lost() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2)
    a.connection.tcp.reset(1)
    again = a.on(talk.connection()).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_REPLAY", again, blame="network", cause="replay")]


@promise
def an_old_epoch_is_used_again() -> Said:
    talk = Conversation()
    old = opened(talk, 4).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_STALE", old, blame="client", cause="stale")]


@promise
def an_epoch_is_skipped() -> Said:
    talk = Conversation()
    late = opened(talk, 1).share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_SKIP_AHEAD", late, blame="client", cause="skip_ahead")]


@promise
def an_unanswered_request_is_counted() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2)
    late = a.on(talk.connection()).share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_SKIP_AHEAD", late, blame="client", cause="skip_after_timeout")]


@promise
def the_epoch_after_the_highest_is_wrong() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(LAST).answered()
    wrong = a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_WRAP_ERROR", wrong, blame="client", cause="wrap")]


@promise
def epochs_are_below_minus_one() -> Said:
    talk = Conversation()
    a = talk.member("a")
    first = a.share_fetch(-3).answered(SHARE_SESSION_NOT_FOUND)
    a.share_fetch(0).answered()
    second = a.share_acknowledge(-LAST).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("EPOCH_NEGATIVE", wrong, blame="client", cause="negative") for wrong in (first, second)]


@promise
def a_share_acknowledge_has_epoch_zero() -> Said:
    talk = Conversation()
    wrong = talk.member("a").share_acknowledge(0, [(0, 0, 1)]).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("ACK_WITH_INITIAL_EPOCH", wrong, blame="client", cause="ack_epoch_zero")]


@promise
def a_broker_accepts_epochs_that_are_always_invalid() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    first, second = a.share_acknowledge(0).answered(), a.share_fetch(-2).answered()
    return talk, [violation("BROKER_ACCEPTED_WRONG_EPOCH", odd, blame="broker") for odd in (first, second)]


@promise
def a_broker_accepts_an_epoch_that_was_not_due() -> Said:
    talk = Conversation()
    odd = opened(talk, 1).share_fetch(5).answered()
    return talk, [unknown("BROKER_ACCEPTED_WRONG_EPOCH", odd, because="hidden_traffic")]


@promise
def a_broker_refuses_epochs_that_are_always_valid() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    opening = a.share_fetch(0).answered(INVALID_SHARE_SESSION_EPOCH)
    closing = a.share_acknowledge(-1).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [
        violation("BROKER_REJECTED_RIGHT_EPOCH", odd, blame="broker", cause="broker_anomaly")
        for odd in (opening, closing)
    ]


@promise
def a_client_counts_a_rejected_request() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    early = a.share_fetch(2, version=2, is_renew_ack=True).answered(INVALID_REQUEST)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [
        violation("RENEW_FLAG_MISUSE", early, blame="client"),
        violation("ADVANCED_AFTER_ERROR", late, blame="client", cause="skip_after_error"),
    ]


@promise
def fetches_and_acknowledgements_are_counted_separately() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_acknowledge(2, [(0, 0, 1)]).answered()
    a.share_acknowledge(3, [(1, 1, 1)]).answered()
    own = a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [violation("TWO_COUNTERS", own, blame="client", cause="two_counters")]


@promise
def a_broker_refuses_the_due_epoch() -> Said:
    talk = Conversation()
    odd = opened(talk, 1).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [unknown("EPOCH_REFUSED", odd, because="hidden_traffic", cause="unknown")]


@promise
def a_broker_refuses_the_due_epoch_after_acknowledgements() -> Said:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2, [0], acks=[(0, 4, 1)]).answered()
    odd = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, [unknown("EPOCH_REFUSED", odd, because="hidden_traffic", cause="after_acknowledgements")]
