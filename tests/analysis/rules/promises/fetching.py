"""Promises of kshark.analysis.rules.fetching: which broker members fetch from."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import UNKNOWN_SERVER_ERROR, assigned, handed, led_elsewhere, stranger, unchanged
from tests.conversation import Asked, Conversation, Member, note, unknown, violation


def stays(talk: Conversation, member: Member) -> Asked:
    """Keep fetching from a broker that names another leader; return the last fetch."""
    member.share_fetch(0, [0]).answered(**led_elsewhere())
    talk.pause(2)
    member.share_fetch(1).answered(**led_elsewhere())
    talk.pause(4)
    return member.share_fetch(2).answered(**led_elsewhere())


def left_to(talk: Conversation, a: Member, b: Member, listed: int = 0) -> Asked:
    """Assign partitions 0 and 1 to one member, which fetches only one of them; the other member gets partition 1's
    records.
    """
    assigned(a, 0, 1)
    a.share_fetch(0, [listed]).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    talk.pause(5)
    unchanged(a)
    talk.pause(5)
    return unchanged(a)


@promise
def a_member_fetches_from_a_broker_that_is_not_the_leader() -> Said:
    talk = Conversation()
    return talk, [violation("LEADER_HINT_IGNORED", stays(talk, talk.member("a")), blame="client")]


@promise
def a_member_may_have_fetched_from_a_broker_that_is_not_the_leader() -> Said:
    talk = Conversation()
    return talk, [unknown("LEADER_HINT_IGNORED", stays(talk, stranger(talk)), because="resync")]


@promise
def a_partition_has_no_state() -> Said:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0]).answered(**led_elsewhere(error=UNKNOWN_SERVER_ERROR))
    return talk, [note("PARTITION_UNINITIALIZED", fetch)]


@promise
def a_member_does_not_fetch_an_assigned_partition() -> Said:
    talk = Conversation()
    return talk, [note("ASSIGNED_NEVER_FETCHED", left_to(talk, talk.member("a"), talk.member("b")))]
