"""Where no frame begins, and what is known late: the same comes out however the packets are fed."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from kshark import limits
from kshark.framing.cutting import cut
from kshark.framing.streams import Stream, signed
from kshark.model import ACK, Ends, Event, Flow, Message, Weird
from kshark.pipeline import Engine
from tests.exchange.test_stage import answer, framed, metadata, request
from tests.packets import Packet, Tcp, Wire, batches
from tests.property.event_values import event_values
from tests.property.mangled import packets_of
from tests.shared import CAPTURES

EVERY_PACKET = [1] * 99


def events(packets: list[Packet], sizes: list[int]) -> list[Event]:
    return [event for page in Engine().pages(batches(packets, sizes)) for event in page]


@pytest.mark.parametrize("sizes", [[5], [5, 1], [5, 4], EVERY_PACKET])
def test_an_impossible_length_is_told_once(sizes: list[int]) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(b"\x7f\xff\xff\xff" * 5, mss=8)
    tcp.close()

    codes = [event.code for event in events(wire.packets, sizes) if isinstance(event, Weird)]

    assert codes == ["FRAME_LENGTH_INVALID", "BYTES_SKIPPED"]


def test_requests_between_an_impossible_length_and_a_gap_are_found() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(b"\x7f\xff\xff\xff" + bytes(20))
    for number in range(2, 8):
        tcp.client(metadata(number))
        tcp.broker(answer(number))
    tcp.client(metadata(8))  # lost, and acknowledged by the answer
    tcp.broker(answer(8))
    tcp.client(metadata(9))
    tcp.broker(answer(9))
    wire.pause(2)
    tcp.client(metadata(10))
    tcp.broker(answer(10))
    del wire.packets[18]

    def requests(sizes: list[int]) -> list[object]:
        return [
            one.correlation_id
            for one in events(wire.packets, sizes)
            if isinstance(one, Message) and one.kind == "request"
        ]

    assert requests([5]) == requests(EVERY_PACKET)
    assert {4, 5, 6, 7} <= set(requests([5]))


def test_answers_behind_an_impossible_length_belong_to_the_requests_before_them() -> None:
    """More requests follow in the same batch than are remembered."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    for number in range(2, 6):
        tcp.client(metadata(number))
    tcp.broker(b"\xff" * 12)
    tcp.broker(answer(4) + answer(5))
    for number in range(6, 300):
        tcp.client(metadata(number))

    said = events(wire.packets, [len(wire.packets)])

    assert [one.correlation_id for one in said if isinstance(one, Message) and one.kind == "response"] == [1, 4, 5]
    assert event_values(batches(wire.packets, [])) == event_values(batches(wire.packets, [1] * 999))


def test_each_direction_is_searched_from_where_it_broke_on() -> None:
    """Both have an impossible length, long after one another: what came in between is understood long before the
    second."""
    wire = Wire()
    tcp, other = Tcp(wire).open(), Tcp(wire, "10.0.0.2:50000").open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.broker(b"\xff" * 12)
    other.client(metadata(1))
    tcp.client(metadata(2))
    tcp.broker(answer(2))
    wire.pause(1)
    tcp.client(b"\xff" * 12)

    assert event_values(batches(wire.packets, [])) == event_values(batches(wire.packets, EVERY_PACKET))


def test_what_waited_when_the_connection_was_recognised_is_cut_before_a_gap_behind_it() -> None:
    """The server spoke first, and no Kafka; what it said next was lost, and shows long after."""
    wire = Wire()
    tcp, other = Tcp(wire).open(), Tcp(wire, "10.0.0.2:50000").open()
    tcp.broker(b"\xff" * 12)
    tcp.client(metadata(1))
    tcp.seq[1] += 500
    tcp._send(0, ACK)
    wire.pause(0.4)
    tcp.broker(answer(1)[:17])
    wire.pause(0.3)
    other.client(metadata(1))

    whole = event_values(batches(wire.packets, []))
    for size in range(1, len(wire.packets)):
        assert event_values(batches(wire.packets, [size])) == whole


