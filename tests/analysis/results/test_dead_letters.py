"""Records that a group is done with, and that are on their way to a dead-letter queue (KIP-1191, Kafka 4.4): what their
leader stores."""

from __future__ import annotations

import pytest

from tests.analysis.coordinators import ACCEPTED, ARCHIVED, AVAILABLE, Sender, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, REJECT, RELEASE
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.talks import UNKNOWN_SERVER_ERROR, codes, left_in_flight
from tests.conversation import Conversation

ARCHIVING = 3


def stored_meanwhile(
    *acks: tuple[int, int, int], state: int, count: int = 5, error: int = 0
) -> tuple[Conversation, Sender]:
    """Offsets 0 to 9 are acknowledged at their fifth delivery, and their leader stores a state before it answers; the
    leader."""
    talk = Conversation(release="4.4")
    stores = leader(talk)
    a = talk.member("a")
    given(a, 0, (0, 9, 5))
    asked = a.share_acknowledge(1, [*acks])
    stores.write(0, (0, 9, state, count)).accepted()
    asked.answered(error)
    return talk, stores


def acknowledged(kind: int, state: int) -> tuple[Conversation, Sender]:
    """All of them alike."""
    return stored_meanwhile((0, 9, kind), state=state)


def left(talk: Conversation) -> list[tuple[str, int | None]]:
    return [(one.state, one.delivery_count) for one in left_in_flight(talk).ranges]


@pytest.mark.parametrize(
    ("kind", "state", "told"),
    [
        (RELEASE, AVAILABLE, [("available", 5)]),
        (RELEASE, ARCHIVED, []),
        (RELEASE, ARCHIVING, [("archiving", 5)]),
        (REJECT, ARCHIVED, []),
        (REJECT, ARCHIVING, [("archiving", 5)]),
        (ACCEPT, ACCEPTED, []),
    ],
)
def test_what_was_stored_before_the_answer_is_what_they_are_in(
    kind: int, state: int, told: list[tuple[str, int | None]]
) -> None:
    """A record that is released for the last time is archived; where the group has a queue for dead letters that takes
    a while."""
    talk, _ = acknowledged(kind, state)
    assert left(talk) == told


def test_without_a_write_it_may_be_either() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 9, 5))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    assert left(talk) == [("unknown", 5)]


def test_what_was_stored_of_an_earlier_delivery_says_nothing() -> None:
    talk, _ = stored_meanwhile((0, 9, RELEASE), state=AVAILABLE, count=4)
    assert left(talk) == [("unknown", 5)]


def test_what_was_accepted_stays_so_whatever_is_stored() -> None:
    """What is stored instead is a matter for rules."""
    talk, _ = stored_meanwhile((0, 4, ACCEPT), (5, 9, RELEASE), state=AVAILABLE)
    assert left_in_flight(talk).start_offset == 5
    assert left(talk) == [("available", 5)]


def test_what_may_not_have_been_taken_stays_open() -> None:
    talk, _ = stored_meanwhile((0, 9, RELEASE), state=ARCHIVED, error=UNKNOWN_SERVER_ERROR)
    assert left(talk) == [("unknown", 5)]


def test_the_end_of_an_earlier_delivery_empties_no_queue() -> None:
    talk, stores = acknowledged(RELEASE, ARCHIVING)
    stores.write(0, (0, 9, ARCHIVED, 4)).accepted()
    assert (left_in_flight(talk).start_offset, left(talk)) == (0, [("unknown", None)])


@pytest.mark.parametrize("kind", [RELEASE, REJECT])
def test_the_start_offset_waits_until_the_queue_has_them(kind: int) -> None:
    talk, stores = acknowledged(kind, ARCHIVING)
    assert left_in_flight(talk).start_offset == 0
    stores.write(0, (0, 4, ARCHIVED, 5)).accepted()
    assert (left_in_flight(talk).start_offset, left(talk)) == (5, [("archiving", 5)])
    stores.write(0, (5, 9, ARCHIVED, 5)).accepted()
    assert (left_in_flight(talk).start_offset, left(talk)) == (10, [])


def test_no_missing_packet_accuses_anybody() -> None:
    talk, stores = acknowledged(REJECT, ARCHIVING)
    stores.write(0, (0, 9, ARCHIVED, 5)).accepted()
    given(talk.member("b"), 0, (10, 19, 1))
    clean = [it for it in codes(talk) if it[1] == "violation"]
    assert clean == []
    for number, _ in talk.packets():
        assert [it for it in codes(talk.without_packets([number])) if it[1] == "violation"] == [], number
