"""Connections that were captured twice, and what looks like it. A row is a millisecond; each conversation is fed in
several portions."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.model import ACK, RST, SYN, Weird
from tests.reassembly.conversation import BROKER, CLIENT, Heard, Hole, Talk

#: At once, a row later, a few rows later, when it is long over.
LATER = [0.0, 0.001, 0.0035, 0.012, 20.0]


def conversation(talk: Talk | None = None, isn: tuple[int, int] | None = None) -> Talk:
    """Three questions and answers, from the handshake to both FINs."""
    talk = (talk or Talk()).open(isn)
    for _ in range(3):
        talk.client(b"what?")
        talk.broker(b"that is so")
    talk.fin(CLIENT)
    talk.fin(BROKER)
    talk.client()
    return talk


def happened(heard: Heard) -> object:
    """What comes of it, whatever the packets' numbers."""
    bytes_of = {key: heard.of(key[1], key[0]) for key in heard.streams}
    return (
        bytes_of,
        [(kind, *rest[1:]) for kind, *rest in heard.ends],
        [(flow.opened_by, flow.stream_bytes) for flow in heard.flows],
    )


def copies(heard: Heard) -> list[tuple[int, int, str]]:
    """Packets, bytes and text of what was named as a copy."""
    return [(event.times, event.size, event.detail) for event in heard.events if isinstance(event, Weird)]


def words(later_s: float) -> str:
    return f"{later_s:.6f} s later" if later_s else "at the same time"


@pytest.mark.parametrize("later_s", LATER)
def test_the_same_connection_captured_twice_is_one(later_s: float) -> None:
    once = conversation()
    heard = once.and_again(later_s).heard()
    assert happened(heard) == happened(once.heard())
    # two SYNs, six segments with bytes and two FINs; acknowledgements carry nothing
    assert copies(heard) == [(10, 45, f"1 connection; 10.0.0.1:50000 - 10.0.0.9:9092 {words(later_s)}")]


@pytest.mark.parametrize("later_s", LATER)
def test_a_connection_older_than_the_capture_is_known_by_its_bytes(later_s: float) -> None:
    once = conversation()
    del once.rows[:3]
    assert happened(once.and_again(later_s).heard()) == happened(once.heard())
    ((packets, size, detail),) = copies(once.and_again(later_s).heard())
    assert (packets, size) == (8, 45)
    assert detail.endswith(words(later_s))


@pytest.mark.parametrize("later_s", LATER)
def test_a_copy_of_a_reset_connection_opens_none(later_s: float) -> None:
    once = Talk().open()
    once.client(b"what?")
    once.broker(b"that")
    once.rst(CLIENT)
    assert happened(once.and_again(later_s).heard()) == happened(once.heard())


@pytest.mark.parametrize("later_s", [0.02, 0.031, 0.2])
def test_ports_used_again_are_new_connections_and_the_copies_of_all_of_them_are_none(later_s: float) -> None:
    once = conversation()
    for isn in ((900, 4_000), (2_000_000_000, 77), (0xFFFFFFF0, 0xFFFFFFFE)):
        once = conversation(once, isn)
    assert len(once.heard().flows) == 4
    heard = once.and_again(later_s).heard()
    assert happened(heard) == happened(once.heard())
    ((packets, size, detail),) = copies(heard)
    assert (packets, size, detail.split(";")[0]) == (40, 180, "4 connections")


# -- two captures, neither of them whole


def test_what_the_first_capture_missed_the_second_brings_while_it_is_waited_for() -> None:
    once = conversation()
    heard = once.and_again(0.0015, without={6, 7}, missed={4, 9}).heard()
    assert happened(heard) == happened(once.heard())


def test_what_comes_when_the_hole_was_given_up_counts_as_copy() -> None:
    once = conversation()
    heard = once.and_again(20, without={6}).heard()
    assert heard.client == [b"what?", Hole(5, "missing"), b"what?"]
    assert [(packets, size) for packets, size, _ in copies(heard)] == [(10, 45)]


def test_a_last_answer_that_only_the_second_capture_holds_goes_on_where_the_first_one_ended() -> None:
    once = conversation()
    heard = once.and_again(20, without={9, 11}).heard()
    assert heard.broker == [b"that is so" * 3]
    assert len(heard.flows) == 1


