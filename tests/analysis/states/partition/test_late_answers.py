"""Answers that were long under way: by the time they are seen, others have been handed the records, as the delivery
counts tell."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from tests.analysis.coordinators import AVAILABLE, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, refused
from tests.analysis.rules.promises.deliveries import continue_session, given
from tests.analysis.talks import alone, codes, handed, left_in_flight
from tests.conversation import Asked, Conversation, Member, findings

BROKER_IS_WRONG = ("OVERLAPPING_ACQUISITION", "violation")


def late(talk: Conversation) -> tuple[Member, Asked, Member]:
    """A member whose fetch is under way, and another one that is handed 0 to 9, their second delivery."""
    a, b = talk.member("a"), talk.member("b")
    continue_session(a, 0)
    waiting = a.share_fetch(1)
    given(b, 0, (0, 9, 2), lock_ms=2000)
    return a, waiting, b


def arrives(waiting: Asked, count: int = 1, first: int = 0, last: int = 9) -> None:
    waiting.answered(responses=handed((0, first, last, count)), acquisition_lock_timeout_ms=2000)


def accused(talk: Conversation) -> list[Finding]:
    return [finding for finding in findings(talk) if finding.verdict == "violation"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_lower_count_was_first(count: int) -> None:
    """Its session ended in between, which this side has not heard of."""
    talk = alone()
    _, waiting, b = late(talk)
    arrives(waiting, count)
    continue_session(b, 1)
    assert codes(talk) == ([] if count == 1 else [BROKER_IS_WRONG])


def test_who_was_handed_them_last_has_them() -> None:
    talk = Conversation()
    _, waiting, b = late(talk)
    arrives(waiting, last=4)
    (left,) = left_in_flight(talk).ranges
    assert (left.first_offset, left.last_offset, left.state, left.delivery_count, left.member_id) == (
        0,
        9,
        "acquired",
        2,
        b.member_id,
    )


def test_records_may_be_done_with_by_then() -> None:
    talk = Conversation()
    _, waiting, b = late(talk)
    b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    arrives(waiting)
    continue_session(b, 2)
    assert codes(talk) == []


def test_locks_may_be_out_by_then() -> None:
    talk = Conversation()
    _, waiting, b = late(talk)
    talk.pause(3)
    arrives(waiting)
    continue_session(b, 1)
    assert accused(talk) == []


def test_who_was_first_acknowledges_in_vain() -> None:
    """The records were its own."""
    talk = Conversation()
    a, waiting, b = late(talk)
    arrives(waiting)
    continue_session(b, 1)
    refused(a, 2, (0, 9, ACCEPT))
    assert accused(talk) == []


def test_so_does_who_had_them_before_that() -> None:
    talk = Conversation()
    x = talk.member("x")
    given(x, 0, (0, 9, 1), lock_ms=2000)
    talk.pause(3)
    a, b = talk.member("a"), talk.member("b")
    continue_session(a, 0)
    waiting = a.share_fetch(1)
    given(b, 0, (0, 9, 3))
    arrives(waiting, 2)
    continue_session(b, 1)
    refused(x, 1, (0, 9, ACCEPT))
    assert ("ACK_AFTER_LOCK_TIMEOUT", "note") in codes(talk)
    assert accused(talk) == []


@pytest.mark.parametrize("under_way", [True, False])
def test_the_end_of_a_delivery_may_be_stored_before_its_answer_is_seen(*, under_way: bool) -> None:
    talk = alone()
    a, broker = talk.member("a"), leader(talk)
    given(a, 0, (0, 9, 1), lock_ms=2000)
    talk.pause(3)
    waiting = a.share_fetch(1) if under_way else None
    broker.write(0, (0, 9, AVAILABLE, 2)).accepted()
    arrives(waiting or a.share_fetch(1), 2)
    continue_session(a, 2)
    assert [finding.code for finding in accused(talk)] == ([] if under_way else ["DELIVERY_COUNT_JUMP"])


@pytest.mark.parametrize("goes", [True, False])
def test_of_equal_counts_both_sessions_have_to_go_on(*, goes: bool) -> None:
    """4.1 takes the delivery back with a session that ends: that of the one whose answer is late may have."""
    talk = alone(release="4.1")
    a, waiting, b = late(talk)
    arrives(waiting, 2)
    continue_session(b, 1)
    assert accused(talk) == []
    if goes:
        continue_session(a, 2)
    assert [finding.code for finding in accused(talk)] == ["OVERLAPPING_ACQUISITION"] * goes
