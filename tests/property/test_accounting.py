"""The books balance: every packet and every byte of a connection is a message's, or something is said of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kshark.model import Closed, Flow, Message, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from tests.property.mangled import MUTATIONS, anything, batches_of, packets_of
from tests.shared import CAPTURES, SHARED

BUNDLED = sorted(CAPTURES.glob("*.pcap*"))
EVERYTHING = {**MUTATIONS, "anything": anything}
#: Captures that the quick test takes with each mutation.
SAMPLE = 3
#: What framing says of bytes that are in no message. The four of a FRAME_LENGTH_INVALID are the first of a BYTES_SKIPPED too.
PASSED_OVER = ("BYTES_SKIPPED", "FRAME_TRUNCATED_AT_CLOSE")
LENGTH_PREFIX = 4


class Books:
    """What one run said of its packets."""

    def __init__(self, batches: list[PacketBatch]) -> None:
        engine = Engine(Options(records=False, bodies=frozenset()))
        events = [event for page in engine.pages(batches) for event in page]
        self.link = engine.front.link
        self.flows: list[Flow] = [event.flow for event in events if isinstance(event, Closed)]
        self.in_messages: Counter[int] = Counter()
        self.passed_over: Counter[int] = Counter()
        self.foreign: dict[int, list[int]] = {}
        for event in events:
            if isinstance(event, Message):
                self.in_messages[event.flow] += LENGTH_PREFIX + event.size
            elif isinstance(event, Weird) and event.flow is not None and event.stage == "framing":
                if event.code in PASSED_OVER:
                    self.passed_over[event.flow] += event.size
                elif event.code in ("NOT_KAFKA", "FOREIGN_PROTOCOL", "TLS_UNREAD"):
                    self.foreign.setdefault(event.flow, []).append(event.size)

    def unbalanced(self) -> dict[str, tuple[int, int]]:
        """What does not add up, with both sums; nothing, where all is well."""
        link = self.link
        wrong = {"packets": (link.packets, link.tcp + link.fragments + link.other.total() + link.unread.total())}
        for flow in self.flows:
            carried = sum(flow.stream_bytes)
            if flow.service == "kafka":
                wrong[f"kafka, flow {flow.id}"] = carried, self.in_messages[flow.id] + self.passed_over[flow.id]
            else:
                wrong[f"{flow.service}, flow {flow.id}"] = carried, sum(self.foreign.get(flow.id, []))
        return {name: sums for name, sums in wrong.items() if sums[0] != sums[1]}


@pytest.mark.parametrize("capture", BUNDLED, ids=lambda path: path.name)
def test_of_captures_as_they_are(capture: Path) -> None:
    assert Books(batches_of(packets_of(capture), Random(capture.name))).unbalanced() == {}


@pytest.mark.parametrize("name", EVERYTHING)
def test_of_captures_with(name: str) -> None:
    random = Random(name)
    for capture in random.sample(BUNDLED, SAMPLE):
        packets = EVERYTHING[name](packets_of(capture)[: random.choice((200, 700))], random)
        assert Books(batches_of(packets, random)).unbalanced() == {}, capture.name


@pytest.mark.slow
@pytest.mark.parametrize("capture", sorted(SHARED.glob("captures/*/*.pcap*")), ids=lambda path: path.name)
def test_of_every_capture_and_every_mutation(capture: Path) -> None:
    packets = packets_of(capture)
    for name, mutation in EVERYTHING.items():
        random = Random(f"{capture.name} {name}")
        assert Books(batches_of(mutation(packets, random), random)).unbalanced() == {}, name