@pytest.mark.parametrize(("later_s", "client"), [(0.0065, b"what?what?what?"), (0.0085, b"what?"), (20, b"what?")])
def test_a_second_capture_that_began_earlier_opens_no_connection(later_s: float, client: bytes) -> None:
    """Its SYN, and bytes from before the first capture, come when the connection is known already, or over: they are
    read no more."""
    once = conversation()
    heard = once.and_again(later_s, without=range(1, 7)).heard()
    assert heard.client == [client]
    assert len(heard.flows) == 1
    assert {code for code, *_ in heard.weirds} <= {"DUPLICATE_PACKETS", "BYTES_SKIPPED", "ACKED_UNSEEN"}


def test_the_other_capture_cut_the_bytes_into_other_segments() -> None:
    """Offloading joins segments at one end of the link and not at the other."""
    talk = Talk().open()
    for _ in range(6):
        talk.client(b"abcdef")
        talk.client(b"ghijkl")
        talk.client(b"abcdefghijkl", at=talk.sent[CLIENT] - 12, acked=0)
    talk.broker(b"yes")
    heard = talk.heard()
    assert heard.client == [b"abcdefghijkl" * 6]


def test_three_captures_are_one_too() -> None:
    once = conversation()
    heard = once.and_again(0.5).and_again(0.0015).heard()
    assert happened(heard) == happened(once.heard())


# -- what is no copy


def test_retransmissions_are_no_copy() -> None:
    talk = Talk().open()
    for number in range(20):
        talk.client(b"what?")
        if number % 4 == 0:
            talk.pause(0.3)
            talk.client(b"what?", at=talk.sent[CLIENT] - 5)
        talk.broker(b"that")
    assert talk.heard().weirds == []


def test_an_unanswered_request_sent_over_and_over_is_no_copy() -> None:
    talk = Talk().open()
    for _ in range(12):
        talk.client(b"anybody?", at=0, acked=0)
        talk.pause(1)
    assert [code for code, *_ in talk.heard().weirds] == ["UNACKNOWLEDGED"]


def test_a_syn_that_nobody_answered_is_sent_again() -> None:
    talk = Talk()
    for _ in range(4):
        talk.send(CLIENT, at=-1, flags=SYN)
        talk.pause(1)
    talk.open()
    talk.client(b"what?")
    talk.broker(b"that")
    heard = talk.heard()
    assert ([code for code, *_ in heard.weirds], len(heard.flows)) == (["SYN_UNANSWERED", "ACKNOWLEDGED_LATE"], 1)


def test_a_port_that_refuses_is_asked_again() -> None:
    talk = Talk()
    for _ in range(3):
        talk.send(CLIENT, at=-1, flags=SYN)
        talk.send(BROKER, at=-1, acked=0, flags=RST | ACK)
        talk.pause(0.5)
    assert talk.heard().weirds == []


def test_what_a_new_connection_waits_for_is_its_own_whatever_the_one_before_carried() -> None:
    """The ports are used again with numbers that the old connection had come to."""
    talk = Talk()
    talk.broker(b"x" * 38)
    talk.send(BROKER, at=0, flags=SYN | ACK)
    talk.client(acked=37)
    assert talk.heard().gaps == [(BROKER, 36, 2, 3, 3)]


# -- what is remembered is bounded


def test_of_many_connections_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOSED_FLOWS", 1)
    talk = conversation()
    talk.pair = 1
    talk = conversation(talk, (9_000, 8_000))
    assert len(talk.and_again(20).fed([]).flows) == 4


def test_of_one_pair_the_last_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOSED_FLOWS_PER_PAIR", 1)
    talk = conversation(conversation(), (900_000, 4_000))
    assert len(talk.and_again(20).fed([]).flows) == 4


def test_a_connection_that_was_forgotten_goes_on_as_a_new_one_its_copy_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FLOWS", 10)
    talk = Talk()
    for pair in range(2):
        talk.pair = pair
        talk.open((1_000 + pair, 5_000))
        talk.client(b"what?")
    monkeypatch.setattr(limits, "FLOWS", 1)
    heard = talk.and_again(1).fed([len(talk.rows)])
    assert len(heard.flows) == 2
