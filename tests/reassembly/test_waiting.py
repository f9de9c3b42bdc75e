"""How long is waited: for what lies behind holes, by the capture's own clock, and what is still known of connections
that are over."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.model import SYN
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk


def test_bytes_cut_by_the_snap_length_where_some_are_known_are_a_gap_of_the_others() -> None:
    talk = Talk().open()
    talk.client(b"abcd")
    talk.client(b"ab", at=0, missing=5)
    talk.client(b"hi", at=7)
    assert talk.heard().client == [b"abcd", Hole(3, "snapped"), b"hi"]


def test_what_comes_out_behind_a_hole_is_never_ready_before_what_stands_before_it() -> None:
    talk = Talk().open()
    talk.client(b"ghi", at=6)
    talk.client(b"def", at=3)
    assert talk.heard().ready(CLIENT) == [(b"def", 5, 5), (b"ghi", 4, 5)]


# -- the clock


def test_the_second_hole_is_waited_for_from_when_the_first_one_was_given_up() -> None:
    """Not from when the next packet came, which may be long after."""
    talk = Talk().open()
    talk.client(b"b", at=1)
    talk.client(b"d", at=3)
    talk.broker(acked=4)
    talk.pause(5)
    talk.broker(b"1", acked=4)
    talk.client(b"a", at=0)
    talk.client(b"c", at=2)
    assert talk.heard().client == [Hole(1, "missing"), b"b", Hole(1, "missing"), b"d"]


def test_a_packet_whose_time_runs_behind_does_not_turn_the_clock_back() -> None:
    """Two interfaces with clocks of their own: a hole is waited for from the latest time that any packet had."""
    talk = Talk().open()
    talk.pair = 1
    talk.pause(10)
    talk.open()
    talk.pair = 0
    talk.pause(-10)
    talk.client(b"def", at=3)
    talk.broker(acked=6)
    talk.pause(10)
    talk.broker(b"1", acked=6)
    talk.client(b"abc", at=0)
    assert talk.heard().client == [b"abcdef"]


def test_a_connection_is_not_over_before_its_first_side_was() -> None:
    """The broker's FIN was captured first, but what stands before it was waited for."""
    talk = Talk().open()
    talk.fin(BROKER, b"456", at=3)
    talk.client(b"abc", acked=0)
    fin = talk.fin(CLIENT, acked=0)
    talk.client(acked=7)
    talk.pause(3)
    talk.client(acked=7)
    heard = talk.heard()
    assert heard.broker == [Hole(3, "missing"), b"456"]
    assert heard.ends == [("opened", 1), ("half closed", fin, CLIENT), ("closed", fin, "fin", CLIENT)]


def test_what_an_end_decides_was_waited_for_until_that_end() -> None:
    """What the client sent before its FIN is given up when its time has gone by, and that is the end of the connection:
    bytes that wait on the other side waited until that packet, not until whichever packet of another connection lets
    the batch end."""
    talk = Talk().open()
    talk.broker(b"456", at=3, acked=0)
    talk.fin(BROKER, at=0, acked=0)
    fin = talk.fin(CLIENT, b"b", at=1, acked=0)
    talk.broker(at=7, acked=3)
    talk.pair = 1
    talk.pause(0.2)
    talk.open()
    heard = talk.heard()
    assert ("closed", fin, "fin", BROKER) in heard.ends
    assert heard.broker == [Hole(3, "at_close"), b"456"]
    assert heard.late == []


# -- room


def room(monkeypatch: pytest.MonkeyPatch, size: int, *, each: int = 0) -> None:
    """So many bytes may wait behind a hole, and each segment takes `each` beside its payload."""
    monkeypatch.setattr(limits, "REORDER_BYTES", size)
    monkeypatch.setattr(limits, "LATE_SEGMENT_BYTES", each)


def test_segments_of_a_byte_take_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 100, each=30)
    talk = Talk().open()
    for place in (6, 4, 2, 8):
        talk.client(b"x", at=place)
    assert talk.heard().client == [
        Hole(2, "buffer_full"),
        b"x",
        Hole(1, "at_close"),
        b"x",
        Hole(1, "at_close"),
        b"x",
        Hole(1, "at_close"),
        b"x",
    ]


def test_a_segment_that_comes_again_longer_takes_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 100)
    talk = Talk().open()
    talk.client(b"x" * 10, at=1)
    talk.client(b"x" * 95, at=1)
    talk.client(b"x" * 10, at=96)
    assert talk.heard().client == [Hole(1, "buffer_full"), b"x" * 105]


def test_what_was_waited_for_and_came_takes_no_room_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 100)
    talk = Talk().open()
    for place in range(0, 400, 40):
        talk.client(b"x" * 30, at=place + 10)
        talk.client(b"y" * 10, at=place)
    assert talk.heard().client == [(b"y" * 10 + b"x" * 30) * 10]


# -- connections that are over


def ended(talk: Talk, number: int) -> None:
    """Opens and ends a connection of that pair."""
    talk.pair = number
    talk.open((1_000, 5_000))
    talk.rst(CLIENT)


def test_a_late_segment_of_a_connection_that_is_over_opens_no_other() -> None:
    talk = Talk()
    ended(talk, 0)
    ended(talk, 1)
    talk.pair = 0
    talk.broker(b"late", at=0)
    assert len(talk.heard().flows) == 2


def test_of_too_many_that_are_over_the_first_are_not_known_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOSED_FLOWS", 1)
    talk = Talk()
    ended(talk, 0)
    ended(talk, 1)
    talk.pair = 0
    talk.broker(b"late", at=0)
    assert len(talk.heard().flows) == 3


def test_of_too_many_connections_those_that_are_over_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one opened makes them too many, and one is over: nobody is told that something was forgotten."""
    monkeypatch.setattr(limits, "FLOWS", 10)
    talk = Talk()
    for number in range(9):
        talk.pair = number
        talk.open()
    ended(talk, 9)
    talk.pair = 10
    talk.open()
    assert talk.fed([]).weirds == []
    talk.pair = 11
    talk.open()
    assert [code for code, *_ in talk.fed([len(talk.rows) - 3]).weirds] == ["FLOWS_FORGOTTEN"]


def test_one_batch_may_open_more_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is made for all of them: what is held does not grow from batch to batch."""
    monkeypatch.setattr(limits, "FLOWS", 4)
    talk = Talk()
    for number in range(20):
        talk.pair = number
        talk.open()
    for cuts in ([], [len(talk.rows) // 2]):
        assert [code for code, *_ in talk.fed(cuts).weirds] == ["FLOWS_FORGOTTEN"] * 16


def test_the_same_number_long_after_data_is_a_copy() -> None:
    """Nobody retransmits a SYN then: a capture is repeated, and what it repeats is the connection that is known."""
    talk = Talk().open()
    talk.client(b"abc")
    talk.pause(4)
    talk.open(talk.isn)
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert [heard.of(CLIENT, flow) for flow in (0, 1)] == [[b"abc"], []]


def test_the_same_number_soon_after_data_is_the_same_connection() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.pause(1)
    talk.send(CLIENT, at=-1, flags=SYN)
    talk.client(b"xyz")
    assert talk.heard().of(CLIENT) == [b"abcxyz"]