def test_a_beginning_seen_behind_the_first_bytes_changes_nothing_that_was_said() -> None:
    """The SYN-ACK is displaced: it comes behind bytes that were sent after it."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1)[:20])
    packets = wire.packets
    displaced = [packets[at] for at in (3, 4, 1)]

    assert event_values(batches(displaced, [])) == event_values(batches(displaced, [1] * 9))


def test_the_first_client_id_is_kept_however_many_requests_come_at_once() -> None:
    stream = Stream(Flow(0, Ends("a:1", "b:2"), 1, 0), 0)
    stream.by_client = True
    for number, client_id in enumerate((None, b"one", b"two"), 1):
        stream.take_piece(metadata(number, client_id), number, 0, number, 0)

    cut([stream], lambda weird: None)

    assert stream.client_id == b"one"


def test_a_frame_too_short_for_a_correlation_id_is_not_remembered() -> None:
    stream = Stream(Flow(0, Ends("a:1", "b:2"), 1, 0), 0)
    stream.by_client = True
    for number, frame in enumerate([metadata(7), framed(b"abc")], 1):
        stream.take_piece(frame, number, 0, number, 0)

    cut([stream], lambda weird: None)

    assert [signed(number) for number in stream.ids] == [7]


def test_a_boundary_found_late_has_the_time_of_its_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECOGNITION_BYTES", 300)
    monkeypatch.setattr(limits, "HELD_NS", 5_000_000)
    packets = packets_of(CAPTURES / "share-java-explicit-4.1.2.pcap")[400:]

    assert event_values(batches(packets, [len(packets)])) == event_values(batches(packets, [50] * 100))


def test_a_first_request_longer_than_what_is_looked_at_has_the_packet_it_ends_with() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(request(0, 3, 1, b"\xff\xff" + b"\0\1" + bytes(80_000)))
    last = len(wire.packets)
    tcp.broker(answer(1))
    for number in range(2, 40):
        tcp.client(metadata(number, b"c" * 900))
        tcp.broker(answer(number))

    (produce, reply, *_) = [one for one in events(wire.packets, [len(wire.packets)]) if isinstance(one, Message)]

    assert (produce.packet, produce.time_ns) == (last, wire.packets[last - 1].time_ns)
    assert isinstance(reply.latency_ns, int)
    assert reply.latency_ns > 0


def test_a_frame_in_many_pieces_is_held_in_few_and_read_as_if_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    join = Stream.join_pieces

    def counted(stream: Stream) -> None:
        join(stream)
        held.append(len(stream.data))

    monkeypatch.setattr(Stream, "join_pieces", counted)
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(metadata(2))
    tcp.broker(answer(2, bytes(400)), mss=1)
    tcp.client(metadata(3))
    tcp.broker(answer(3))

    whole = event_values(batches(wire.packets, [len(wire.packets)]))
    assert event_values(batches(wire.packets, EVERY_PACKET * 5)) == whole
    held.clear()
    monkeypatch.setattr(limits, "FRAME_PIECES", 10)
    assert event_values(batches(wire.packets, EVERY_PACKET * 5)) == whole
    assert max(held) <= 10


def test_too_many_unfinished_bytes_cost_the_body_of_their_frame_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNFINISHED_BYTES", 20_000)
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in range(1, 5):
        tcp.client(metadata(number))
        tcp.broker(answer(number, bytes(50_000 if number == 2 else 8)))

    told_of = events(wire.packets, [10] * 9)

    answers = [one for one in told_of if isinstance(one, Message) and one.kind == "response"]
    codes = [one.code for one in told_of if isinstance(one, Weird) and one.stage == "framing"]
    assert [(one.correlation_id, one.size, one.weird) for one in answers] == [
        (1, 12, UNSET),
        (2, 50_004, ["BODY_NOT_KEPT"]),
        (3, 12, UNSET),
        (4, 12, UNSET),
    ]
    assert codes == []


def test_too_many_bytes_of_an_unrecognised_connection_are_passed_over_and_what_follows_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "UNFINISHED_BYTES", 20_000)
    wire = Wire()
    tcp = Tcp(wire).open()
    large = metadata(1, b"c" * 30_000)
    for at in range(0, 29_000, 1_000):
        tcp.client(large[at : at + 1_000])
    tcp.client(large[29_000:])
    tcp.broker(answer(1))
    for number in range(2, 5):
        tcp.client(metadata(number))
        tcp.broker(answer(number))

    for cuts in ([5] * 20, [len(wire.packets)]):
        told_of = events(wire.packets, cuts)
        asked = [one.correlation_id for one in told_of if isinstance(one, Message) and one.kind == "request"]
        codes = {one.code for one in told_of if isinstance(one, Weird) and one.stage == "framing"}
        assert asked[-3:] == [2, 3, 4]
        assert codes <= {"UNFINISHED_LIMIT", "BYTES_SKIPPED"}


def test_messages_wait_for_a_hole_until_they_are_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 5_000)
    wire = Wire()
    holed, other = Tcp(wire).open(), Tcp(wire, source="10.0.0.2:50000").open()
    for tcp in (holed, other):
        tcp.client(metadata(1))
        tcp.broker(answer(1))
    holed.seq[0] += 1
    holed.client(metadata(2))
    for number in range(2, 60):
        other.client(metadata(number, b"c" * 500))
        other.broker(answer(number))
    engine = Engine()

    pages = [page for part in batches(wire.packets, [10] * 99) for page in engine.back.feed(engine.front.feed(part))]

    seen = [
        one.correlation_id
        for page in pages
        for one in page
        if isinstance(one, Message) and one.flow == 1 and one.kind == "request"
    ]
    assert 30 < len(seen) == len(set(seen))
    assert seen == sorted(seen, key=int)


@pytest.mark.parametrize("sizes", [[], EVERY_PACKET])
def test_a_port_that_is_known_as_a_brokers_only_later_was_nobodys_before(sizes: list[int]) -> None:
    """A connection behind a hole is judged late, by what was known when it ended."""
    wire = Wire()
    http = Tcp(wire).open()
    (_, lost, *_) = http.client(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3, mss=27)
    http.close()
    kafka = Tcp(wire, "10.0.0.1:50001", seq=[7_000, 9_000]).open()
    kafka.client(metadata(1))
    kafka.broker(answer(1))
    wire.pause(2)
    kafka.client(metadata(2))
    del wire.packets[lost - 1]
    codes = [event.code for event in events(wire.packets, sizes) if isinstance(event, Weird)]
    assert codes == ["NOT_KAFKA", "SILENCE_UNPROVED"]
