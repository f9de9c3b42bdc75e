"""Promises of kshark.analysis.rules.membership and member_epochs: members and their coordinator."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    left,
    metadata,
    stranger,
    unchanged,
)
from tests.conversation import Conversation, Member, Told, note, unknown, violation


@promise
def a_member_joins_without_a_subscription() -> Said:
    talk = Conversation()
    wrong = talk.member("a", joined=False).heartbeat(0).answered(INVALID_REQUEST)
    return talk, [violation("JOIN_WITHOUT_SUBSCRIPTION", wrong, blame="client", cause="no_subscription")]


@promise
def a_member_may_join_without_a_subscription() -> Said:
    talk = Conversation()
    wrong = stranger(talk).heartbeat(0, []).answered(INVALID_REQUEST)
    return talk, [unknown("JOIN_WITHOUT_SUBSCRIPTION", wrong, because="resync", cause="no_subscription")]


@promise
def a_member_epoch_is_below_minus_one() -> Said:
    talk = Conversation()
    wrong = talk.member("a").heartbeat(-2).answered(INVALID_REQUEST)
    return talk, [violation("MEMBER_EPOCH_INVALID", wrong, blame="client", cause="invalid_epoch")]


@promise
def a_member_epoch_may_be_below_minus_one() -> Said:
    talk = Conversation()
    wrong = stranger(talk).heartbeat(-2).answered(INVALID_REQUEST)
    return talk, [unknown("MEMBER_EPOCH_INVALID", wrong, because="resync", cause="invalid_epoch")]


@promise
def a_heartbeat_has_no_group_id() -> Said:
    talk = Conversation()
    a = talk.member("a", joined=False)
    wrong = Member(a.connection, "", a.member_id).heartbeat(0, ["t"]).answered(INVALID_REQUEST)
    return talk, [violation("EMPTY_IDS", wrong, blame="client", cause="empty_id")]


@promise
def share_session_requests_have_no_group_id() -> Said:
    talk = Conversation()
    a = talk.member("a")
    nobodys = Member(a.connection, None, a.member_id)
    wrong = [nobodys.share_fetch(0).answered(INVALID_REQUEST), nobodys.share_acknowledge(1).answered(INVALID_REQUEST)]
    return talk, [violation("EMPTY_IDS", one, blame="client") for one in wrong]


@promise
def a_heartbeat_may_have_no_member_id() -> Said:
    talk = Conversation()
    wrong = Member(stranger(talk).connection, "g", "").heartbeat(0, ["t"]).answered(INVALID_REQUEST)
    return talk, [unknown("EMPTY_IDS", wrong, because="resync", cause="empty_id")]


@promise
def an_epoch_is_used_that_was_never_given() -> Said:
    talk = Conversation()
    wrong = talk.member("a").heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    return talk, [violation("MEMBER_EPOCH_AHEAD", wrong, blame="client", cause="ahead")]


@promise
def an_old_member_epoch_is_sent_again() -> Said:
    talk = Conversation()
    a = talk.member("a")
    for epoch in (1, 2, 3):
        a.heartbeat(epoch).given(epoch + 1)
    wrong = a.heartbeat(1).answered(FENCED_MEMBER_EPOCH)
    return talk, [violation("MEMBER_EPOCH_BEHIND", wrong, blame="client", cause="behind")]


@promise
def answers_with_newer_epochs_were_lost() -> Said:
    talk = Conversation()
    a = talk.member("a")
    for _ in range(2):
        a.heartbeat(1)
        a.connection.close()
        a = a.on(talk.connection())
    late = a.heartbeat(1).answered(
        FENCED_MEMBER_EPOCH, error_message="has a smaller member epoch (1) than the one known"
    )
    return talk, [note("MEMBER_EPOCH_BEHIND", late, cause="answer_lost")]


@promise
def an_answer_has_an_older_epoch_than_its_request() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1).given(2)
    wrong = a.heartbeat(2).given(1)
    return talk, [violation("EPOCH_REGRESSION_IN_RESPONSE", wrong, blame="broker")]


@promise
def an_answer_has_an_older_epoch_than_the_one_before() -> Said:
    talk = Conversation()
    a = talk.member("a")
    beats = a.on(talk.connection())
    a.heartbeat(1).given(2)
    odd = beats.heartbeat(1).given(1)
    return talk, [unknown("EPOCH_REGRESSION_IN_RESPONSE", odd, because="hidden_traffic")]


@promise
def a_newer_epoch_is_not_adopted() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1).given(2)
    kept = a.heartbeat(1).given(3)
    fenced = a.heartbeat(1).answered(FENCED_MEMBER_EPOCH)
    return talk, [
        violation("EPOCH_NOT_ADOPTED", kept.sent, blame="client"),
        violation("EPOCH_NOT_ADOPTED", fenced, blame="client", cause="not_adopted"),
    ]


@promise
def a_member_sends_heartbeats_after_it_left() -> Said:
    talk = Conversation()
    a = talk.member("a")
    left(a)
    wrong = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    twice = a.heartbeat(-1).answered(UNKNOWN_MEMBER_ID)
    return talk, [
        violation("HEARTBEAT_AFTER_LEAVE", wrong, blame="client", cause="left"),
        note("HEARTBEAT_AFTER_LEAVE", twice, cause="left"),
    ]


@promise
def a_member_may_never_have_joined() -> Said:
    talk = Conversation()
    odd = talk.member("a", joined=False).heartbeat(3).answered(GROUP_ID_NOT_FOUND)
    return talk, [unknown("HEARTBEAT_AFTER_LEAVE", odd, because="beginning_not_seen", cause="never_joined")]


@promise
def a_fenced_member_does_not_join_again() -> Said:
    talk = Conversation()
    a = talk.member("a")
    fenced = a.heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    again = a.heartbeat(9).answered(FENCED_MEMBER_EPOCH)
    served = a.heartbeat(1).given(1)
    return talk, [
        violation("MEMBER_EPOCH_AHEAD", fenced, blame="client", cause="ahead"),
        violation("NO_REJOIN_AFTER_FENCE", again.sent, blame="client"),
        violation("MEMBER_EPOCH_AHEAD", again, blame="client", cause="ahead"),
        unknown("NO_REJOIN_AFTER_FENCE", served.sent, because="hidden_traffic"),
    ]


@promise
def a_member_is_fenced_as_it_joins_again() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1).given(2)
    wrong = a.heartbeat(0, ["t"]).answered(FENCED_MEMBER_EPOCH)
    return talk, [violation("REJOIN_REFUSED", wrong, blame="broker", cause="rejoin_refused")]


@promise
def a_member_is_late() -> Said:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(11)
    late = unchanged(a)
    return talk, [note("HEARTBEAT_LATE", late)]


@promise
def a_member_is_too_late() -> Said:
    talk = Conversation()
    a = talk.member("a")
    talk.pause(46)
    late = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [note("HEARTBEAT_LATE", late, cause="expired")]


@promise
def a_member_is_too_late_and_fetched_meanwhile() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    talk.pause(30)
    a.share_fetch(1).answered()
    talk.pause(16)
    late = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [violation("HEARTBEAT_LATE", late, blame="client", cause="expired")]


@promise
def a_member_joins_and_receives_no_assignment() -> Said:
    talk = Conversation()
    wrong = talk.member("a", joined=False).heartbeat(0, ["t"]).given(1)
    return talk, [violation("ASSIGNMENT_MISSING", wrong, blame="broker")]


@promise
def an_assignment_may_be_missing() -> Said:
    talk = Conversation()
    wrong = stranger(talk).heartbeat(0, ["t"]).given(1)
    return talk, [unknown("ASSIGNMENT_MISSING", wrong, because="resync")]


@promise
def a_group_is_full() -> Said:
    talk = Conversation()
    full = talk.member("a", joined=False).heartbeat(0, ["t"]).answered(GROUP_MAX_SIZE_REACHED)
    return talk, [note("GROUP_FULL", full, cause="group_full")]


@promise
def a_group_is_of_another_type() -> Said:
    talk = Conversation()
    wrong = talk.member("a", joined=False).heartbeat(0, ["t"]).answered(GROUP_ID_NOT_FOUND)
    return talk, [violation("GROUP_TYPE_CONFLICT", wrong, blame="client", cause="other_type")]


@promise
def a_broker_does_not_coordinate_the_group() -> Said:
    talk = Conversation()
    a = talk.member("a", joined=False)
    return talk, [note("COORDINATOR_MOVED", a.heartbeat(0, ["t"]).answered(16), cause="not_coordinator")]


@promise
def a_coordinator_is_not_ready() -> Said:
    talk = Conversation()
    a = talk.member("a", joined=False)
    causes = {14: "loading", 15: "not_available"}
    findings: list[Told] = [
        note("COORDINATOR_NOT_READY", a.heartbeat(0, ["t"]).answered(error), cause=cause)
        for error, cause in causes.items()
    ]
    return talk, findings


@promise
def another_broker_coordinates_the_group() -> Said:
    talk = Conversation()
    a = talk.member("a")
    metadata(a.connection, {1: "10.0.0.9:9092", 2: "10.0.0.8:9092"})
    moved = unchanged(a.on(talk.connection("10.0.0.8:9092")))
    return talk, [note("COORDINATOR_MOVED", moved)]


@promise
def a_heartbeat_refusal_without_an_explanation() -> Said:
    talk = Conversation()
    odd = talk.member("a").heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [unknown("MEMBER_REFUSED", odd, because="hidden_traffic", cause="unknown")]
