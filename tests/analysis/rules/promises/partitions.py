"""Promises of kshark.analysis.rules.partitions: the partitions of a session."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import assigned, handed, left, opened, unchanged
from tests.conversation import Asked, Conversation, Member, note, unknown, violation


def gave_up(a: Member, *left: int) -> Asked:
    """The member has records of partition 1, is left with these, and its session forgets it."""
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 4)))
    if left:
        assigned(a, *left)
    return a.share_fetch(1, forget=[1]).answered()


def phantom(a: Member, *left: int) -> Asked:
    """A partition that the session forgot is listed to acknowledge, and stays: its records come twice more."""
    gave_up(a, *left)
    brought = a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(3).answered(responses=handed((1, 5, 9)))
    a.share_fetch(4).answered(responses=handed((1, 10, 14)))
    return brought


@promise
def a_partition_listed_to_acknowledge_stays() -> Said:
    talk = Conversation()
    a = talk.member("a")
    brought = phantom(a, 0)
    unchanged(a)
    return talk, [
        note("UNRELEASED_ON_FORGET", talk.exchanges[-5]),
        violation("PHANTOM_SESSION_PARTITION", brought.sent, blame="client"),
    ]


@promise
def a_partition_listed_to_acknowledge_may_have_been_assigned() -> Said:
    talk = Conversation()
    a = talk.member("a")
    brought = phantom(a, 0)
    return talk, [
        note("UNRELEASED_ON_FORGET", talk.exchanges[-4]),
        unknown("PHANTOM_SESSION_PARTITION", brought.sent, because="assignment_unknown"),
    ]


@promise
def a_partition_is_forgotten_that_was_none() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    strange = a.share_fetch(1, forget=[7]).answered()
    return talk, [note("FORGET_UNKNOWN", strange)]


@promise
def a_partition_is_forgotten_with_its_records_held() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 4, 1)]).answered()
    held = a.share_fetch(2, forget=[0]).answered()
    return talk, [note("UNRELEASED_ON_FORGET", held)]


def gone_on(a: Member) -> Asked:
    """The member leaves, and fetches twice on another connection, where it had its session."""
    fetching = a.on(a.connection.talk.connection())
    fetching.share_fetch(0, [0]).answered()
    left(a)
    fetching.share_fetch(1).answered()
    a.connection.talk.pause(1)
    again = fetching.share_fetch(2).answered()
    fetching.share_fetch(3).answered()
    return again


@promise
def a_member_fetches_when_it_has_left() -> Said:
    talk = Conversation()
    a = opened(talk)
    left(a)
    stray = a.share_fetch(1).answered()
    a.share_acknowledge(2).answered()
    return talk, [violation("FETCH_BY_DEPARTED_MEMBER", stray.sent, blame="client")]


@promise
def a_member_that_left_may_have_joined_again_where_nobody_looks() -> Said:
    talk = Conversation()
    again = gone_on(talk.member("a"))
    return talk, [unknown("FETCH_BY_DEPARTED_MEMBER", again.sent, because="hidden_traffic")]


@promise
def a_member_asks_for_a_partition_that_is_anothers() -> Said:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    stray = a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered()
    unchanged(a)
    return talk, [violation("FETCH_UNASSIGNED_PARTITION", stray.sent, blame="client")]


@promise
def a_partition_may_have_been_assigned_since() -> Said:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    stray = a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1).answered()
    return talk, [unknown("FETCH_UNASSIGNED_PARTITION", stray.sent, because="assignment_unknown")]
