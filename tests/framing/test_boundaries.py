"""Where a frame begins, behind a gap and elsewhere: what is enough to tell it, and what is not."""

from __future__ import annotations

import struct

import pytest
from msgspec import UNSET

from kshark import limits
from kshark.framing.boundaries import next_answer, next_request
from kshark.framing.recognition import answers_alone
from kshark.framing.streams import Stream
from kshark.model import ACK, FIN, Closed, Ends, Exchange, Flow, HalfClosed, Message, Weird
from kshark.pipeline import Engine
from tests.exchange.test_stage import Talk, answer, codes, framed, metadata
from tests.packets import Tcp, batches

PACKET = 1460


class OnlyHeaders:
    """Knows one API, and of no body whether it fits."""

    def knows(self, key: int, version: int) -> bool:
        return key == 3

    def asks(self, data: bytes, start: int, end: int) -> int:
        return 0

    def answers(self, key: int, version: int, data: bytes, start: int, end: int) -> int:
        return 0


# -- a gap inside a frame of known length


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 3), (1, 2), (4,), (2, 4)], ids=str)
def test_behind_a_frame_that_lost_some_packets_the_next_one_is_certain(lost: tuple[int, ...]) -> None:
    """Also where the last one is lost, and where there are two holes in one frame."""
    talk = Talk()
    talk.tcp.client(metadata(1))
    talk.tcp.broker(answer(1))
    talk.tcp.client(metadata(2))
    long = answer(2, bytes(4 * PACKET + 500))
    packets = talk.tcp.broker(long)
    talk.tcp.client(metadata(3))
    talk.tcp.broker(answer(3))
    told = talk.events(lost=tuple(packets[at] for at in lost))
    assert [event.correlation_id for event in told if isinstance(event, Message) and event.kind == "response"] == [1, 3]
    assert [code for event in told if isinstance(event, Message) for code in codes(event)] == []
    sizes = [PACKET] * 4 + [len(long) - 4 * PACKET]
    skipped = [event for event in told if isinstance(event, Weird) and event.code == "BYTES_SKIPPED"]
    assert sum(event.size for event in skipped) == len(long) - sum(sizes[at] for at in lost)
    assert skipped[0].first_packet == packets[0]


def test_where_more_is_lost_than_the_frame_still_had_the_next_one_is_searched() -> None:
    talk = Talk()
    talk.tcp.client(metadata(1) + metadata(2) + metadata(3))
    talk.tcp.broker(answer(1))
    _, end = talk.tcp.broker(answer(2, bytes(PACKET)))
    (third,) = talk.tcp.broker(answer(3, bytes(900)))
    talk.tcp.client(metadata(4))
    talk.tcp.broker(answer(4))
    told = [event for event in talk.events(lost=(end, third)) if isinstance(event, Message)]
    assert [(event.correlation_id, codes(event)) for event in told if event.kind == "response"] == [
        (1, []),
        (4, ["RESYNC"]),
    ]


# -- correlation ids


@pytest.mark.parametrize("first", [-9, -(1 << 31), (1 << 31) - 9])
def test_ids_of_any_sign_find_the_next_boundary(first: int) -> None:
    """Of requests by the id that goes on, of answers by the requests that wait for one."""
    for side in ("request", "response"):
        talk = Talk()
        for number in range(first, first + 3):
            talk.tcp.client(metadata(number))
            talk.tcp.broker(answer(number))
        asked = talk.tcp.client(metadata(first + 3))
        told = talk.tcp.broker(answer(first + 3))
        talk.tcp.client(metadata(first + 4))
        talk.tcp.broker(answer(first + 4))
        lost = tuple(asked if side == "request" else told)
        found = [event for event in talk.events(lost=lost) if isinstance(event, Message) and event.kind == side]
        assert [event.correlation_id for event in found] == [first, first + 1, first + 2, first + 4]


def test_open_are_the_requests_behind_the_last_one_that_was_answered() -> None:
    """Clients use ids again: the last request with that id was answered."""
    flow = Flow(0, Ends("a:1", "b:2"), 1, 0)
    client, broker = Stream(flow, 0), Stream(flow, 1)
    client.by_client = True
    client.remember([packet << 32 | number for packet, number in enumerate((5, 6, 5, 7, 8), 1)], b"", ())
    broker.remember([9 << 32 | 5], b"", 0)
    broker.take_piece(b"some", 4, 0, 4, 0)
    assert broker.open_ids(client) == [7]


# -- what is enough


def answers_at(data: bytes, edges: list[int], open_ids: list[int]) -> int | None:
    found = next_answer(data, edges, open_ids)
    return found.at if found is not None and found.sure else None


def requests_at(data: bytes, edges: list[int], last_id: int, client_id: bytes) -> int | None:
    found = next_request(data, edges, last_id, client_id, OnlyHeaders(), False)
    return found.at if found is not None and found.sure else None


def test_one_answer_is_enough_only_from_a_packets_edge_to_the_end_of_what_came() -> None:
    one, two = answer(7), answer(7) + answer(8)
    assert answers_at(b"junk" + one, [0], [7, 8]) is None
    assert answers_at(b"junk" + one, [0, 4], [7, 8]) == 4
    assert answers_at(b"junk" + one + b"\0", [0, 4], [7, 8]) is None
    assert answers_at(b"junk" + two, [0], [7, 8]) == 4
    assert answers_at(b"junk" + two, [0], [8, 9]) is None


