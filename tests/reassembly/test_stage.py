"""What TCP does to the bytes of a connection, and what comes out. Each conversation is fed whole, in halves, row by
row, and exactly."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk


def test_bytes_in_order() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.broker(b"123")
    talk.client(b"def")
    heard = talk.heard()
    assert (heard.client, heard.broker) == ([b"abcdef"], [b"123"])
    assert heard.ready(CLIENT) == [(b"abc", 4, 4), (b"def", 6, 6)]
    assert heard.ends == [("opened", 1), ("closed", 6, "capture", None)]
    (flow,) = heard.flows
    assert (flow.opened_by, flow.begun, flow.stream_bytes, flow.last_packet) == (CLIENT, (True, True), [6, 3], 6)


def test_many_segments_in_order() -> None:
    talk = Talk().open()
    for number in range(40):
        talk.client(b"%02d" % number)
        talk.broker(b"answer")
    heard = talk.heard()
    assert heard.client == [b"".join(b"%02d" % number for number in range(40))]
    assert heard.broker == [b"answer" * 40]


def test_what_comes_behind_the_end_changes_nothing_of_the_connection() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.fin(CLIENT)
    talk.fin(BROKER)
    talk.client()
    heard = talk.heard()
    assert heard.ends[-1] == ("closed", 6, "fin", CLIENT)
    assert heard.flows[0].last_packet == 6


def test_a_connection_that_ended_behind_a_hole_is_over_when_its_ports_are_used_again() -> None:
    talk = Talk().open()
    talk.broker(b"12")
    talk.fin(BROKER)
    talk.client(b"abc")
    talk.fin(CLIENT, b"ef", at=4)  # behind a byte that is lost, and acknowledged
    talk.send(BROKER)
    talk.pause(2)
    talk.send(CLIENT, at=100_000, flags=SYN)
    assert [end[0] for end in talk.heard().ends] == ["opened", "half closed", "closed", "opened", "closed"]


# -- the same bytes again


def test_a_retransmission_is_heard_once() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(b"abc", at=0)
    talk.client(b"def")
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abcdef"], [])
    assert heard.flows[0].stream_bytes == [6, 0]


@pytest.mark.parametrize(("again", "at"), [(b"bcdef", 1), (b"abcdef", 0), (b"cdef", 2)])
def test_a_retransmission_in_other_segments_brings_what_is_new(again: bytes, at: int) -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(again, at=at)
    assert talk.heard().ready(CLIENT) == [(b"abc", 4, 4), (b"def", 5, 5)]


def test_of_other_bytes_in_the_same_place_the_first_are_kept() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(b"XYZdef", at=0)
    assert talk.heard().client == [b"abcdef"]


def test_other_bytes_behind_a_hole_are_named_and_the_first_are_kept() -> None:
    talk = Talk().open()
    talk.client(b"def", at=3)
    talk.client(b"dXf", at=3)
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abcdef"], [("OVERLAP_DIFFERS", 5, 3)])


def test_a_longer_segment_behind_a_hole_adds_its_end() -> None:
    talk = Talk().open()
    talk.client(b"de", at=3)
    talk.client(b"defg", at=3)
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abcdefg"], [])


@pytest.mark.parametrize("probe", [b"", b"\0", b"c"])
def test_a_keep_alive_one_byte_behind_brings_nothing(probe: bytes) -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(probe, at=2)
    talk.broker()
    talk.client(b"def")
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abcdef"], [])


def test_a_zero_window_probe_carries_the_next_byte_and_it_comes_again() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(b"d")
    talk.broker(acked=3)
    talk.client(b"def", at=3)
    assert talk.heard().client == [b"abcdef"]


# -- out of order


def test_what_was_reordered_comes_in_order_ready_with_the_one_that_was_missing() -> None:
    talk = Talk().open()
    talk.client(b"def", at=3)
    talk.client(b"ghi", at=6)
    talk.client(b"abc", at=0)
    assert talk.heard().ready(CLIENT) == [(b"abc", 6, 6), (b"def", 4, 6), (b"ghi", 5, 6)]


def test_two_holes_are_filled_one_after_the_other() -> None:
    talk = Talk().open()
    talk.client(b"c", at=2)
    talk.client(b"e", at=4)
    talk.client(b"ab", at=0)
    talk.broker(b"between")
    talk.client(b"d", at=3)
    assert talk.heard().ready(CLIENT) == [(b"ab", 6, 6), (b"c", 4, 6), (b"d", 8, 8), (b"e", 5, 8)]


def test_a_hole_that_nobody_acknowledged_past_is_waited_for() -> None:
    """The other end has not got the bytes either: they are still to come."""
    talk = Talk().open()
    for number in range(2 * limits.REORDER_SEGMENTS):
        talk.client(b"x", at=1 + number, acked=0)
    talk.pause(10)
    talk.broker(acked=0)
    talk.client(b"a", at=0)
    assert talk.heard().client == [b"a" + b"x" * 2 * limits.REORDER_SEGMENTS]


def test_a_hole_that_was_acknowledged_past_is_given_up_after_many_segments() -> None:
    talk = Talk().open()
    talk.client(b"x", at=3)
    talk.broker(acked=4)
    for number in range(limits.REORDER_SEGMENTS):
        talk.client(b"x", at=4 + number)
    late = talk.client(b"abc", at=0)
    heard = talk.heard()
    assert heard.client == [Hole(3, "missing"), b"x" * (limits.REORDER_SEGMENTS + 1)]
    assert heard.flows[0].gaps == 1
    assert max(ready for _, _, ready in heard.ready(CLIENT)) < late


def test_a_hole_that_was_given_up_costs_the_next_one_nothing_of_its_time() -> None:
    talk = Talk().open()
    talk.client(b"x", at=3)
    talk.broker(acked=4)
    for number in range(limits.REORDER_SEGMENTS):
        talk.client(b"x", at=4 + number)
    end = 4 + limits.REORDER_SEGMENTS
    talk.client(b"second", at=end + 5)
    talk.client(b"first", at=end)
    assert talk.heard().client == [Hole(3, "missing"), b"x" * (limits.REORDER_SEGMENTS + 1) + b"firstsecond"]


def test_a_hole_that_was_acknowledged_past_is_given_up_after_a_while() -> None:
    talk = Talk().open()
    talk.client(b"def", at=3)
    talk.broker(acked=6)
    talk.pause(limits.REORDER_NS / 1e9)
    talk.broker(b"1")
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert (heard.client, heard.broker) == ([Hole(3, "missing"), b"def"], [b"1"])


def test_a_hole_is_given_up_when_too_many_bytes_wait_behind_it() -> None:
    talk = Talk().open()
    size = 1 << 16
    count = limits.REORDER_BYTES // size
    for number in range(count + 1):
        talk.client(b"x" * size, at=1 + number * size)
    assert talk.heard().client == [Hole(1, "buffer_full"), b"x" * size * (count + 1)]


def test_holes_are_given_up_when_the_capture_ends() -> None:
    talk = Talk().open()
    talk.client(b"a")
    talk.client(b"c", at=2)
    talk.client(b"e", at=4)
    heard = talk.heard()
    assert heard.client == [b"a", Hole(1, "at_close"), b"c", Hole(1, "at_close"), b"e"]
    assert heard.ends[-1] == ("closed", 6, "capture", None)


def test_a_gap_names_the_packets_around_it() -> None:
    talk = Talk().open()
    before = talk.client(b"abc")
    behind = talk.client(b"ghi", at=6)
    heard = talk.heard()
    (gap,) = [part for part in heard.streams[0, CLIENT] if not isinstance(part, tuple)]
    assert (gap.first_packet, gap.last_packet, gap.packet, gap.size) == (before, behind, behind, 3)


def test_bytes_cut_by_the_snap_length_are_a_gap() -> None:
    talk = Talk().open()
    talk.client(b"abc", missing=5)
    talk.client(b"def")
    heard = talk.heard()
    assert heard.client == [b"abc", Hole(5, "snapped"), b"def"]
    assert heard.flows[0].stream_bytes == [6, 0]


def test_bytes_cut_by_the_snap_length_that_come_again_are_no_gap() -> None:
    talk = Talk().open()
    talk.client(b"de", at=3, missing=4)
    talk.client(b"defghi", at=3)
    talk.client(b"abc", at=0)
    assert talk.heard().client == [b"abcdefghi"]


def test_a_number_outside_every_window_is_passed_over_and_told() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    far = talk.send(CLIENT, b"???", at=1 << 30 | 1 << 10)
    talk.client(b"def", at=3)
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abcdef"], [("BYTES_SKIPPED", far, 3)])


# -- sequence numbers go around


@pytest.mark.parametrize("isn", [0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFC, 0xFFFFFFF0])
def test_numbers_wrap(isn: int) -> None:
    talk = Talk((isn, 0xFFFFFFFD)).open()
    for letter in b"abcdefghij":
        talk.client(bytes([letter]) * 3)
        talk.broker(bytes([letter]) * 5)
    heard = talk.heard()
    assert heard.client == [b"".join(bytes([letter]) * 3 for letter in b"abcdefghij")]
    assert heard.broker == [b"".join(bytes([letter]) * 5 for letter in b"abcdefghij")]


def test_numbers_wrap_inside_a_hole() -> None:
    talk = Talk((0xFFFFFFFC, 7)).open()
    talk.client(b"ghi", at=6)
    talk.client(b"def", at=3)
    talk.client(b"abc", at=0)
    assert talk.heard().client == [b"abcdefghi"]


# -- openings


def test_a_new_syn_on_the_same_ports_is_a_new_connection() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.open((90_000, 80_000))
    talk.client(b"xyz")
    heard = talk.heard()
    assert (heard.of(CLIENT), heard.of(CLIENT, flow=1)) == ([b"abc"], [b"xyz"])
    assert heard.ends == [("opened", 1), ("closed", 5, "reused", CLIENT), ("opened", 5), ("closed", 8, "capture", None)]


def test_a_client_may_begin_with_the_same_number_again_the_brokers_tells_that_it_is_new() -> None:
    talk = Talk((1_000, 5_000)).open()
    talk.client(b"abc")
    talk.fin(CLIENT)
    talk.fin(BROKER)
    talk.open((1_000, 80_000))
    talk.client(b"xyz")
    heard = talk.heard()
    assert [heard.of(CLIENT, flow=flow) for flow in (0, 1)] == [[b"abc"], [b"xyz"]]
    assert [(flow.opened_by, flow.begun) for flow in heard.flows] == [(CLIENT, (True, True))] * 2
    assert heard.weirds == []


def test_a_repeated_syn_is_the_same_connection() -> None:
    talk = Talk()
    talk.send(CLIENT, at=-1, flags=SYN)
    talk.open()
    talk.client(b"abc")
    assert talk.heard().client == [b"abc"]


def test_a_syn_may_carry_data() -> None:
    """TCP Fast Open, RFC 7413."""
    talk = Talk()
    talk.send(CLIENT, b"abc", at=-1, flags=SYN)
    talk.send(BROKER, at=-1, flags=SYN | ACK)
    talk.client(b"def")
    assert talk.heard().client == [b"abcdef"]


def test_a_syn_behind_the_data_it_opened_was_reordered() -> None:
    talk = Talk()
    talk.client(b"abc")
    talk.send(CLIENT, at=-1, flags=SYN)
    talk.client(b"def")
    heard = talk.heard()
    assert heard.client == [b"abcdef"]
    assert [kind for kind, *_ in heard.ends] == ["opened", "closed"]


@pytest.mark.parametrize("side", [CLIENT, BROKER])
def test_a_handshake_behind_bytes_tells_nothing_any_more(side: int) -> None:
    """Whoever has the bytes took them for those of an older connection: a second capture may bring its SYN seconds
    later."""
    talk = Talk()
    talk.client(b"abc")
    talk.send(side, at=-1, flags=SYN | (ACK if side == BROKER else 0))
    talk.broker(b"123")
    (flow,) = talk.heard().flows
    assert (flow.begun, flow.opened_by) == ((False, False), None)


def test_a_connection_from_before_the_capture_begins_where_it_is_first_seen() -> None:
    talk = Talk()
    talk.sent = [700, 900]
    talk.client(b"abc")
    talk.broker(b"123")
    talk.client(b"def")
    heard = talk.heard()
    assert (heard.client, heard.broker) == ([b"abcdef"], [b"123"])
    assert (heard.flows[0].opened_by, heard.flows[0].begun) == (None, (False, False))


def test_of_a_side_whose_handshake_was_seen_the_first_bytes_are_known_to_be_missing() -> None:
    talk = Talk().open()
    talk.broker(b"456", at=3)
    assert talk.heard().broker == [Hole(3, "at_close"), b"456"]


# -- ends


def test_both_directions_finish() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.fin(CLIENT)
    talk.fin(BROKER)
    talk.client()
    heard = talk.heard()
    assert heard.ends == [("opened", 1), ("half closed", 5, CLIENT), ("closed", 6, "fin", CLIENT)]


def test_a_fin_carries_the_last_bytes() -> None:
    talk = Talk().open()
    talk.fin(CLIENT, b"abc")
    talk.fin(BROKER, b"123")
    heard = talk.heard()
    assert (heard.client, heard.broker) == ([b"abc"], [b"123"])
    assert heard.ends[-1] == ("closed", 5, "fin", CLIENT)


def test_a_half_closed_connection_is_still_answered() -> None:
    talk = Talk().open()
    talk.fin(CLIENT, b"abc")
    for _ in range(20):
        talk.broker(b"123")
    heard = talk.heard()
    assert heard.broker == [b"123" * 20]
    assert heard.ends == [("opened", 1), ("half closed", 4, CLIENT), ("closed", 24, "capture", None)]


def test_a_fin_waits_for_the_bytes_before_it() -> None:
    talk = Talk().open()
    talk.fin(BROKER)
    talk.fin(CLIENT, at=6)
    talk.client(b"def", at=3)
    last = talk.client(b"abc", at=0)
    heard = talk.heard()
    assert heard.client == [b"abcdef"]
    assert heard.ends == [("opened", 1), ("half closed", 4, BROKER), ("closed", last, "fin", BROKER)]


def test_a_fin_comes_before_many_segments_in_order() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.fin(CLIENT, at=3 + 30)
    for number in range(10):
        talk.client(b"def", at=3 + 3 * number)
    heard = talk.heard()
    assert heard.client == [b"abc" + b"def" * 10]
    assert ("half closed", 15, CLIENT) in heard.ends


def test_a_fin_behind_a_hole_ends_the_side_when_the_hole_is_given_up() -> None:
    talk = Talk().open()
    talk.fin(BROKER)
    talk.fin(CLIENT, b"def", at=3)
    talk.broker(acked=7, at=1)
    talk.pause(2)
    talk.broker(acked=7, at=1)
    heard = talk.heard()
    assert heard.client == [Hole(3, "missing"), b"def"]
    assert heard.ends[-1][0::2] == ("closed", "fin")


def test_a_reset_ends_the_connection_and_gives_up_its_holes() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(b"ghi", at=6)
    reset = talk.rst(BROKER)
    heard = talk.heard()
    assert heard.client == [b"abc", Hole(3, "at_close"), b"ghi"]
    assert heard.ends == [("opened", 1), ("closed", reset, "rst", BROKER)]


def test_a_reset_far_from_the_number_due_is_not_believed() -> None:
    """RFC 5961, section 3: a receiver ignores it, so does who listens."""
    talk = Talk().open()
    talk.client(b"abc")
    talk.rst(CLIENT, at=1 << 24)
    talk.client(b"def", at=3)
    heard = talk.heard()
    assert heard.client == [b"abcdef"]
    assert heard.ends[-1][2] == "capture"


def test_a_reset_answers_a_syn() -> None:
    """Nobody listens on that port."""
    talk = Talk()
    talk.send(CLIENT, at=-1, flags=SYN)
    talk.isn = (talk.isn[0], 0xFFFFFFFF)
    talk.send(BROKER, flags=RST | ACK, at=0, acked=0)
    assert talk.heard().ends == [("opened", 1), ("closed", 2, "rst", BROKER)]


def test_bytes_after_the_end_are_told() -> None:
    talk = Talk().open()
    talk.rst(CLIENT)
    late = talk.broker(b"123")
    heard = talk.heard()
    assert (heard.broker, heard.weirds) == ([], [("BYTES_SKIPPED", late, 3)])


def test_a_retransmitted_fin_changes_nothing() -> None:
    talk = Talk().open()
    talk.fin(CLIENT)
    talk.send(CLIENT, at=0, flags=FIN | ACK)
    talk.broker(b"123")
    heard = talk.heard()
    assert heard.ends == [("opened", 1), ("half closed", 4, CLIENT), ("closed", 6, "capture", None)]


def test_two_connections_do_not_mix() -> None:
    talk = Talk().open()
    talk.pair = 1
    talk.open()
    talk.client(b"xyz")
    talk.pair = 0
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert [heard.of(CLIENT, flow=flow) for flow in (0, 1)] == [[b"abc"], [b"xyz"]]
    assert [flow.ends.first for flow in heard.flows] == ["10.0.0.1:50000", "10.0.0.2:50000"]


def test_bytes_that_go_on_at_the_number_of_a_fin_prove_it_was_not_the_last() -> None:
    talk = Talk().open()
    talk.fin(CLIENT, b"abc")
    talk.client(b"def", at=3)
    assert talk.heard().client == [b"abcdef"]


def test_bytes_behind_a_sides_own_fin_are_told() -> None:
    """RFC 9293, 3.10.7.4: nobody takes them, and the number of the FIN is no missing byte."""
    talk = Talk().open()
    talk.fin(CLIENT, b"abc")
    late = talk.client(b"xyz", at=4)
    heard = talk.heard()
    assert (heard.client, heard.weirds) == ([b"abc"], [("BYTES_SKIPPED", late, 3)])
    assert heard.flows[0].gaps == 0


def test_of_many_connections_the_hole_with_most_behind_it_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LATE_BYTES", 1_000)
    talk = Talk().open()
    talk.client(b"x" * 300, at=1)
    talk.pair = 1
    talk.open((9_000, 5_000))
    talk.client(b"y" * 800, at=1)
    heard = talk.fed([])
    assert heard.of(CLIENT, 0) == [Hole(1, "at_close"), b"x" * 300]
    assert heard.of(CLIENT, 1) == [Hole(1, "buffer_full"), b"y" * 800]
