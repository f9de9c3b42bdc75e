"""Promises of kshark.analysis.rules.requests: mistakes that one exchange shows."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import INVALID_REQUEST, handed, opened, stranger
from tests.conversation import Conversation, Member, unknown, violation


@promise
def an_opening_fetch_acknowledges() -> Said:
    talk = Conversation()
    wrong = talk.member("a").share_fetch(0, [0], acks=[(0, 4, 1)]).answered(INVALID_REQUEST)
    return talk, [violation("ACK_IN_INITIAL_FETCH", wrong, blame="client")]


@promise
def an_opening_fetch_may_acknowledge() -> Said:
    talk = Conversation()
    wrong = stranger(talk).share_fetch(0, [0], acks=[(0, 4, 1)]).answered(INVALID_REQUEST)
    return talk, [unknown("ACK_IN_INITIAL_FETCH", wrong, because="resync")]


@promise
def a_closing_fetch_lists_partitions() -> Said:
    talk = Conversation()
    wrong = opened(talk).share_fetch(-1, [0, 1]).answered()
    return talk, [violation("FINAL_WITH_PAYLOAD", wrong.sent, blame="client")]


@promise
def a_closing_fetch_may_list_partitions() -> Said:
    talk = Conversation()
    wrong = stranger(talk).share_fetch(-1, [0, 1]).answered()
    return talk, [unknown("FINAL_WITH_PAYLOAD", wrong.sent, because="resync")]


@promise
def a_member_id_is_too_long() -> Said:
    talk = Conversation()
    a = talk.member("a")
    long = Member(a.connection, "g", "x" * 37)
    fetch, heartbeat = long.share_fetch(0).answered(INVALID_REQUEST), long.heartbeat(0).answered(INVALID_REQUEST)
    return talk, [
        violation("MEMBER_ID_INVALID", fetch, blame="client"),
        violation("MEMBER_ID_INVALID", heartbeat, blame="client", cause="invalid_member_id"),
    ]


@promise
def a_member_id_may_be_too_long() -> Said:
    talk = Conversation()
    wrong = Member(stranger(talk).connection, "g", "x" * 37).share_fetch(0).answered(INVALID_REQUEST)
    return talk, [unknown("MEMBER_ID_INVALID", wrong, because="resync")]


#: Limits of a fetch that only renews locks.
NOTHING = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 0,
    "max_records": 0,
    "share_acquire_mode": 0,
    "is_renew_ack": True,
    "version": 2,
}
RENEW = 4


@promise
def a_renewal_asks_for_records_too() -> Said:
    talk = Conversation()
    asked = {**NOTHING, "max_records": 500}
    wrong = opened(talk).share_fetch(1, [0], acks=[(0, 4, RENEW)], **asked).answered(INVALID_REQUEST)  # type: ignore[arg-type]
    return talk, [violation("RENEW_FLAG_MISUSE", wrong, blame="client")]


@promise
def a_renewal_may_renew_nothing() -> Said:
    talk = Conversation()
    wrong = stranger(talk).share_fetch(1, [0], **NOTHING).answered()  # type: ignore[arg-type]
    return talk, [unknown("RENEW_FLAG_MISUSE", wrong, because="resync")]


@promise
def a_renewal_receives_records() -> Said:
    talk = Conversation()
    wrong = opened(talk).share_fetch(1, [0], acks=[(0, 4, RENEW)], **NOTHING)  # type: ignore[arg-type]
    return talk, [violation("RECORDS_ON_RENEW", wrong.answered(responses=handed((0, 5, 9))), blame="broker")]


@promise
def a_renewal_may_receive_records() -> Said:
    talk = Conversation()
    wrong = stranger(talk).share_fetch(1, [0], acks=[(0, 4, RENEW)], **NOTHING)  # type: ignore[arg-type]
    return talk, [unknown("RECORDS_ON_RENEW", wrong.answered(responses=handed((0, 5, 9))), because="resync")]