@pytest.mark.parametrize(
    ("number", "found"), [(6, 4), (5, None), (4, None), (5 + limits.IDS_APART, 4), (6 + limits.IDS_APART, None)]
)
def test_one_request_is_enough_only_if_it_goes_on_from_the_last_one(number: int, found: int | None) -> None:
    assert requests_at(b"junk" + metadata(number), [0, 4], 5, b"c") == found
    assert requests_at(b"junk" + metadata(number), [0, 4], 5, b"other") is None
    assert requests_at(b"junk" + metadata(number), [0], 5, b"c") is None


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ((1, 2, 3), True),
        ((1, 2), False),
        ((1, 17, 33), True),
        ((1, 18, 19), False),
        ((1, 1, 2), False),
        ((3, 2, 1), False),
    ],
)
def test_answers_without_requests_are_told_by_three_ids_that_run_on(ids: tuple[int, ...], told: bool) -> None:
    data = b"".join(map(answer, ids))
    assert answers_alone(data) is told
    assert not answers_alone(data + b"\0\0\0")


# -- what comes with the same packet


def test_what_a_fin_brings_comes_before_it() -> None:
    talk = Talk()
    talk.tcp._send(0, FIN | ACK, metadata(1))
    talk.tcp._send(1, FIN | ACK, answer(1))
    told = [type(event) for event in talk.events() if isinstance(event, (Message, Exchange, HalfClosed, Closed))]
    assert told == [Message, HalfClosed, Message, Exchange, Closed]


def test_what_a_captures_end_breaks_off_comes_before_the_connections_end() -> None:
    talk = Talk()
    for tcp in (talk.tcp, other_port(talk)):
        tcp.client(metadata(1))
        tcp.client(metadata(2)[:9])
    told = [(type(event), event.flow) for event in talk.events() if isinstance(event, Weird)]
    ends = [event for event in talk.events() if isinstance(event, (Weird, Closed))]
    assert told == [(Weird, 0), (Weird, 1)]
    assert [type(event) for event in ends] == [Weird, Closed, Weird, Closed]


def test_a_frame_begins_with_the_packet_of_its_length() -> None:
    talk = Talk()
    packets = talk.tcp.client(metadata(1), mss=4)
    (message,) = [event for event in talk.events() if isinstance(event, Message)]
    assert message.packets == (packets[0], packets[-1])


# -- brokers


def other_port(talk: Talk) -> Tcp:
    return Tcp(talk.wire, "10.0.0.1:50001", talk.tcp.target, [7_000, 9_000]).open()


def codes_of(talk: Talk, lost: tuple[int, ...] = ()) -> list[str]:
    return [event.code for event in talk.events(lost=lost) if isinstance(event, Weird) and event.stage == "framing"]


def test_who_is_a_broker_only_since_the_capture_ended_was_none_before() -> None:
    """Both are told with the last packet: what becomes of the second does not depend on the first."""
    talk = Talk()
    other_port(talk).client(b"\0\0")
    talk.tcp.client(metadata(1))
    assert codes_of(talk) == ["NOT_KAFKA"]


@pytest.mark.parametrize(("whole", "code"), [(True, "FOREIGN_PROTOCOL"), (False, "NOT_KAFKA")])
def test_a_connection_that_lost_its_first_bytes_makes_no_broker_known(whole: bool, code: str) -> None:
    """When it was recognised depends on when the hole was given up, and what is said of others must not."""
    talk = Talk()
    (first,) = talk.tcp.client(metadata(1))
    for number in range(2, 6):
        talk.tcp.client(metadata(number))
        talk.tcp.broker(answer(number))
    talk.wire.pause(2)
    talk.tcp.client(metadata(6))
    other = other_port(talk)
    other.client(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    other.close()
    talk.tcp.broker(answer(6))
    told = codes_of(talk, () if whole else (first,))
    assert [each for each in told if each in ("FOREIGN_PROTOCOL", "NOT_KAFKA")] == [code]


# -- room


def test_of_too_many_unfinished_bytes_only_the_longest_lose_their_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNFINISHED_BYTES", 20_000)
    talk = Talk()
    other = other_port(talk)
    for tcp in (talk.tcp, other):
        tcp.client(metadata(1))
        tcp.broker(answer(1))
        tcp.client(metadata(2))
    long, short = (framed(struct.pack(">i", 2) + bytes(size)) for size in (20_000, 9_000))
    talk.tcp.broker(long[:15_000])
    other.broker(short[:8_000])
    begun = len(talk.wire.packets)
    talk.tcp.broker(long[15_000:])
    other.broker(short[8_000:])
    found = [
        (each.size, each.weird)
        for page in Engine().pages(batches(talk.wire.packets, [begun]))
        for each in page
        if isinstance(each, Message) and each.kind == "response" and each.correlation_id == 2
    ]
    assert [weird != UNSET and "BODY_NOT_KEPT" in weird for _, weird in found] == [True, False]
    assert [size for size, _ in found] == [20_004, 9_004]
