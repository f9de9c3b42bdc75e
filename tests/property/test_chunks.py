"""Chunk invariance, the whole way: however the packets are cut into batches, the same events come out in the same
order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kshark import limits
from kshark.framing import streams
from kshark.model import Closed, Event, Exchange, Frames, Gap, HalfClosed, Message, Opened, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from tests.packets import batch, batches
from tests.property.event_values import event_values
from tests.property.mangled import anything, dropped, packets_of
from tests.shared import CAPTURES, sample_of
from tests.thinning import Whole, events_of

SMALL = sorted(path for path in CAPTURES.glob("*.pcap") if path.stat().st_size < 300_000)


def told(event: Event) -> Any:
    """What can be compared of an event."""
    match event:
        case Message():
            return msgspec.json.encode(event)
        case Exchange():
            return event.outcome, event.request and event.request.packet, event.response and event.response.packet
        case Opened():
            return "opened", event.flow.id, event.packet, event.flow.ends
        case Closed():
            return (
                "closed",
                event.flow.id,
                event.packet,
                event.how,
                event.side,
                tuple(event.flow.stream_bytes),
                event.flow.service,
            )
        case HalfClosed():
            return "half closed", event.flow.id, event.packet, event.side
        case Gap():
            return "gap", event.flow.id, event.packet, event.first_packet, event.last_packet, event.size, event.reason
        case Weird():
            return msgspec.json.encode(event)
        case Frames():
            raise AssertionError("frames never leave the engine")


def cut(whole: list[PacketBatch], sizes: Iterator[int]) -> Iterator[PacketBatch]:
    """The same packets in batches of other sizes."""
    for item in whole:
        at = 0
        while at < len(item.number):
            part = slice(at, at + next(sizes))
            at = part.stop
            yield replace(
                item,
                number=item.number[part],
                time_ns=item.time_ns[part],
                link_type=item.link_type[part],
                offset=item.offset[part],
                length=item.length[part],
                wire_length=item.wire_length[part],
            )


def sizes_of(random: Random, largest: int) -> Iterator[int]:
    while True:
        yield random.randint(1, largest)


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("capture", sample_of(SMALL, 8, seed=4), ids=lambda path: path.stem)
def test_batches_may_be_cut_anywhere(capture: Path) -> None:
    whole = Whole.load(capture)
    expected = [told(event) for event in events_of(iter(whole.batches))]
    random = Random(zlib.crc32(capture.name.encode()))
    for largest in (3, 200) if len(whole.everything()) < 400 else (30, 200):  # a batch costs half a millisecond
        events = [told(event) for event in events_of(cut(whole.batches, sizes_of(random, largest)))]
        assert events == expected


#: Some that are long, hold much at the same time, or are damaged already.
LONG = ("tcp-var-missed", "share-java-explicit-4.0.0", "adv-sessions-4.2.1", "share-loss", "tcp-hostile")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", sample_of(LONG, 2, seed=5))
def test_batches_may_be_cut_anywhere_when_packets_are_missing(name: str) -> None:
    """Two packets in a hundred are lost: which holes are given up, and what is found behind them, is no matter of the
    cut."""
    whole = Whole.load(CAPTURES / f"{name}.pcap")
    random = Random(zlib.crc32(name.encode()))
    keep = whole.everything()
    keep[[at for at in range(len(keep)) if random.random() < 0.02]] = False
    left = list(whole.thinned(keep))
    expected = [told(event) for event in events_of(iter(left))]
    for largest in (4, 50):
        assert [told(event) for event in events_of(cut(left, sizes_of(random, largest)))] == expected


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", LONG)
def test_nor_where_a_capture_with_holes_begins_in_the_middle(name: str) -> None:
    """Connections of which no beginning was seen lose packets in bursts: their boundaries are searched behind holes
    that stay open long."""
    packets = packets_of(CAPTURES / f"{name}.pcap")
    packets = dropped(packets[len(packets) // 20 :], Random(f"1 {name}.pcap"))
    expected = event_values([batch(packets)], Options(records=False))
    for size in (1, 50):
        assert event_values(batches(packets, [size] * len(packets)), Options(records=False)) == expected


@pytest.mark.parametrize("name", ["security-sasl", "adv-sessions-4.2.1"])
def test_what_bytes_hold_and_how_topics_are_called_does_not_depend_on_batches(name: str) -> None:
    whole = Whole.load(CAPTURES / f"{name}.pcap")
    expected = shown(iter(whole.batches))
    assert b"_decoded" in b"".join(expected[0])
    assert shown(cut(whole.batches, sizes_of(Random(7), 40))) == expected


#: So low that a short capture reaches them.
LOW = {
    "HELD_NS": 400_000,
    "REORDER_NS": 200_000,
    "OPEN_BYTES": 3_200,
    "FRAME_BYTES": 700,
    "HEAD_BYTES": 60,
    "REQUEST_BYTES": 900,
    "ANSWER_BYTES": 1_500,
    "RECOGNITION_BYTES": 3_000,
    "SEARCH_BYTES": 9_000,
    "SEARCH_PIECES": 60,
    "REORDER_SEGMENTS": 5,
    "TOPICS": 9,
}


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize(
    "seed",
    [
        59,
        188,
        *range(12),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 400) if seed not in (59, 188)),
    ],
)
def test_one_batch_and_packet_by_packet_say_the_same_of_damage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing that was said changes afterwards, which `told` sees to."""
    for name, value in LOW.items() if seed % 2 else ():
        monkeypatch.setattr(limits, name, value)
        monkeypatch.setattr(streams, "REMEMBERED", 6)
    random = Random(seed)
    packets = packets_of(random.choice(SMALL))
    at = random.randrange(max(1, len(packets) - 150))
    packets = anything(packets[at : at + 150], random)
    options = Options(records=False, embedded=bool(seed % 3))
    assert event_values([batch(packets)], options) == event_values(batches(packets, [1] * len(packets)), options)


def shown(parts: Iterator[PacketBatch]) -> tuple[list[bytes], dict[str, str]]:
    """Messages as a consumer that shows bodies has them, and the topics' names in the end."""
    engine = Engine(Options(embedded=True))
    told = [msgspec.json.encode(event) for page in engine.pages(parts) for event in page if isinstance(event, Message)]
    assert engine.back.names is not None
    return told, engine.back.names.by_id
