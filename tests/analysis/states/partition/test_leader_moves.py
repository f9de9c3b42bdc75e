"""The leader of a share partition moves, or reads its state anew: what members did with the one before accuses
nobody."""

from __future__ import annotations

import pytest

from tests.analysis.coordinators import AVAILABLE, Sender
from tests.analysis.talks import handed
from tests.conversation import Asked, Conversation, Member, findings, note, unknown, violation

OTHER = "10.0.0.8:9092"
ACCEPT = 1
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, INVALID_REQUEST, INVALID_RECORD_STATE = 3, 6, 42, 121


def acquires(member: Member, epoch: int, *ranges: tuple[int, ...]) -> Asked:
    return member.share_fetch(epoch, [0] if epoch == 0 else []).answered(
        responses=handed(*((0, *one) for one in ranges)), acquisition_lock_timeout_ms=30_000
    )


def moved(talk: Conversation, *ranges: tuple[int, ...]) -> tuple[Member, Member]:
    """A member with offsets 0 to 9 of one leader that goes on with the next one, which hands it these; and as it was
    with the first."""
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    b = a.on(talk.connection(OTHER))
    acquires(b, 0, *ranges)
    return a, b


@pytest.mark.parametrize("error", [INVALID_REQUEST, INVALID_RECORD_STATE])
def test_records_of_the_leader_before_are_acknowledged_to_the_next_one(error: int) -> None:
    talk = Conversation()
    _, b = moved(talk)
    asked = b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: error})
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "leader_moved")]


@pytest.mark.parametrize("error", [UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER])
def test_the_broker_that_is_asked_does_not_lead_yet(error: int) -> None:
    talk = Conversation()
    _, b = moved(talk)
    asked = b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: error})
    assert findings(talk) == [note("ACK_WRONG_LEADER", asked)]


def test_another_member_has_acquired_them_from_the_next_one_meanwhile() -> None:
    talk = Conversation()
    _, b = moved(talk)
    c = talk.member("c", connection=talk.connection(OTHER))
    acquires(c, 0, (0, 9, 2))
    asked = b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: INVALID_RECORD_STATE})
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "leader_moved")]


def test_a_leader_that_read_the_state_anew_knows_nothing_of_what_it_handed_out() -> None:
    """Seen on 4.1.2: records that it has stored, and not handed out since, are past the last that it knows of."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 19))
    Sender(talk.connection()).read().given(0, (10, 19, AVAILABLE, 1))
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: INVALID_REQUEST})
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "leader_moved")]


def test_that_a_leader_reads_the_state_anew_need_not_be_in_the_capture() -> None:
    """Brokers talk among themselves on another listener: what was handed out is past the end of none but a leader that
    began anew."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 19))
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: INVALID_REQUEST})
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "leader_moved")]


def test_what_nobody_ever_handed_out_is_past_the_end_of_every_leader() -> None:
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 19))
    Sender(talk.connection()).read().given(0, (10, 19, AVAILABLE, 1))
    asked = a.share_acknowledge(1, [(500, 509, ACCEPT)]).answered(acks={0: INVALID_REQUEST})
    assert findings(talk) == [violation("ACK_NOT_ACQUIRED", asked, blame="client", cause="beyond_end")]


def test_the_next_leader_goes_on_counting_deliveries() -> None:
    """What the state that it read says of them is all that it knows; the lock of before is over."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, (0, 9))
    Sender(talk.connection()).read(leader_epoch=1).given(0, (0, 9, AVAILABLE, 1))
    acquires(a.on(talk.connection(OTHER)), 0, (0, 9, 2), (10, 19))
    assert findings(talk) == []
