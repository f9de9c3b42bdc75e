"""Mistakes that one exchange shows by itself, and the partitions of a session."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analysis.talks import INVALID_REQUEST, UNKNOWN_SERVER_ERROR, codes, opened
from tests.conversation import TOPIC, Asked, Conversation, Member, findings, note, violation


def only(talk: Conversation, code: str) -> list[tuple[str, int]]:
    return [(found.verdict, found.packet) for found in findings(talk) if found.code == code]


def test_brokers_before_4_1_took_that() -> None:
    talk = Conversation(release="4.0")
    talk.member("a").share_fetch(0, [0], acks=[(0, 4, 1)], version=0).answered()
    assert findings(talk) == []


@pytest.mark.parametrize("request_", [{"partitions": [0], "acks": [(0, 4, 1)]}, {"forget": [0]}, {}])
def test_a_closing_fetch_may_acknowledge_and_forget(request_: dict[str, Any]) -> None:
    talk = Conversation()
    opened(talk).share_fetch(-1, **request_).answered()
    assert findings(talk) == []


def test_a_partition_is_listed_twice() -> None:
    talk = Conversation()
    a = opened(talk)
    wrong = a.share_fetch(1, [0, 1, 0]).answered()
    assert only(talk, "DUPLICATE_PARTITION_ENTRY") == [("violation", wrong.packets[-1])]
    (found,) = findings(talk)
    assert (found.topic_id, found.partition) == (TOPIC, 0)


@pytest.mark.parametrize(("name", "error"), [("", INVALID_REQUEST), ("x" * 37, INVALID_REQUEST), ("x" * 37, UNKNOWN_SERVER_ERROR)])
def test_a_member_id_that_no_broker_takes(name: str, error: int) -> None:
    talk = Conversation()
    a = talk.member("a")
    wrong = Member(a.connection, "g", name).share_fetch(0).answered(error)
    assert findings(talk) == [violation("MEMBER_ID_INVALID", wrong, blame="client")]


def test_a_member_id_of_36_characters() -> None:
    talk = Conversation()
    a = talk.member("a")
    Member(a.connection, "g", "x" * 36).share_fetch(0).answered()
    assert findings(talk) == []


def handed(*ranges: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Acquired records, by (partition, first, last)."""
    partitions = [
        {"partition_index": p, "acquired_records": [{"first_offset": first, "last_offset": last, "delivery_count": 1}], "records": b""}
        for p, first, last in ranges
    ]
    return [{"topic_id": TOPIC, "partitions": partitions}]


def assigned(a: Member, *partitions: int) -> Asked:
    """A heartbeat whose answer assigns these partitions."""
    assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": list(partitions)}]}
    return a.heartbeat(1).answered(member_id=a.member_id, member_epoch=1, assignment=assignment)


def phantom(a: Member) -> Asked:
    """Partition 1 is forgotten, then listed to acknowledge, and stays: its records come twice more."""
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, forget=[1]).answered()
    brought = a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(3).answered(responses=handed((1, 5, 9)))
    a.share_fetch(4).answered(responses=handed((1, 10, 14)))
    return brought


def test_a_partition_listed_to_acknowledge_stays_in_the_session() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    brought = phantom(a)
    a.heartbeat(1).answered(member_id=a.member_id, member_epoch=1, assignment=None)
    assert only(talk, "PHANTOM_SESSION_PARTITION") == [("violation", brought.packets[-1])]


def test_without_a_later_heartbeat_another_assignment_may_have_come() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    phantom(a)
    assert [verdict for verdict, _ in only(talk, "PHANTOM_SESSION_PARTITION")] == ["unknown"]


def test_a_heartbeat_with_another_epoch_shows_that_an_assignment_was_missed() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    phantom(a)
    a.heartbeat(2).answered(member_id=a.member_id, member_epoch=2, assignment=None)
    assert [verdict for verdict, _ in only(talk, "PHANTOM_SESSION_PARTITION")] == ["unknown"]


def test_it_may_have_been_meant_to_be_fetched() -> None:
    talk = Conversation()
    phantom(talk.member("a"))
    assert [verdict for verdict, _ in only(talk, "PHANTOM_SESSION_PARTITION")] == ["unknown"]


def test_an_assigned_partition_may_be_listed_to_acknowledge() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0, 1)
    phantom(a)
    assert only(talk, "PHANTOM_SESSION_PARTITION") == []


def test_a_partition_listed_to_acknowledge_and_forgotten_at_once_is_gone() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, [1], acks=[(0, 4, 1)], forget=[1]).answered()
    a.share_fetch(2).answered(responses=handed((0, 0, 4)))
    assert findings(talk) == []


def test_a_partition_is_forgotten_that_the_session_does_not_hold() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    strange = a.share_fetch(1, forget=[7]).answered()
    assert findings(talk) == [note("FORGET_UNKNOWN", strange)]


def test_which_partitions_an_older_session_holds_is_not_known() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(4).answered()
    a.share_fetch(5, forget=[7]).answered()
    assert findings(talk) == []


def test_a_partition_is_forgotten_while_its_records_are_held() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 4, 1)]).answered()
    held = a.share_fetch(2, forget=[0]).answered()
    assert findings(talk) == [note("UNRELEASED_ON_FORGET", held)]
    assert "5 records" in findings(talk)[0].argument


def test_a_partition_is_forgotten_after_its_lock_ran_out() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    talk.pause(3)
    a.share_fetch(1, forget=[0]).answered()
    assert codes(talk) == []
