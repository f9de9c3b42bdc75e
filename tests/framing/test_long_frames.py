"""Frames longer than usual: read as any other but for their body, whatever the packets are and however many come at
once.

Frames of 150 MB are made packet by packet, and never held as a whole.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from msgspec import UNSET

from kshark import limits
from kshark.flows.ledger import Ledger
from kshark.model import Event, Exchange, Gap, Message, PacketBatch, Weird
from kshark.pipeline import Engine, Front, Options
from kshark.registry import Registry
from tests.exchange.test_stage import answer, metadata, request
from tests.framing.test_middle import produced
from tests.packets import Tcp, Wire, batch, batches
from tests.property.event_values import event_values

REGISTRY = Registry()
LONG = 150_000_000
MSS = 65_000
BLOCK = bytes(1 << 20)
PRODUCE = 0


def head_of_produce(correlation_id: int, acks: int = -1, key: int = PRODUCE, client_id: bytes = b"c") -> bytes:
    """The beginning of a Produce v3, without its length."""
    return request(key, 3, correlation_id, struct.pack(">hhi", -1, acks, 1000), client_id)[4:]


def long_request(correlation_id: int, size: int = LONG, **how: int) -> Iterator[bytes]:
    head = head_of_produce(correlation_id, **how)
    yield struct.pack(">i", size) + head
    yield from blocks(size - len(head))


def long_answer(correlation_id: int, size: int) -> Iterator[bytes]:
    yield struct.pack(">ii", size, correlation_id)
    yield from blocks(size - 4)


def blocks(size: int) -> Iterator[bytes]:
    while size:
        yield BLOCK[:size]
        size -= min(size, len(BLOCK))


def sent(wire: Wire, number: list[int]) -> Iterator[PacketBatch]:
    if wire.packets:
        yield batch(wire.packets, number[0])
        number[0] += len(wire.packets)
        wire.packets.clear()


def talk(connections: int = 1, size: int = LONG) -> Iterator[PacketBatch]:
    """Connections that send a long request each, all at the same time, and go on."""
    wire, number = Wire(), [1]
    tcps = [Tcp(wire, f"10.0.{n >> 8}.{n & 255}:50000").open() for n in range(connections)]
    for tcp in tcps:
        tcp.client(metadata(1))
        tcp.broker(answer(1))
    parts = [long_request(2, size) for _ in tcps]
    open_ones = dict(enumerate(parts))
    while open_ones:
        for which in [*open_ones]:
            data = next(open_ones[which], b"")
            if not data:
                del open_ones[which]
            tcps[which].client(data, mss=MSS)
            yield from sent(wire, number)
    for tcp in tcps:
        tcp.broker(produced(2))
        tcp.client(metadata(3))
        tcp.broker(answer(3))
    yield from sent(wire, number)


def events(read: Iterator[PacketBatch], **options: int) -> list[Event]:
    engine = Engine(Options(records=False, **options), REGISTRY)  # type: ignore[arg-type]
    return [event for page in engine.pages(read) for event in page]


def exchanges(found: list[Event]) -> list[tuple[str, object, object]]:
    return [
        (
            it.outcome,
            it.request and (it.request.api, it.request.correlation_id, it.request.size),
            it.response and it.response.api,
        )
        for it in found
        if isinstance(it, Exchange)
    ]


def test_a_request_of_150_mb_is_a_request() -> None:
    tracemalloc.start()
    try:
        found = events(talk())
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert exchanges(found) == [
        ("answered", ("Metadata", 1, 15), "Metadata"),
        ("answered", ("Produce", 2, LONG), "Produce"),
        ("answered", ("Metadata", 3, 15), "Metadata"),
    ]
    assert not [it for it in found if isinstance(it, Weird | Gap)]
    (long,) = [it for it in found if isinstance(it, Message) and it.size == LONG]
    assert (long.client_id, long.body, long.weird) == ("c", None, ["BODY_NOT_KEPT"])
    assert isinstance(long.packets, tuple)


def test_many_connections_with_long_requests_stay_within_the_limits() -> None:
    """All together are five times as long as what is held of unfinished frames."""
    connections, size = 20, 16 << 20
    tracemalloc.start()
    try:
        found = events(talk(connections, size))
        assert tracemalloc.get_traced_memory()[1] < 3 * limits.UNFINISHED_BYTES
    finally:
        tracemalloc.stop()
    assert [outcome for outcome, *_ in exchanges(found)] == ["answered"] * 3 * connections
    assert not [it for it in found if isinstance(it, Weird)]
    kept = [it.weird is UNSET for it in found if isinstance(it, Message) and it.size == size]
    assert len(kept) == connections
    assert sum(kept) < connections


def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REQUEST_BYTES": 2_000, "FRAME_BYTES": 1_500, "ANSWER_BYTES": 1_800, "HEAD_BYTES": 40}.items():
        monkeypatch.setattr(limits, name, value)


def small() -> Wire:
    """Long requests and answers in small: above each limit, before and after others."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    for number, (asked, size) in enumerate([(10, 10), (1_600, 5), (5_000, 1_700), (9, 9_000), (2_100, 2_100)], 2):
        tcp.client(b"".join(long_request(number, asked + 40)), mss=700)
        tcp.broker(b"".join(long_answer(number, size + 4)), mss=700)
    tcp.close()
    return wire


