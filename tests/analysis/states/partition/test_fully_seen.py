"""What a member was not seen to be handed, it was handed where the capture may lack that; what it gave back itself is
seen all the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analysis.coordinators import ACCEPTED, AVAILABLE, Sender
from tests.analysis.talks import assigned, handed
from tests.conversation import Asked, Conversation, Member, Thinned, findings, note, unknown, violation

ACCEPT, RELEASE = 1, 2
UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, UNKNOWN_TOPIC_ID, INVALID_RECORD_STATE = 3, 42, 100, 121


def acquires(member: Member, epoch: int, *ranges: tuple[int, ...]) -> Asked:
    responses = handed(*((0, *one) for one in ranges))
    return member.share_fetch(epoch, [0] if epoch == 0 else []).answered(
        responses=responses, acquisition_lock_timeout_ms=30_000
    )


def refused(member: Member, epoch: int, first: int, last: int, error: int = INVALID_RECORD_STATE) -> Asked:
    return member.share_acknowledge(epoch, [(first, last, ACCEPT)]).answered(acks={0: error})


def causes(talk: Conversation | Thinned) -> list[tuple[str, str]]:
    return [(one.code, one.verdict) for one in findings(talk) if one.cause is not None]


# -- what the member has done itself


@pytest.mark.parametrize("count", [1, 5])
def test_who_gives_records_back_has_them_no_more_whether_others_get_them_or_nobody(count: int) -> None:
    """At the last delivery they are archived: either way the member has let go of them."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9, count))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    asked = refused(a, 2, 0, 9)
    assert findings(talk) == [violation("ACK_NOT_ACQUIRED", asked, cause="not_acquired")]


def test_in_another_session_it_may_have_been_handed_them_again() -> None:
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    a.share_fetch(0, [0]).answered()
    asked = refused(a, 1, 0, 9)
    assert unknown("ACK_REFUSED", asked, "hidden_traffic") in findings(talk)


@pytest.mark.parametrize("given", [(5, (5, 9, AVAILABLE, 1)), (0, (0, 4, ACCEPTED, 1), (5, 9, AVAILABLE, 1))])
def test_what_was_accepted_stays_so_when_the_leader_reads_the_state_anew(given: Any) -> None:
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    a.share_acknowledge(1, [(0, 4, ACCEPT)]).answered()
    Sender(talk.connection()).read().given(*given)
    asked = a.share_acknowledge(2, [(0, 4, ACCEPT)]).answered()
    assert findings(talk) == [violation("DOUBLE_ACK", asked, cause="twice")]


# -- what it was not seen to do


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (INVALID_REQUEST, "ACK_NOT_ACQUIRED"),
        (UNKNOWN_TOPIC_ID, "TOPIC_ID_UNKNOWN"),
        (INVALID_RECORD_STATE, "ACK_NOT_OWNER"),
    ],
)
def test_nothing_is_hidden_in_a_session_of_which_every_epoch_is_there(error: int, code: str) -> None:
    """An epoch that is missing was on a connection that the capture lacks, and may have handed them out."""

    def talk(*, is_whole: bool) -> Conversation:
        talk = Conversation()
        a, b = talk.member("a"), talk.member("b")
        if code != "TOPIC_ID_UNKNOWN":
            acquires(b, 0, (0, 9))
        a.share_fetch(0, [0]).answered()
        a.share_fetch(1 if is_whole else 2).answered()
        refused(a, 2 if is_whole else 3, *((500, 509) if error == INVALID_REQUEST else (0, 9)), error)
        return talk

    assert (code, "violation") in causes(talk(is_whole=True))
    assert (code, "violation") not in causes(talk(is_whole=False))
    rest = ("TOPIC_ID_UNKNOWN", "note") if error == UNKNOWN_TOPIC_ID else ("ACK_REFUSED", "unknown")
    assert rest in causes(talk(is_whole=False))


def test_who_joined_before_the_capture_may_have_been_handed_anything() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    acquires(a, 0, (0, 9))
    asked = refused(a, 1, 500, 509, INVALID_REQUEST)
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "beginning_not_seen")]


def test_a_restart_hands_nothing_out() -> None:
    """What nobody was handed before the broker went down is past its end behind that, too."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    Sender(talk.connection()).read().given(0, (0, 9, AVAILABLE, 1))
    asked = refused(a, 1, 500, 509, INVALID_REQUEST)
    assert findings(talk) == [violation("ACK_NOT_ACQUIRED", asked, cause="beyond_end")]


def test_what_another_member_has_may_have_been_ones_own_in_a_session_before() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0).answered()
    a.share_acknowledge(-1).answered()
    acquires(b, 0, (0, 9))
    a.share_fetch(0).answered()
    asked = refused(a, 1, 0, 9)
    assert unknown("ACK_REFUSED", asked, "beginning_not_seen") in findings(talk)


def test_of_an_assigned_partition_another_broker_may_have_handed_records_out() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    asked = refused(a, 1, 0, 9, UNKNOWN_TOPIC_OR_PARTITION)
    assert findings(talk) == [violation("ACK_NOT_ACQUIRED", asked, cause="nothing_acquired")]
    assigned(a, 0)
    again = refused(a, 2, 0, 9, UNKNOWN_TOPIC_OR_PARTITION)
    assert findings(talk)[1:] == [note("ACK_WRONG_LEADER", again)]


def test_an_answer_that_is_missing_may_have_handed_them_out_again() -> None:
    """The session goes on all the same, so that nothing but the answer tells."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    lost = acquires(a, 2, (0, 9, 2))
    b = a.on(talk.connection())
    asked = refused(b, 3, 0, 9)
    assert ("ACK_NOT_ACQUIRED", "violation") not in causes(talk.without_packets(lost.answer_packets))
    assert asked.answer_packets


def test_what_may_have_been_done_with_is_not_known_to_have_been_acknowledged() -> None:
    """The end of a connection took the records, or another member's session: delivered for the last time they would be
    archived, and an acknowledgement passed over in silence. Then the next one is the first."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 0, 5)), acquisition_lock_timeout_ms=30_000)
    talk.member("b", connection=a.connection).share_fetch(0, [1]).answered()
    a.connection.close()
    again = talk.member("a", connection=talk.connection(), joined=False)
    again.share_fetch(0, [0]).answered()
    again.share_acknowledge(1, [(0, 0, ACCEPT)]).answered()
    again.share_acknowledge(2, [(0, 0, ACCEPT)]).answered()
    assert {found.code for found in findings(talk)} == {"SESSION_NOT_CLOSED"}
