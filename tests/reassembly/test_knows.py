"""What the sender of a segment had received: acknowledgement numbers against the packets of the other side."""

from __future__ import annotations

import pytest

from kshark import limits
from tests.reassembly.conversation import BROKER, CLIENT, Talk

UNKNOWN = -1


def pipelined(isn: tuple[int, int] = (1_000, 5_000)) -> Talk:
    """A request, its answer in packet 5, a request that was sent before it arrived, and one that was sent after it."""
    talk = Talk(isn).open()
    talk.client(b"first")
    talk.broker(b"answer")
    talk.client(b"second", acked=0)
    talk.client(b"third")
    return talk


def test_a_request_that_left_before_the_answer_arrived_does_not_know_it() -> None:
    heard = pipelined().heard()
    assert heard.knows(CLIENT) == [0, 0, 5]
    assert heard.knows(BROKER) == [4]


@pytest.mark.parametrize("isn", [(0xFFFFFFFF, 0xFFFFFFFA), (0xFFFFFFF8, 0xFFFFFFFE), (0x7FFFFFFC, 0x7FFFFFFB)])
def test_numbers_wrap(isn: tuple[int, int]) -> None:
    assert pipelined(isn).heard().knows(CLIENT) == [0, 0, 5]


def test_a_part_of_an_answer_is_not_the_answer() -> None:
    talk = Talk().open()
    talk.client(b"ask")
    talk.broker(b"0123456789")
    talk.client(b"half", acked=9)
    talk.client(b"whole", acked=10)
    assert talk.heard().knows(CLIENT) == [0, 0, 5]


def test_many_packets_are_in_flight() -> None:
    """Enough segments for the fast path, and acknowledgements far behind."""
    talk = Talk().open()
    talk.client(b"ask")
    answers = [talk.broker(b"0123456789") for _ in range(20)]
    for count in range(20):
        talk.client(b"more", acked=10 * count + 5)
    assert talk.heard().knows(CLIENT) == [0, 0, *answers[:19]]


def test_an_acknowledgement_without_bytes_says_it_of_the_next_request() -> None:
    talk = Talk().open()
    talk.client(b"ask")
    talk.broker(b"answer")
    talk.client()
    talk.client(b"next")
    assert talk.heard().knows(CLIENT) == [0, 5]


def test_an_overtaken_acknowledgement_says_nothing() -> None:
    talk = pipelined()
    talk.client(b"late", acked=0)
    assert talk.heard().knows(CLIENT)[-1] == UNKNOWN


def test_the_first_transmission_counts() -> None:
    talk = Talk().open()
    talk.client(b"first")
    talk.broker(b"answer")
    talk.client(b"second", acked=0)
    talk.client(b"second", at=5)
    assert talk.heard().knows(CLIENT) == [0, 0]


def test_a_retransmission_alone_says_nothing() -> None:
    """Without its first transmission: later bytes, or an acknowledgement behind it, show that there was one."""
    talk = Talk().open()
    talk.client(b"first")
    talk.broker(b"answer")
    talk.client(b"third", at=11)
    talk.client(b"second", at=5)
    talk.client(b"fourth", at=16)
    assert talk.heard().knows(CLIENT) == [0, UNKNOWN, 5, 5]
    talk = Talk().open()
    talk.client(b"first")
    talk.broker(b"answer")
    talk.client(at=11)
    talk.client(b"second", at=5)
    talk.client(b"third")
    assert talk.heard().knows(CLIENT) == [0, UNKNOWN, 5]


def test_a_connection_from_before_the_capture() -> None:
    """Its first packets are not awaited: the other side was not in the capture yet."""
    talk = Talk()
    talk.sent = [500, 900]
    talk.broker(b"old answer")
    talk.client(b"first")
    talk.broker(b"answer")
    talk.client(b"second")
    assert talk.heard().knows(CLIENT) == [UNKNOWN, 3]


def test_bytes_behind_a_hole_may_be_acknowledged() -> None:
    talk = Talk().open()
    talk.client(b"first")
    talk.broker(b"answer")
    talk.broker(b"second answer", at=16)  # 10 bytes before it are missing
    talk.client(b"next", acked=29)
    talk.client(b"one more", acked=29)
    assert talk.heard().knows(CLIENT) == [0, UNKNOWN, UNKNOWN]


def test_an_answer_captured_after_its_acknowledgement() -> None:
    talk = Talk().open()
    talk.client(b"first")
    talk.client(b"next", acked=6)
    talk.broker(b"answer")
    talk.client(b"one more")
    assert talk.heard().knows(CLIENT) == [0, UNKNOWN, 6]


def test_one_direction_alone_holds_nothing() -> None:
    talk = Talk()
    for _ in range(20):
        talk.broker(b"answer")
    assert {*talk.heard().knows(BROKER)} == {0}
    assert talk.heard().knows(CLIENT) == []


def test_too_many_packets_without_acknowledgement_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNACKED_PACKETS", 10)
    talk = Talk().open()
    talk.client(b"ask")
    for _ in range(30):
        talk.broker(b"0123456789")
    talk.client(b"next", acked=295)
    assert talk.fed([34]).knows(CLIENT) == [0, UNKNOWN]
    talk.client(b"known again")
    talk.broker(b"answer")
    talk.client(b"more")
    assert talk.fed([34]).knows(CLIENT)[-1] == 37
