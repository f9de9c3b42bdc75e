"""Why a member gets nothing: the answer, for each way in which that may be."""

from __future__ import annotations

from tests.analysis.talks import UNKNOWN_MEMBER_ID, assigned, broker_closes, handed, unchanged
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, Member
from tests.metrics.talks import member_of


def idle(talk: Conversation, member: Member, *epochs: int, partitions: tuple[int, ...] = ()) -> None:
    """Fetches that wait their whole time, for nothing."""
    for epoch in epochs:
        asked = member.share_fetch(epoch, partitions if epoch == 0 else ())
        talk.pause(0.6)
        asked.answered()


def test_whoever_gets_records_is_in_no_trouble() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 9, 1)]).answered()
    assert member_of(talk).trouble is None


def test_there_was_nothing_to_get() -> None:
    talk = Conversation()
    idle(talk, talk.member("a"), 0, 1, partitions=(0,))
    assert (
        member_of(talk).trouble
        == "got no records: 2 fetches returned none, and no member acquired records of its partitions"
    )


def test_others_got_them() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    b.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    b.share_acknowledge(1, [(0, 9, 1)]).answered()
    idle(talk, a, 0, partitions=(0,))
    assert (
        member_of(talk).trouble
        == "got no records: 1 fetch returned none, others acquired 10 records of its partitions and hold none now"
    )


def test_another_holds_them() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    b.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=30_000)
    idle(talk, a, 0, partitions=(0,))
    assert member_of(talk).trouble == "got no records: 10 records of t[0] are acquired by c1"


def test_it_holds_them_itself_and_stopped_getting_any() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=30_000)
    idle(talk, a, 1, 2, 3, 4, 5)
    assert (
        member_of(talk).trouble
        == "got no records for 2.41 s, until its last fetch: 10 records of t[0] are acquired by itself"
    )


def test_all_it_asks_is_refused() -> None:
    talk = Conversation()
    a = talk.member("a")
    for epoch in (5, 6, 7):
        a.share_fetch(epoch).answered(INVALID_SHARE_SESSION_EPOCH)
    assert member_of(talk).trouble == "got no records: 3 of 3 fetches failed with 123 INVALID_SHARE_SESSION_EPOCH ×3"


def test_some_of_what_it_asks_is_refused() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 9, 1)]).answered(acks={0: 121})
    assert member_of(talk).trouble == (
        "got records, but 1 of 2 fetches failed with 123 INVALID_SHARE_SESSION_EPOCH ×1"
        "; 10 of 10 acknowledgements were rejected with 121 INVALID_RECORD_STATE ×10"
    )


def test_nobody_answers() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0])
    broker_closes(a.connection)
    assert member_of(talk).trouble == "got no records: the capture has no response to 1 of 1 fetches"


def test_it_is_not_in_the_group() -> None:
    talk = Conversation()
    talk.member("a", joined=False).heartbeat(3).answered(UNKNOWN_MEMBER_ID)
    assert (
        member_of(talk).trouble
        == "got no records: it sent no ShareFetch; its heartbeats failed with 25 UNKNOWN_MEMBER_ID ×1"
    )


def test_it_has_no_partition() -> None:
    talk = Conversation()
    talk.member("a")
    assert member_of(talk).trouble == "got no records: no partition was assigned to it"


def test_it_does_not_fetch() -> None:
    talk = Conversation()
    assigned(talk.member("a"), 0, 1)
    assert (
        member_of(talk).trouble == "got no records: it sent no ShareFetch, although partitions are assigned to it (2)"
    )


def test_what_it_was_assigned_is_not_in_the_capture() -> None:
    talk = Conversation()
    unchanged(talk.member("a", joined=False))
    assert member_of(talk).trouble == "got no records: it sent no ShareFetch, and its assignment is not in the capture"