def test_the_same_comes_out_whatever_the_batches_and_packets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    packets = small().packets
    whole = event_values(batches(packets, []))
    for sizes in ([1] * 99, [2] * 99, [3, 5, 1] * 20):
        assert event_values(batches(packets, sizes)) == whole
    found = events(iter(batches(packets, [])))
    assert [outcome for outcome, *_ in exchanges(found)] == ["answered"] * 6


@pytest.mark.parametrize("mss", [1, 3, 100, 4_000])
def test_a_header_may_come_in_pieces(mss: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(b"".join(long_request(2, 2_500)), mss=mss)
    tcp.broker(answer(2))
    found = events(iter(batches(wire.packets, [7] * 999)))
    assert exchanges(found)[1][1] == ("Produce", 2, 2_500)
    assert not [it for it in found if isinstance(it, Weird)]


def test_every_byte_is_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    wire = small()
    for lost in range(4, len(wire.packets) - 3):
        left = [packet for number, packet in enumerate(wire.packets) if number != lost]
        front, ledger = Front(Options(), REGISTRY), Ledger()
        closed = [it for events in front.batches(batches(left, [4] * 99)) for it in ledger.feed(events)]
        for event, accounts in closed:
            for side in (0, 1):
                carried = event.flow.stream_bytes[side] + event.flow.missing_bytes[side]
                assert accounts[side].length == carried, (lost, side)


def test_a_hole_in_a_body_that_is_not_kept_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    packets = tcp.client(b"".join(long_request(2, 5_000)), mss=500)
    tcp.broker(produced(2))
    tcp.client(metadata(3))
    tcp.broker(answer(3))
    wire.pause(2)
    tcp.client(metadata(4))
    tcp.broker(answer(4))
    for lost in packets[1:-1]:
        left = [packet for number, packet in enumerate(wire.packets, 1) if number != lost]
        found = events(iter(batches(left, [3] * 99)))
        assert [asked for _, asked, _ in exchanges(found)][1] == ("Produce", 2, 5_000), lost
        assert sum(isinstance(it, Gap) for it in found) == 1


@pytest.mark.parametrize(
    ("head", "is_request"),
    [
        (head_of_produce(2), True),
        (head_of_produce(2, key=10_001), True),  # a vendor's API, of the same client
        (head_of_produce(7, client_id=b"d"), True),
        (head_of_produce(2, key=10_001, client_id=b"d"), False),
        (head_of_produce(2, client_id=b"\0\1"), False),
        (bytes(40), False),
        (b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(20), False),
    ],
)
@pytest.mark.parametrize("length", [limits.REQUEST_BYTES + 1, (1 << 31) - 1])
def test_a_length_above_the_default_needs_a_header(head: bytes, is_request: bool, length: int) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(struct.pack(">i", length) + head)
    tcp.close()
    found = [it.code for it in events(iter(batches(wire.packets, [1] * 99))) if isinstance(it, Weird)]
    assert ("FRAME_LENGTH_INVALID" not in found) is is_request


def test_one_way_requests_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(b"".join(long_request(2, 3_000, acks=0)))
    tcp.client(metadata(3))
    tcp.broker(answer(3))
    tcp.close()
    found = events(iter(batches(wire.packets, [1] * 99)))
    assert [outcome for outcome, *_ in exchanges(found)] == ["answered", "one_way", "answered"]
    assert not [it for it in found if isinstance(it, Weird)]


def test_an_answer_to_no_request_is_not_skipped_by_its_length() -> None:
    """A listener that answers TLS: 15 03 03 00 02 would be 350 MB."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(metadata(2))
    tcp.broker(b"\x15\x03\x03\x00\x02\x02\x28")
    found = [it.code for it in events(iter(batches(wire.packets, [1] * 99))) if isinstance(it, Weird)]
    assert found[0] == "FRAME_LENGTH_INVALID"
