"""Promises of kshark.analysis.rules.partitions: the partitions of a session."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import assigned, handed, unchanged
from tests.conversation import Asked, Conversation, Member, note, unknown, violation


def phantom(a: Member) -> Asked:
    """Partition 1 is forgotten, then listed to acknowledge, and stays: its records come twice more."""
    a.share_fetch(0, [0, 1]).answered(responses=handed((1, 0, 4)))
    a.share_fetch(1, forget=[1]).answered()
    brought = a.share_fetch(2, [1], acks=[(0, 4, 1)]).answered()
    a.share_fetch(3).answered(responses=handed((1, 5, 9)))
    a.share_fetch(4).answered(responses=handed((1, 10, 14)))
    return brought


@promise
def a_partition_listed_to_acknowledge_stays() -> Said:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    brought = phantom(a)
    unchanged(a)
    return talk, [
        note("UNRELEASED_ON_FORGET", talk.exchanges[-5]),
        violation("PHANTOM_SESSION_PARTITION", brought.sent, blame="client"),
    ]


@promise
def a_partition_listed_to_acknowledge_may_have_been_assigned() -> Said:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0)
    brought = phantom(a)
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
