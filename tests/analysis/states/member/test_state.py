"""What heartbeats tell of a member: its assignment as of a packet, and until when that is known."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.states.member.state import Member, Members, NotAssigned
from tests.analysis.rules.promises.partitions import phantom
from tests.analysis.talks import assigned, handed, unchanged
from tests.conversation import BROKER, Conversation, findings, note, unknown

ONE, TWO = ("t", 1), ("t", 2)


def told(member: Member, *packets: int) -> list[bool | None]:
    """Whether partition 1 was assigned, as of these packets."""
    return [member.is_assigned(ONE, packet) for packet in packets]


def test_an_assignment_holds_from_its_answer_on() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(20, 1, 21, 2, frozenset({TWO}))
    assert told(member, 10, 11, 20, 21, 99) == [None, True, True, False, False]


def test_an_answer_without_one_leaves_everything_as_it_was() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(20, 1, 21, 1, None)
    assert told(member, 99) == [True]
    assert member.assignments[-1].confirmed == 20


def test_an_epoch_that_was_not_seen_given_came_with_an_assignment_that_was_missed() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(20, 1, 21, 1, None)
    member.heartbeat(30, 3, 31, 3, None)
    assert told(member, 19, 20, 30, 99) == [True, None, None, None]


def test_what_was_never_confirmed_is_known_for_its_own_packet() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(30, 3, None, None, None)
    assert told(member, 11, 12, 99) == [True, None, None]


def test_whoever_joins_again_is_told_anew() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(20, 0, 21, 2, frozenset({TWO}))
    assert told(member, 15, 99) == [True, False]
    member.heartbeat(30, 0, None, None, None)
    assert told(member, 15, 99) == [True, None]


def test_whoever_joins_again_does_not_confirm_what_it_was_told_before() -> None:
    """Its leave may be missing, and before that an assignment."""
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({TWO}))
    early, late = NotAssigned(member, ONE, 15), NotAssigned(member, ONE, 25)
    member.heartbeat(20, 1, 21, 1, None)
    assert (early.holds(), late.holds()) == (True, None)
    member.heartbeat(40, 0, 41, 7, frozenset({TWO}))
    member.heartbeat(50, 7, 51, 7, None)
    assert (early.holds(), late.holds()) == (True, False)


def test_a_request_without_an_answer_may_still_be_confirmed() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    member.heartbeat(20, 1, None, None, None)
    assert (member.epoch, member.assignments[-1].confirmed) == (1, 20)
    assert told(member, 99) == [True]


def test_the_last_assignments_are_remembered() -> None:
    member = Member()
    for at in range(20):
        member.heartbeat(10 * at, at, 10 * at + 1, at + 1, frozenset({ONE}))
    assert len(member.assignments) == 16
    assert told(member, 45, 41, 40) == [True, True, None]


def test_proof_that_a_partition_was_not_assigned() -> None:
    member = Member()
    member.heartbeat(10, 0, 11, 1, frozenset({ONE}))
    assert NotAssigned(member, ONE, 15).holds() is False
    assert NotAssigned(member, TWO, 15).holds() is None
    assert NotAssigned(member, TWO, 5).holds() is False
    member.heartbeat(15, 1, 16, 1, None)
    assert NotAssigned(member, TWO, 15).holds() is None
    member.heartbeat(20, 1, 21, 1, None)
    assert NotAssigned(member, TWO, 15).holds() is True


def test_members_are_found_by_group_and_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 2)
    members = Members()
    here, there = Broker([BROKER]), Broker(["10.0.1.9:9092"], cluster=1)
    one, two = members.of(here, "g", "a"), members.of(here, "g", "b")
    assert members.of(here, "g", "a") is one
    assert members.get(there, "g", "a") is None
    assert not members.forgetful
    members.of(there, "g", "a")
    assert members.forgetful
    assert (members.get(here, "g", "a"), members.get(here, "g", "b")) == (one, None)
    assert members.of(here, "g", "b") is not two


# -- as conversations


def test_an_assignment_is_read_as_of_the_packet_that_is_judged() -> None:
    """What is assigned while the fetch waits was not assigned when it was sent."""
    talk = Conversation()
    a = talk.member("a")
    beats = a.on(talk.connection())
    assigned(beats, 0)
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, forget=[1]).answered()
    brought = a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    waiting = a.share_fetch(3)
    unchanged(beats)
    assigned(beats, 0, 1)
    waiting.answered(responses=handed((1, 5, 9)))
    found = [(it.code, it.verdict, it.packet) for it in findings(talk) if it.code == "PHANTOM_SESSION_PARTITION"]
    assert found == [("PHANTOM_SESSION_PARTITION", "violation", brought.sent)]


def test_what_was_assigned_by_then_is_no_phantom() -> None:
    """What is taken away while the fetch waits was assigned when it was sent."""
    talk = Conversation()
    a = talk.member("a")
    beats = a.on(talk.connection())
    assigned(beats, 0, 1)
    a.share_fetch(0, [0]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, [1], acks=[(0, 4, 1)]).answered()
    waiting = a.share_fetch(2)
    assigned(beats, 0)
    unchanged(beats)
    waiting.answered(responses=handed((1, 5, 9)))
    assert findings(talk) == []


def test_a_heartbeat_with_another_epoch_shows_that_an_assignment_was_missed() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    brought = phantom(a)
    a.heartbeat(2).answered(member_id=a.member_id, member_epoch=2, assignment=None)
    assert [it for it in findings(talk) if it.code == "PHANTOM_SESSION_PARTITION"] == [
        unknown("PHANTOM_SESSION_PARTITION", brought.sent, because="assignment_unknown")
    ]


def test_without_an_assignment_it_may_have_been_meant_to_be_fetched() -> None:
    talk = Conversation()
    brought = phantom(talk.member("a"))
    assert findings(talk)[1:] == [unknown("PHANTOM_SESSION_PARTITION", brought.sent, because="assignment_unknown")]


def test_an_assigned_partition_may_be_listed_to_acknowledge() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0, 1)
    phantom(a)
    assert findings(talk) == [note("UNRELEASED_ON_FORGET", talk.exchanges[-4])]
