"""Promises of kshark.analysis.rules.consumer_members, and of the rules of members that hold for consumers, too."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, left, metadata, stranger
from tests.conversation import Conversation, Member, note, unknown, violation


@promise
def a_consumer_uses_an_epoch_that_was_never_given() -> Said:
    talk = Conversation()
    wrong = talk.consumer("a").heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    return talk, [violation("CONSUMER_EPOCH_FENCED", wrong, blame="client", cause="ahead")]


@promise
def a_consumer_sends_an_old_epoch_again() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    for epoch in (1, 2, 3):
        a.heartbeat(epoch).given(epoch + 1)
    wrong = a.heartbeat(1).answered(FENCED_MEMBER_EPOCH)
    return talk, [violation("CONSUMER_EPOCH_FENCED", wrong, blame="client", cause="behind")]


@promise
def a_consumer_does_not_adopt_its_epoch() -> Said:
    """The coordinator takes the epoch before once, and fences a member that still owns what it lost since."""
    talk = Conversation()
    a = talk.consumer("a")
    a.heartbeat(1).given(2)
    kept = a.heartbeat(1).given(2)
    fenced = a.heartbeat(1).answered(FENCED_MEMBER_EPOCH)
    return talk, [
        violation("EPOCH_NOT_ADOPTED", kept.sent, blame="client"),
        violation("CONSUMER_EPOCH_FENCED", fenced, blame="client", cause="not_adopted"),
    ]


@promise
def a_consumer_did_not_get_its_newer_epochs() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    for _ in range(2):
        a.heartbeat(1)
        a.connection.close()
        a = a.on(talk.connection())
    late = a.heartbeat(1).answered(
        FENCED_MEMBER_EPOCH, error_message="has a smaller member epoch (1) than the one known"
    )
    return talk, [note("CONSUMER_EPOCH_FENCED", late, cause="answer_lost")]


@promise
def two_hosts_use_one_member_id() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    a.on(talk.connection(host="10.0.0.2")).heartbeat(1).given(2)
    fenced = a.heartbeat(1).answered(FENCED_MEMBER_EPOCH)
    return talk, [note("CONSUMER_EPOCH_FENCED", fenced, cause="replaced")]


@promise
def a_consumer_joins_again_too_early() -> Said:
    talk = Conversation()
    fenced = talk.consumer("a").heartbeat(0, ["t"]).answered(FENCED_MEMBER_EPOCH)
    return talk, [note("CONSUMER_EPOCH_FENCED", fenced, cause="rejoin_refused")]


@promise
def a_consumer_is_silent_for_too_long() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    talk.pause(46)
    late = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [note("CONSUMER_EPOCH_FENCED", late, cause="expired")]


@promise
def a_consumer_may_be_fenced_for_no_visible_reason() -> Said:
    talk = Conversation()
    fenced = stranger(talk).connection
    odd = talk.consumer("a", fenced, joined=False).heartbeat(3).answered(FENCED_MEMBER_EPOCH)
    return talk, [unknown("MEMBER_REFUSED", odd, because="beginning_not_seen", cause="unknown")]


@promise
def a_consumer_gets_an_older_epoch() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    a.heartbeat(1).given(2)
    wrong = a.heartbeat(2).given(1)
    return talk, [violation("EPOCH_REGRESSION_IN_RESPONSE", wrong, blame="broker")]


@promise
def a_consumer_goes_on_after_it_left() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    left(a)
    wrong = a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [violation("HEARTBEAT_AFTER_LEAVE", wrong, blame="client", cause="left")]


@promise
def a_consumer_does_not_join_again() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    first = a.heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    again = a.heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    return talk, [
        violation("CONSUMER_EPOCH_FENCED", first, blame="client", cause="ahead"),
        violation("NO_REJOIN_AFTER_FENCE", again.sent, blame="client"),
        violation("CONSUMER_EPOCH_FENCED", again, blame="client", cause="ahead"),
    ]


@promise
def a_consumer_is_late() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    talk.pause(11)
    late = a.heartbeat(1).given(1)
    return talk, [note("HEARTBEAT_LATE", late)]


@promise
def a_consumer_moves_to_another_broker() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    metadata(a.connection, {1: "10.0.0.9:9092", 2: "10.0.0.8:9092"})
    moved = a.on(talk.connection("10.0.0.8:9092")).heartbeat(1).given(1)
    return talk, [note("COORDINATOR_MOVED", moved)]


@promise
def offsets_are_committed_to_a_share_group() -> Said:
    """Without a member. With a generation, the group may be gone."""
    talk = Conversation()
    nobody = Member(talk.connection(), "g", "")
    wrong = nobody.commit(-1).committed(GROUP_ID_NOT_FOUND)
    nobody.commit(3).committed(GROUP_ID_NOT_FOUND)
    return talk, [violation("GROUP_TYPE_CONFLICT", wrong, blame="client")]
