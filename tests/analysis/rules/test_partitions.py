"""The partitions of a session: what is said of those that are listed to acknowledge, forgotten, or still held."""

from __future__ import annotations

from tests.analysis.rules.promises.partitions import phantom
from tests.analysis.talks import assigned, codes, handed, opened, unchanged
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, TOPIC, Conversation, findings, note


def test_the_partition_is_named() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    phantom(a)
    unchanged(a)
    a.share_fetch(5, forget=[7]).answered()
    assert [(it.code, it.topic_id, it.partition) for it in findings(talk)] == [
        ("UNRELEASED_ON_FORGET", TOPIC, 1),
        ("PHANTOM_SESSION_PARTITION", TOPIC, 1),
        ("FORGET_UNKNOWN", TOPIC, 7),
    ]


def test_a_partition_listed_to_acknowledge_and_forgotten_at_once_is_gone() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, [1], acks=[(0, 4, 1)], forget=[1]).answered()
    a.share_fetch(2).answered(responses=handed((0, 0, 4)))
    assert findings(talk) == []


def test_a_partition_that_is_listed_or_forgotten_with_the_fetch_is_no_phantom() -> None:
    for asked in ({"partitions": [1]}, {"forget": [1]}):
        talk = Conversation()
        a = talk.member("a")
        assigned(a, 0)
        a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
        a.share_fetch(1, [1], acks=[(0, 4, 1)]).answered()
        a.share_fetch(2, **asked).answered(responses=handed((1, 5, 9)))  # type: ignore[arg-type]
        unchanged(a)
        assert codes(talk) == []


def test_records_of_the_other_partition_come_first() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(2).answered(responses=handed((0, 0, 4), (1, 5, 9)))
    unchanged(a)
    assert codes(talk) == [("PHANTOM_SESSION_PARTITION", "violation")]


def test_an_acknowledgement_hands_out_nothing() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, [1], acks=[(0, 4, 1)]).answered()
    a.share_acknowledge(2).answered()
    unchanged(a)
    assert codes(talk) == []


def test_a_partition_that_is_listed_and_forgotten_is_not_strange() -> None:
    talk = Conversation()
    opened(talk).share_fetch(1, [7], forget=[7]).answered()
    assert findings(talk) == []


def test_which_partitions_an_older_session_holds_is_not_known() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(4).answered()
    a.share_fetch(5, forget=[7]).answered()
    assert findings(talk) == []


def test_which_partitions_it_holds_is_not_known_behind_what_was_missed() -> None:
    talk = Conversation()
    a = opened(talk, 3)
    a.share_fetch(4, forget=[7]).answered()
    assert codes(talk) == [("FORGET_UNKNOWN", "note")]
    assert codes(talk.without_exchange(3)) == []


def test_the_first_strange_partition_is_named() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_fetch(1, forget=[0, 8, 7]).answered()
    assert [it.partition for it in findings(talk)] == [8]


def test_a_partition_is_forgotten_after_its_lock_ran_out() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    talk.pause(3)
    a.share_fetch(1, forget=[0]).answered()
    assert codes(talk) == []


def test_of_several_forgotten_partitions_the_one_that_is_held() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 9)))
    held = a.share_fetch(1, forget=[0, 1]).answered()
    assert findings(talk) == [note("UNRELEASED_ON_FORGET", held)]
    assert findings(talk)[0].partition == 1


def test_what_is_refused_forgets_nothing() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(5, forget=[0, 7]).answered(INVALID_SHARE_SESSION_EPOCH)
    assert codes(talk) == [("EPOCH_SKIP_AHEAD", "violation")]
