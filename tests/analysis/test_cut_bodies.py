"""Messages that end anywhere, of versions known and unknown: the analysis takes what there is of them, and trips over
nothing."""

from __future__ import annotations

import struct
from functools import cache
from itertools import pairwise

import pytest

from kshark.analysis import Analyzer
from kshark.model import Weird
from kshark.pipeline import JUDGED, Engine
from kshark.registry import kafka_registry
from tests.analysis.test_damage import HEADERS, talk_of_all_kinds
from tests.packets import Tcp, Wire, batches

#: Newer than any.
UNKNOWN = 32_514


@cache
def payloads() -> list[tuple[bool, bytes]]:
    """Of a conversation, whether the client sends it, and the frame; each has a packet of its own."""
    packets = [packet.data for packet in talk_of_all_kinds().wire.packets if len(packet.data) > HEADERS]
    return [(data[36:38] == struct.pack(">H", 9092), data[HEADERS:]) for data in packets]


def requests() -> dict[tuple[int, int], tuple[bytes, bytes]]:
    """By API and version, a request, and the answer behind it."""
    said = payloads()
    pairs = [(one, two) for (ours, one), (theirs, two) in pairwise(said) if ours and not theirs]
    return {struct.unpack_from(">hh", one, 4): (one, two) for one, two in pairs}


def cut(frame: bytes, size: int) -> bytes:
    return struct.pack(">i", size - 4) + frame[4:size]


def judged(asked: bytes, answer: bytes) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(payloads()[0][1])
    tcp.broker(payloads()[1][1])
    tcp.client(asked)
    tcp.broker(answer)
    analyzer = Analyzer(sessions=True, steps=True)
    pages = [*Engine(JUDGED, kafka_registry()).pages(batches(wire.packets, []))]
    found = [finding for page in pages for finding in analyzer.page(page)] + [*analyzer.close()]
    assert not [event for page in pages for event in page if isinstance(event, Weird) and event.stage == "framing"]
    assert {finding.verdict for finding in found} <= {"violation", "unknown", "note"}


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("version", [None, UNKNOWN])
@pytest.mark.parametrize("key", sorted(requests()))
def test_messages_that_end_anywhere(key: tuple[int, int], version: int | None) -> None:
    asked, answer = requests()[key]
    if version is not None:
        asked = asked[:6] + struct.pack(">h", version) + asked[8:]
    for size in range(14, len(asked)):
        judged(cut(asked, size), answer)
    for size in range(8, len(answer)):
        judged(asked, cut(answer, size))
