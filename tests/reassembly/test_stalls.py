"""Trouble of a connection: bytes sent again without an acknowledgement, a SYN without an answer, a closed window."""

from __future__ import annotations

from kshark.model import ACK, FIN, SYN, Weird
from tests.reassembly.conversation import BROKER, CLIENT, Talk


def stalls(talk: Talk) -> list[tuple[str, int, int | None, int | None, float]]:
    """Code, packet, side, first packet and seconds of each."""
    return [
        (event.code, event.packet, event.side, event.first_packet, round((event.by_ns or 0) / 1e9, 1))
        for event in talk.heard().events
        if isinstance(event, Weird)
    ]


def lost(talk: Talk, side: int = CLIENT, payload: bytes = b"abc", times: tuple[float, ...] = (0.2, 0.6)) -> list[int]:
    """Bytes of a side and their retransmissions, none of which is acknowledged."""
    place = talk.sent[side]
    packets = [talk.send(side, payload)]
    for seconds in times:
        talk.pause(seconds)
        packets.append(talk.send(side, payload, at=place))
    return packets


def test_bytes_without_an_acknowledgement() -> None:
    talk = Talk().open()
    talk.client(b"xyz")
    talk.broker(b"1")
    talk.client()
    talk.pause(10)
    first, _, second = lost(talk)
    talk.pause(1)
    late = talk.broker()
    assert stalls(talk) == [
        ("UNACKNOWLEDGED", second, CLIENT, first, 0.8),
        ("ACKNOWLEDGED_LATE", late, CLIENT, first, 1.8),
    ]


def test_an_answer_acknowledges_too() -> None:
    talk = Talk().open()
    first, _, second = lost(talk)
    late = talk.broker(b"answer")
    assert stalls(talk)[1:] == [("ACKNOWLEDGED_LATE", late, CLIENT, first, 0.8)]
    assert second < late


def test_the_end_of_the_connection_is_the_end() -> None:
    talk = Talk().open()
    first, _, second = lost(talk, BROKER)
    talk.rst(BROKER)
    assert stalls(talk) == [("UNACKNOWLEDGED", second, BROKER, first, 0.8)]


def test_it_begins_with_the_first_bytes_that_are_not_acknowledged() -> None:
    talk = Talk().open()
    first = talk.client(b"abc")
    talk.pause(0.1)
    talk.client(b"def")
    talk.pause(0.1)
    talk.client(b"def", at=3)  # a tail loss probe
    talk.pause(0.5)
    again = talk.client(b"abc", at=0)
    assert stalls(talk) == [("UNACKNOWLEDGED", again, CLIENT, first, 0.7)]


def test_a_part_of_an_offloaded_segment_is_sent_again() -> None:
    talk = Talk().open()
    first = talk.client(b"x" * 60)
    talk.pause(0.6)
    again = talk.client(b"x" * 14, at=0)
    assert stalls(talk) == [("UNACKNOWLEDGED", again, CLIENT, first, 0.6)]


def test_what_a_retransmission_repairs_is_ordinary() -> None:
    talk = Talk().open()
    lost(talk, times=(0.2,))
    talk.broker()
    talk.pause(5)
    lost(talk, times=(0.2, 0.2))
    talk.broker()
    assert stalls(talk) == []


def test_a_peer_that_repeats_its_acknowledgement_receives_something() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(b"def")
    talk.pause(0.3)
    talk.client(b"abc", at=0)
    talk.broker(acked=0)
    talk.pause(0.3)
    talk.client(b"abc", at=0)
    talk.broker(acked=0)
    assert stalls(talk)[1:] == [("ACKNOWLEDGED_LATE", 9, CLIENT, 4, 0.6)]


def test_acknowledged_bytes_may_be_sent_again() -> None:
    """Its sender did not receive the acknowledgement, which the capture has."""
    talk = Talk().open()
    talk.client(b"abc")
    talk.broker()
    for _ in range(3):
        talk.pause(1)
        talk.client(b"abc", at=0)
    assert stalls(talk) == []


def test_a_capture_of_one_direction_shows_no_acknowledgement() -> None:
    talk = Talk()
    for _ in range(4):
        talk.client(b"abc", at=0)
        talk.pause(1)
    assert stalls(talk) == []


def test_packets_captured_twice_are_no_retransmissions() -> None:
    talk = Talk().open()
    for _ in range(3):
        talk.client(b"abc")
        talk.broker(b"def")
        talk.pause(1)
    assert [stall for stall in stalls(talk.and_again(0.002)) if stall[0] == "UNACKNOWLEDGED"] == []


def test_a_keep_alive_is_no_retransmission() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.broker()
    for _ in range(3):
        talk.pause(75)
        talk.client(b"c", at=2)
    assert stalls(talk) == []


def test_a_syn_without_an_answer() -> None:
    talk = Talk()
    first = talk.send(CLIENT, at=-1, flags=SYN)
    for _ in range(2):
        talk.pause(1)
        again = talk.send(CLIENT, at=-1, flags=SYN)
    assert stalls(talk) == [("SYN_UNANSWERED", again - 1, CLIENT, first, 1.0)]
    answer = talk.send(BROKER, at=-1, flags=SYN | ACK)
    assert stalls(talk)[1:] == [("ACKNOWLEDGED_LATE", answer, CLIENT, first, 2.0)]


def test_a_syn_captured_twice_has_an_answer() -> None:
    talk = Talk().open()
    talk.pause(2)
    assert stalls(talk.and_again(0.0001)) == []


def test_a_closed_window() -> None:
    talk = Talk().open()
    full = talk.client(window=0)
    talk.pause(0.5)
    talk.broker(b"x")
    talk.client(acked=0, window=0)
    talk.pause(0.7)
    talk.broker(b"x", at=0)
    still = talk.client(acked=0, window=0)
    talk.broker(b"x", at=0)
    talk.client(acked=0, window=0)
    talk.pause(1)
    opened = talk.client()
    assert stalls(talk) == [
        ("WINDOW_CLOSED", still, CLIENT, full, 1.2),
        ("WINDOW_OPENED", opened, CLIENT, full, 2.2),
    ]


def test_a_short_time_without_room_is_ordinary() -> None:
    talk = Talk().open()
    for _ in range(4):
        talk.client(window=0)
        talk.pause(0.4)
        talk.client()
        talk.broker(b"abc")
    assert stalls(talk) == []


def test_a_window_that_opens_without_a_probe() -> None:
    talk = Talk().open()
    full = talk.client(window=0)
    talk.pause(3)
    opened = talk.client()
    assert stalls(talk) == [
        ("WINDOW_CLOSED", opened, CLIENT, full, 3.0),
        ("WINDOW_OPENED", opened, CLIENT, full, 3.0),
    ]


def test_a_reset_has_no_window() -> None:
    talk = Talk().open()
    talk.send(CLIENT, flags=4, window=0)
    talk.pause(2)
    talk.open((70_000, 90_000))
    assert stalls(talk) == []


def test_the_last_byte_is_a_fin() -> None:
    talk = Talk().open()
    talk.client(b"abc", flags=FIN | ACK)
    talk.pause(0.6)
    talk.client(b"abc", at=0, flags=FIN | ACK)
    assert [code for code, *_ in stalls(talk)] == ["UNACKNOWLEDGED"]
