"""Promises of kshark.analysis.rules.partitions: the partitions of a session."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import assigned, handed, left, opened, unchanged
from tests.conversation import Asked, Conversation, Member, note, unknown, violation


def forgot_partition(a: Member, *left: int) -> Asked:
    """The session forgets partition 1 while the member still holds the records `left`."""
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 4)))
    if left:
        assigned(a, *left)
    return a.share_fetch(1, forget=[1]).answered()


def phantom(a: Member, *left: int) -> Asked:
    """List a forgotten partition to acknowledge: it stays in the session, and its records come twice more."""
    forgot_partition(a, *left)
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
def an_unlisted_partition_is_forgotten() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    strange = a.share_fetch(1, forget=[7]).answered()
    return talk, [note("FORGET_UNKNOWN", strange)]


@promise
def a_partition_is_forgotten_with_acquired_records() -> Said:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 4, 1)]).answered()
    held = a.share_fetch(2, forget=[0]).answered()
    return talk, [note("UNRELEASED_ON_FORGET", held)]


def fetched_after_leaving(a: Member) -> Asked:
    """Let the member leave, and fetch twice on another connection, that of its session."""
    fetching = a.on(a.connection.talk.connection())
    fetching.share_fetch(0, [0]).answered()
    left(a)
    fetching.share_fetch(1).answered()
    a.connection.talk.pause(1)
    again = fetching.share_fetch(2).answered()
    fetching.share_fetch(3).answered()
    return again


@promise
def a_member_fetches_after_it_left() -> Said:
    talk = Conversation()
    a = opened(talk)
    left(a)
    stray = a.share_fetch(1).answered()
    a.share_acknowledge(2).answered()
    return talk, [violation("FETCH_BY_DEPARTED_MEMBER", stray.sent, blame="client")]


@promise
def a_member_that_left_may_have_joined_outside_the_capture() -> Said:
    talk = Conversation()
    again = fetched_after_leaving(talk.member("a"))
    return talk, [unknown("FETCH_BY_DEPARTED_MEMBER", again.sent, because="hidden_traffic")]


@promise
def a_member_asks_for_an_unassigned_partition() -> Said:
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
