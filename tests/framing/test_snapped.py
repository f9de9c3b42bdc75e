"""Messages that the snap length cuts: their heads pair them, and their lengths lead to the next ones."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from msgspec import UNSET

from kshark.analysis import Analyzer
from kshark.flows.ledger import Ledger
from kshark.model import Event, Exchange, Gap, Message, PacketBatch, Weird
from kshark.pipeline import JUDGED, Engine, Front, Options
from kshark.registry import kafka_registry
from tests.exchange.test_stage import answer, metadata, request
from tests.framing.test_middle import produced
from tests.packets import Tcp, Wire, batches
from tests.property.event_values import event_values
from tests.shared import CAPTURES
from tests.thinning import Whole

#: Bytes of Ethernet, IP and TCP before the payload.
HEADERS = 54
API_VERSIONS = 18


def asked(correlation_id: int, topics: int = 20, client_id: bytes = b"billing") -> bytes:
    """Metadata v0 for so many topics."""
    return request(3, 0, correlation_id, struct.pack(">i", topics) + b"\0\3abc" * topics, client_id)


def told_of(correlation_id: int, size: int = 200) -> bytes:
    """Metadata v0 of so many bytes of brokers, and no topic."""
    brokers = size // 12
    body = b"".join(struct.pack(">ih2si", number, 2, b"ab", 9092) for number in range(brokers))
    return answer(correlation_id, struct.pack(">i", brokers) + body + bytes(4))


def talk(exchanges: int = 6, size: int = 200, mss: int = 1460) -> Wire:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(0, b"billing"))
    tcp.broker(answer(0))
    for number in range(1, exchanges + 1):
        tcp.client(asked(number), mss=mss)
        tcp.broker(told_of(number, size), mss=mss)
    tcp.close()
    return wire


def snapped(items: list[PacketBatch], payload: int) -> list[PacketBatch]:
    return [replace(item, length=np.minimum(item.length, HEADERS + payload)) for item in items]


def events(wire: Wire, payload: int, sizes: tuple[int, ...] = (), **options: bool) -> list[Event]:
    items = snapped(batches(wire.packets, sizes), payload)
    return [event for page in Engine(Options(records=False, **options)).pages(items) for event in page]  # type: ignore[arg-type]


def paired(found: list[Event]) -> list[tuple[int, int | None, str]]:
    return [
        (event.request.packet, None if event.response is None else event.response.packet, event.outcome)
        for event in found
        if isinstance(event, Exchange) and event.request is not None
    ]


@pytest.mark.parametrize("payload", [12, 13, 14, 20, 30, 60, 100])
@pytest.mark.parametrize("mss", [1460, 90])
def test_heads_pair_as_the_whole_messages_do(payload: int, mss: int) -> None:
    wire = talk(mss=mss)
    found = paired(events(wire, payload))
    whole = paired(events(wire, 1460))
    assert [row[:2] for row in found] == [row[:2] for row in whole]
    assert len(found) == 7
    assert {outcome for *_, outcome in found} <= {"body_cut", "answered"}


def test_a_cut_message_has_its_size_and_what_comes_before_the_cut() -> None:
    [_, _, first, second, *_] = [event for event in events(talk(), 60) if isinstance(event, Message)]
    assert (first.kind, first.api, first.correlation_id, first.client_id) == ("request", "Metadata", 1, "billing")
    assert (first.size, second.size) == (len(asked(1)) - 4, len(told_of(1)) - 4)
    assert (first.weird, second.weird) == (["BODY_CUT"], ["BODY_CUT"])
    assert [topic.name for topic in first.body.topics] == ["abc"] * 7


def test_bytes_are_accounted_for() -> None:
    wire = talk(mss=90)
    front, items = Front(Options(records=False), kafka_registry()), snapped(batches(wire.packets, []), 40)
    closed = Ledger().feed(event for batch in front.batches(items) for event in batch)
    sent = [len(metadata(0, b"billing")) + len(asked(1)) * 6, len(answer(0)) + len(told_of(1)) * 6]
    assert [[account.length for account in accounts] for _, accounts in closed] == [sent]


def test_a_hole_in_the_body_of_a_message_hides_no_other() -> None:
    gaps = [event for event in events(talk(), 40) if isinstance(event, Gap)]
    assert {gap.reason for gap in gaps} == {"body"}


def test_a_hole_that_reaches_into_the_next_message_may_hide_others() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in (1, 2, 3, 4, 5):
        tcp.client(asked(number))
    tcp.broker(told_of(1) + told_of(2) + told_of(3))
    tcp.broker(told_of(4))
    tcp.broker(told_of(5))
    tcp.close()
    found = events(wire, 40)
    assert [gap.reason for gap in found if isinstance(gap, Gap)] == ["body"] * 5 + ["snapped"] + ["body"] * 2
    outcomes = {
        event.request.correlation_id: event.outcome for event in found if isinstance(event, Exchange) and event.request
    }
    assert outcomes == {1: "body_cut", 2: "unanswered", 3: "unanswered", 4: "body_cut", 5: "body_cut"}
    assert "REQUEST_UNANSWERED" not in [event.code for event in found if isinstance(event, Weird)]


def test_a_request_whose_acks_are_cut_off_is_not_called_unanswered() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(request(0, 3, 2, struct.pack(">h", 60) + b"t" * 60 + struct.pack(">hii", 0, 1000, 0)))
    tcp.close()
    for payload, outcome in ((40, "unanswered"), (1460, "one_way")):
        found = events(wire, payload)
        assert [row[2] for row in paired(found)] == ["answered", outcome]
        assert not [event for event in found if isinstance(event, Weird) and event.stage == "exchange"]


@pytest.mark.parametrize("bodies", [None, frozenset({3})])
@pytest.mark.parametrize("acks", [0, -1])
@pytest.mark.parametrize("before", [False, True])
def test_answers_after_a_request_whose_acks_are_cut_off_are_in_order(
    bodies: frozenset[int] | None, acks: int, before: bool
) -> None:
    """Also if another request waits for its answer then."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    if not before:
        tcp.broker(answer(1))
    tcp.client(request(0, 3, 2, struct.pack(">h", 60) + b"t" * 60 + struct.pack(">hii", acks, 1000, 0)))
    if before:
        tcp.broker(answer(1))
    tcp.client(metadata(3))
    if acks:
        tcp.broker(produced(2))
    tcp.broker(answer(3))
    tcp.close()
    items = snapped(batches(wire.packets, []), 40)
    found = [event for page in Engine(Options(records=False, bodies=bodies)).pages(items) for event in page]
    outcomes = {
        event.request.correlation_id: event.outcome for event in found if isinstance(event, Exchange) and event.request
    }
    assert outcomes == {1: "answered", 2: "body_cut" if acks else "unanswered", 3: "answered"}
    answers = [event.weird for event in found if isinstance(event, Message) and event.kind == "response"]
    assert answers == [UNSET, *[["BODY_CUT"]] * bool(acks), UNSET]


