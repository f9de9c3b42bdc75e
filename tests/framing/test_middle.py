"""Connections older than the capture: what comes after its first packet is read as if the capture had begun earlier."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from msgspec import UNSET

from kshark import limits
from kshark.model import Message, Weird
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from tests.exchange.test_stage import answer, framed, metadata, request
from tests.packets import Packet, Tcp, Wire, batches
from tests.property.event_values import event_values
from tests.property.mangled import packets_of, tcp_at
from tests.shared import CAPTURES, SHARED, sample_of, shared

REGISTRY = Registry()
#: Every capture that is not damaged on purpose: in one that is, what a hole took depends on what was known before it.
FOLDERS = (SHARED / "captures" / "kafka-4", SHARED / "captures" / "clients", CAPTURES)
DAMAGED = ("tcp-", "share-loss", "adv-frames", "lossy", "mid")
EVERY = {path.name: path for folder in FOLDERS for path in sorted(folder.glob("*.pcap"))}
WHOLE = [path for name, path in EVERY.items() if not name.startswith(DAMAGED) and path.stat().st_size < 12_000_000]


def messages(packets: list[Packet], start: int = 0, options: Options | None = None) -> list[Message]:
    """Of the packets from one on; they keep their numbers."""
    items = batches(packets[start:], [])
    for item in items:
        item.number = np.asarray(item.number) + start
    pages = Engine(options or Options(records=False), REGISTRY).pages(items)
    return [event for page in pages for event in page if isinstance(event, Message)]


def produce(correlation_id: int, size: int) -> bytes:
    """Produce v3 with one partition, whose batch nobody opens."""
    topic = b"\0\1t" + struct.pack(">iii", 1, 0, size) + bytes(size)
    return request(0, 3, correlation_id, struct.pack(">hhii", -1, -1, 1000, 1) + topic)


def produced(correlation_id: int) -> bytes:
    body = struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iihqq", 1, 0, 0, 7, -1) + bytes(4)
    return answer(correlation_id, body)


def a_producer(size: int, *, requests: int = 5) -> Wire:
    """Large requests, each answered."""
    wire = Wire()
    tcp = Tcp(wire)
    for number in range(1, requests + 1):
        tcp.client(produce(number, size))
        tcp.broker(produced(number))
    return wire


@pytest.mark.parametrize("size", [3_000, 70_000, 400_000, 1_500_000])
def test_a_request_of_any_size_is_picked_up_at_its_first_packet(size: int) -> None:
    wire = a_producer(size)
    whole = messages(wire.packets)
    found = messages(wire.packets, 2)
    assert [(each.kind, each.correlation_id) for each in whole] == [
        (kind, n) for n in range(1, 6) for kind in ("request", "response")
    ]
    assert [(each.kind, each.correlation_id) for each in found if each.kind == "request"] == [
        ("request", n) for n in range(2, 6)
    ]
    assert {each.packet for each in found} <= {each.packet for each in whole}
    assert all(each.latency_ns is UNSET or each.latency_ns > 0 for each in found)


def test_requests_that_lead_up_to_a_known_one_are_read_wherever_they_begin() -> None:
    """A pipelining client: the first three begin inside segments, the fourth at the edge of one."""
    head = len(produce(1, 0))
    wire = Wire()
    tcp = Tcp(wire)
    tcp.client(produce(1, 5_000)[-900:] + produce(2, 2_000) + produce(3, 6 * 1460 - 900 - 2_000 - 2 * head))
    for number in (4, 5):
        tcp.client(produce(number, 3_000))
        tcp.broker(produced(number))
    assert [each.correlation_id for each in messages(wire.packets) if each.kind == "request"] == [2, 3, 4, 5]


def test_what_came_before_the_first_boundary_is_counted() -> None:
    wire = a_producer(70_000)
    lost = produce(1, 70_000)[2 * 1460 :]
    items = batches(wire.packets[2:], [])
    weirds = [event for page in Engine(None, REGISTRY).pages(items) for event in page if isinstance(event, Weird)]
    assert sum(weird.size for weird in weirds if weird.code == "BYTES_SKIPPED") == len(lost)


def test_a_declared_port_is_read_at_once() -> None:
    """Also where nothing but the declaration says that it is Kafka."""
    wire = Wire()
    tcp = Tcp(wire)
    tcp.broker(bytes(range(200)))
    for number in (1, 2):
        tcp.client(metadata(number, None))
    port = int(tcp.target.rpartition(":")[2])
    (first, second) = messages(wire.packets, options=Options(kafka_ports=frozenset([port])))
    assert (first.correlation_id, second.correlation_id) == (1, 2)


def test_bytes_of_another_kind_are_no_verdict_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than are searched: the rest of a message longer than that."""
    monkeypatch.setattr(limits, "SEARCH_BYTES", 20_000)
    monkeypatch.setattr(limits, "RECOGNITION_BYTES", 5_000)
    wire = a_producer(100_000)
    assert [each.correlation_id for each in messages(wire.packets, 5) if each.kind == "request"] == [2, 3, 4, 5]


