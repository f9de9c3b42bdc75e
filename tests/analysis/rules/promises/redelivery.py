"""Promises of kshark.analysis.rules.redelivery: acknowledgements with another effect than expected, or none."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import (
    ACCEPT,
    INVALID_RECORD_STATE,
    REJECT,
    RELEASE,
    holding,
    refused,
)
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import alone, handed, stranger
from tests.conversation import Asked, Conversation, Member, note, unknown, violation


def stale(talk: Conversation, a: Member) -> Asked:
    """Acknowledge records with an expired lock after a fetch that delivers them again."""
    given(a, 0, (0, 9, 1), lock_ms=2000)
    talk.pause(3)
    again = a.share_fetch(1)
    late = a.share_acknowledge(2, [(0, 4, ACCEPT)])
    again.answered(responses=handed((0, 0, 9, 2)), acquisition_lock_timeout_ms=2000)
    return late.answered()


def partly_applied(talk: Conversation) -> Asked:
    """Refuse records that the member holds, after a refusal of these together with others."""
    holding(talk, (10, 19), name="b")
    a = holding(talk, (0, 9))
    refused(a, 1, (5, 14, ACCEPT))
    return refused(a, 2, (5, 9, ACCEPT))


def acknowledged(member: Member, some: list[tuple[int, int, int]], rest: int) -> Asked:
    """Acknowledge records, and then the next seven with two requests."""
    last = some[-1][1]
    member.share_acknowledge(1, some).answered()
    member.share_acknowledge(2, [(last + 1, last + 4, rest)]).answered()
    return member.share_acknowledge(3, [(last + 5, last + 7, rest)]).answered()


def both_accept(talk: Conversation, *, late: int = INVALID_RECORD_STATE) -> tuple[Asked, Asked]:
    """Two members accept the same records, the first one after its lock expired."""
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    talk.pause(3)
    given(b, 0, (0, 9, 2), lock_ms=2000)
    accepted = b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    return accepted, refused(a, 1, (0, 4, ACCEPT), error=late)


@promise
def an_acknowledgement_counts_for_the_next_delivery() -> Said:
    talk = Conversation()
    a = talk.member("a")
    late = stale(talk, a)
    return talk, [note("NEVER_ACKED", late.packet - 1), violation("STALE_ACK_ACCEPTED", late, blame="client")]


@promise
def an_acknowledgement_may_count_for_the_next_delivery() -> Said:
    talk = Conversation()
    return talk, [unknown("STALE_ACK_ACCEPTED", stale(talk, stranger(talk)), because="resync")]


@promise
def a_refused_acknowledgement_is_partly_applied() -> Said:
    talk = alone()
    again = partly_applied(talk)
    before = talk.exchanges[-2]
    return talk, [
        violation("ACK_NOT_OWNER", before, blame="client", cause="not_owner"),
        violation("ACK_ATOMICITY_BROKEN", again, blame="broker", cause="half_taken"),
    ]


@promise
def an_acknowledgement_is_lost() -> Said:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    a.share_acknowledge(1, [(0, 9, ACCEPT)])
    end = a.connection.tcp.reset()
    return talk, [note("SESSION_NOT_CLOSED", end), note("ACK_LOST_IN_FLIGHT", given(b, 0, (0, 9, 2)))]


@promise
def records_are_never_acknowledged() -> Said:
    talk = Conversation()
    holding(talk, (0, 9), lock_ms=2000)
    b = talk.member("b")
    talk.pause(3)
    return talk, [note("NEVER_ACKED", given(b, 0, (0, 9, 2), lock_ms=2000))]


@promise
def records_are_released_again_and_again() -> Said:
    talk = Conversation()
    return talk, [
        note("RELEASE_STORM", acknowledged(holding(talk, (0, 12)), [(0, 2, ACCEPT), (3, 5, RELEASE)], RELEASE))
    ]


@promise
def records_are_rejected_again_and_again() -> Said:
    talk = Conversation()
    return talk, [
        note("REJECT_RATE", acknowledged(holding(talk, (0, 39)), [(0, 29, ACCEPT), (30, 32, REJECT)], REJECT))
    ]


@promise
def records_are_processed_twice() -> Said:
    talk = Conversation()
    accepted, late = both_accept(talk)
    return talk, [
        note("NEVER_ACKED", accepted.packet - 2),
        note("ACK_AFTER_LOCK_TIMEOUT", late, cause="after_lock"),
        note("DUPLICATE_PROCESSING_WINDOW", late),
    ]


@promise
def a_member_is_too_slow() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    a.share_acknowledge(1, [(0, 4, ACCEPT)]).answered()
    talk.pause(3)
    return talk, [note("LOCK_TIMEOUT_REDELIVERY", given(talk.member("b"), 0, (5, 9, 2), lock_ms=2000))]