def test_a_message_cut_by_the_end_of_the_connection_is_truncated() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(metadata(2))
    tcp.broker(told_of(2, 4000)[:1460])
    tcp.close()
    found = events(wire, 60)
    assert [row[2] for row in paired(found)] == ["answered", "unanswered"]
    assert [
        event.detail for event in found if isinstance(event, Weird) and event.code == "FRAME_TRUNCATED_AT_CLOSE"
    ] == ["1460 of 4012 bytes when the connection ended"]


def test_a_message_in_many_packets_ends_with_the_last() -> None:
    wire = talk(2, size=5000)
    found = events(wire, 100)
    assert [row[:2] for row in paired(found)] == [row[:2] for row in paired(events(wire, 1460))]
    assert "BYTES_SKIPPED" not in [event.code for event in found if isinstance(event, Weird)]


def test_a_connection_older_than_the_capture_is_recognised() -> None:
    wire = talk(8)
    wire.packets = wire.packets[3:]
    found = paired(events(wire, 30))
    assert len(found) >= 7
    assert {outcome for *_, outcome in found} == {"answered", "body_cut"}


def test_another_protocol_with_lengths_is_not_recognised() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    for _ in range(5):
        tcp.client(struct.pack(">ii", 200, -2147418111) + b"\0\0\0\4ping" + bytes(188))  # Thrift
        tcp.broker(struct.pack(">ii", 200, -2147418110) + b"\0\0\0\4ping" + bytes(188))
    tcp.close()
    assert not [event for event in events(wire, 30) if isinstance(event, Message)]