def test_an_answer_is_whole_that_came_while_nothing_was_known_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many bytes are looked at now and then only: the look that finds the request forgets none that came behind it."""
    monkeypatch.setattr(limits, "SEARCH_BYTES", 20_000)
    monkeypatch.setattr(limits, "RECOGNITION_BYTES", 5_000)
    wire = Wire()
    tcp = Tcp(wire)
    tcp.broker(framed(struct.pack(">i", 1) + b"\x9a" * 120_000))
    for number in (2, 3):
        tcp.client(produce(number, 60))
        tcp.broker(framed(struct.pack(">i", number) + b"\x9a" * 80_000))
    before = len(wire.packets)
    for start in range(1, 80, 3):
        found = [each.correlation_id for each in messages(wire.packets[:before], start) if each.kind == "response"]
        assert found == [2, 3], start


def test_a_frame_too_long_to_keep_has_its_header_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next boundary is where its length says."""
    monkeypatch.setattr(limits, "UNFINISHED_BYTES", 50_000)
    wire = Wire()
    tcp = Tcp(wire)
    tcp.client(produce(1, 3_000)[1460:])
    for size in (3_000, 90_000, 3_000, 3_000):
        tcp.client(produce(2 + size % 7, size))
    few = batches(wire.packets, [5] * 99)
    found = [
        event
        for page in Engine(Options(records=False), REGISTRY).pages(few)
        for event in page
        if isinstance(event, Message)
    ]
    assert [each.size for each in found] == [len(produce(1, size)) - 4 for size in (3_000, 90_000, 3_000, 3_000)]
    assert ["BODY_NOT_KEPT" in (each.weird or ()) for each in found] == [False, True, False, False]
    assert [each.correlation_id for each in found] == [2 + size % 7 for size in (3_000, 90_000, 3_000, 3_000)]


def test_the_same_comes_out_however_the_packets_are_fed() -> None:
    for size in (3_000, 70_000):
        packets = a_producer(size).packets[2:]
        assert (
            event_values(batches(packets, []))
            == event_values(batches(packets, [1] * 999))
            == event_values(batches(packets, [7] * 999))
        )


def test_an_answer_that_leads_up_to_a_known_one_is_read_without_its_request() -> None:
    wire = Wire()
    tcp = Tcp(wire)
    tcp.broker(framed(struct.pack(">i", 1) + bytes(900)))
    for number in (2, 3):
        tcp.client(metadata(number))
        tcp.broker(answer(number))
    answers = [each for each in messages(wire.packets) if each.kind == "response"]
    assert [(each.correlation_id, each.request_packet is UNSET) for each in answers] == [
        (1, True),
        (2, False),
        (3, False),
    ]


@pytest.mark.parametrize("missing", [3, 40])
def test_a_hole_in_bytes_of_which_nothing_is_known_says_nothing_of_what_follows(missing: int) -> None:
    """The first bytes here are no length: who takes them for one jumps over all answers to come."""
    wire = Wire()
    tcp = Tcp(wire)
    tcp.broker(framed(struct.pack(">i", 1) + bytes([0, 9, 9, 9]) * 20_000))
    for number in (2, 3, 4):
        tcp.client(metadata(number))
        tcp.broker(answer(number))
    packets = [packet for at, packet in enumerate(wire.packets) if at > 1 and at != missing]
    assert [each.correlation_id for each in messages(packets) if each.kind == "response"] == [2, 3, 4]


# -- real captures


@pytest.mark.parametrize(("name", "requests", "answers"), [("mid600k", 8, 8), ("mid120k", 13, 13), ("midfetch", 3, 2)])
def test_captures_begun_in_large_messages(name: str, requests: int, answers: int) -> None:
    found = messages(packets_of(shared("captures", "clients", f"{name}.pcap")))
    kinds = [each.kind for each in found]
    assert (kinds.count("request"), kinds.count("response")) == (requests, answers)
    assert all(each.latency_ns is UNSET or each.latency_ns > 0 for each in found)
    assert len({each.packet for each in found}) == len(found)


def known_by(message: Message) -> tuple[object, ...]:
    return (
        message.client,
        message.broker,
        message.kind,
        message.packet,
        message.time_ns,
        message.correlation_id,
        message.size,
    )


def sent_again(packets: list[Packet]) -> set[int]:
    """The numbers of packets that carry what an earlier one carried."""
    seen: set[bytes] = set()
    again: set[int] = set()
    for number, packet in enumerate(packets, 1):
        if (at := tcp_at(packet)) is not None:
            sent = (
                packet.data[at - 8 : at + 8] + packet.data[at + 4 * (packet.data[at + 12] >> 4) :]
            )  # addresses, ports, sequence number
            if sent in seen:
                again.add(number)
            seen.add(sent)
    return again


def unread(capture: Path, places: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """By place where the capture is cut: how many messages behind it should be read, are not, and are read there only.

    An answer whose request lies before the cut belongs to what was cut: its id alone tells nothing. What was sent again
    behind the cut is read there."""
    packets = packets_of(capture)
    whole = messages(packets)
    begins = {known_by(each): each.packet if each.packets is UNSET else each.packets[0] for each in whole}
    asked = {known_by(each): each.request_packet for each in whole}
    again = sent_again(packets)
    random = Random(seed)
    for cut in random.sample(range(1, len(packets)), min(places, len(packets) - 1)):
        found = {
            known_by(each) for each in messages(packets, cut) if each.packet not in again or known_by(each) in begins
        }
        wanted = {each for each, begin in begins.items() if begin > cut}
        missed = {each for each in wanted - found if asked[each] is UNSET or asked[each] > cut}
        yield len(wanted), len(missed), len(found - begins.keys())


def check(capture: Path, places: int) -> None:
    results = [*unread(capture, places, seed=len(capture.name))]
    wanted, missed, invented = (sum(column) for column in zip(*results, strict=True))
    assert invented == 0
    assert missed <= wanted // 500


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("capture", sample_of(WHOLE, 6, seed=3), ids=lambda path: path.stem)
def test_what_is_read_after_a_cut_is_what_was_read_before(capture: Path) -> None:
    check(capture, 2)


@pytest.mark.slow
@pytest.mark.parametrize("capture", WHOLE, ids=lambda path: path.stem)
def test_what_is_read_after_any_of_many_cuts_is_what_was_read_before(capture: Path) -> None:
    check(capture, int(os.environ.get("KSHARK_CUTS", "50")))
