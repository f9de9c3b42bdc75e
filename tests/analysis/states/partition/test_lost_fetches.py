"""Fetches that may have acquired records and handed out none: the first records that are seen need not be the first."""

from __future__ import annotations

from tests.analysis.coordinators import Sender
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.talks import left_in_flight, opened
from tests.conversation import Conversation


def started(*, closed: bool, pause: float = 0) -> int | None:
    """The start offset where the first records handed out are 20 to 39. `closed`: a fetch waited on a connection that
    ended, so long before the leader read its state."""
    talk = Conversation()
    Sender(talk.connection()).initialize().accepted()
    a = opened(talk)
    if closed:
        gone = a.on(talk.connection())
        gone.share_fetch(1)
        gone.connection.reset()
        talk.pause(pause)
    Sender(talk.connection()).read().given(-1)
    given(talk.member("b"), 0, (20, 39, 1))
    return left_in_flight(talk).start_offset


def test_the_first_records_that_a_leader_hands_out_are_the_first_it_has() -> None:
    assert started(closed=False) == 20


def test_a_broker_goes_on_with_a_fetch_whose_connection_is_gone() -> None:
    """It may have acquired records behind the Read, although its connection ended before."""
    assert started(closed=True) is None


def test_no_fetch_waits_for_ever() -> None:
    assert started(closed=True, pause=31) == 20