@pytest.mark.parametrize("payload", [12, 30, 70])
@pytest.mark.parametrize("sizes", [(1,) * 60, (5, 1, 7, 2), (9,)])
def test_batches_of_any_size_give_the_same(payload: int, sizes: tuple[int, ...]) -> None:
    wire = talk(size=3000)
    items, whole = snapped(batches(wire.packets, sizes), payload), snapped(batches(wire.packets, []), payload)
    assert event_values(items, Options(records=False)) == event_values(whole, Options(records=False))


def test_rules_about_heads_still_judge() -> None:
    """A client that closes while its requests are answered: nobody is accused; without an answer, the broker may be."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(asked(1))
    tcp.broker(told_of(1))
    tcp.client(asked(2))
    tcp.fin(1)
    tcp.fin(0)
    analyzer = Analyzer()
    items = snapped(batches(wire.packets, []), 40)
    found = [finding for page in Engine(JUDGED).pages(items) for finding in analyzer.page(page)] + [*analyzer.close()]
    whole = Analyzer()
    known = [finding for page in Engine(JUDGED).pages(batches(wire.packets, [])) for finding in whole.page(page)]
    known += [*whole.close()]
    judged = [(finding.code, finding.verdict) for finding in found if finding.code != "STREAM_GAP"]
    assert judged == [(finding.code, finding.verdict) for finding in known]
    assert "REQUEST_UNANSWERED" in [code for code, _ in judged]


@pytest.mark.parametrize("name", ["adv-epochs.pcap", "share-loss.pcap", "share-librdkafka.pcap"])
@pytest.mark.parametrize("snap", [96, 128, 200])
def test_exchanges_of_real_captures_pair_as_in_the_whole_capture(name: str, snap: int) -> None:
    whole = Whole.load(CAPTURES / name).batches
    cut = [replace(item, length=np.minimum(item.length, snap)) for item in whole]

    def pairs(items: list[PacketBatch]) -> list[tuple[int, int | None]]:
        pages = Engine(Options(records=False)).pages(items)
        return [row[:2] for row in paired([event for page in pages for event in page])]

    assert pairs(cut) == pairs(whole)


@pytest.mark.parametrize("head", [b"\x16\3\1\2\0\1", b"OPTIONS / HTTP/1.1"])
def test_the_beginning_of_another_protocol_is_no_broken_frame(head: bytes) -> None:
    """On a port where a broker is known: four bytes show neither TLS nor HTTP, and no length that a client chose."""
    wire = talk(2)
    other = Tcp(wire, source="10.0.0.2:50001").open()
    other.client(head + bytes(300))
    other.close()
    [item] = batches(wire.packets, [])
    length = np.where(item.number > len(talk(2).packets), np.minimum(item.length, HEADERS + 4), item.length)
    pages = Engine(Options(records=False)).pages([replace(item, length=length)])
    found = [event.code for page in pages for event in page if isinstance(event, Weird)]
    assert "FRAME_LENGTH_INVALID" not in found
    assert "NOT_KAFKA" in found
