"""Captures, damaged between the wire and the file: one time line by every path and in any batches, books that balance,
one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from kshark.analysis import Analyzer
from kshark.anomaly import CATALOGUE
from kshark.model import Event, Message, PacketBatch, Weird
from kshark.pipeline import JUDGED, Engine
from kshark.registry import kafka_registry
from tests.fuzz.frames import ASKED
from tests.fuzz.kind import Broken, Kind, Seen, difference, shorter
from tests.packets import Packet, batch
from tests.property.event_values import event_values
from tests.property.mangled import MUTATIONS, anything, packets_of
from tests.property.test_accounting import Books
from tests.shared import CAPTURES, SHARED_CAPTURES

#: Bundled captures, and where the shared folder is, its own, but the largest.
FROM: Final = sorted(path for path in [*CAPTURES.glob("*.pcap*"), *SHARED_CAPTURES] if path.stat().st_size < 2_000_000)
#: Packets of a case.
SIZES: Final = (5, 20, 20, 40, 40, 60, 100, 300)


class Capture(msgspec.Struct):
    """Packets, after how many of them batches end, and which of ASKED the consumer asks for."""

    packets: list[Packet]
    edges: list[int]
    asked: int

    @property
    def batches(self) -> list[PacketBatch]:
        edges = [0, *(edge for edge in self.edges if edge < len(self.packets)), len(self.packets)]
        return [batch(self.packets[a:z], a + 1) for a, z in pairwise(edges) if a < z]


@lru_cache(maxsize=48)
def loaded(capture: Path) -> list[Packet]:
    return packets_of(capture)


def some_of(random: Random) -> list[Packet]:
    """A part of a capture, or two of different ones as a sniffer on two machines would have them."""
    packets = _window(random)
    if random.random() < 0.15:
        other = _window(random)
        later = packets[0].time_ns - other[0].time_ns + random.choice((0, 1, 1_000_000))
        packets = sorted(
            [*packets, *(replace(it, time_ns=it.time_ns + later) for it in other)], key=lambda it: it.time_ns
        )
    return packets


def _window(random: Random) -> list[Packet]:
    packets: list[Packet] = []
    while not packets:  # a capture may have none
        packets = loaded(random.choice(FROM))
    size = random.choice(SIZES)
    at = random.choice((0, random.randrange(max(1, len(packets) - size))))
    return packets[at : at + size]


def damaged(random: Random) -> list[Packet]:
    packets = some_of(random)
    return random.choice([*MUTATIONS.values(), anything, anything, anything])(packets, random)


class Captures(Kind[Capture]):
    name = "captures"
    case = Capture
    share = 6

    def make(self, random: Random) -> Capture:
        packets = damaged(random)
        step = random.choice((1, 3, 20, 400))
        edges = list(accumulate(random.randint(1, step) for _ in range(len(packets)))) if random.random() < 0.8 else []
        return Capture(packets, [edge for edge in edges if edge < len(packets)], random.randrange(len(ASKED)))

    def check(self, case: Capture) -> Seen:
        whole, asked = [batch(case.packets)], ASKED[case.asked]
        exactly = event_values(whole, replace(asked, exact=True))
        for words, batches in (("in other batches", case.batches), ("by the fast path", whole)):
            if (said := event_values(batches, asked)) != exactly:
                raise Broken(f"{words} something else is said than by the exact path", difference(said, exactly))
        if wrong := Books(whole).unbalanced():
            raise Broken("bytes are not accounted for", wrong)
        events = [*chain.from_iterable(Engine(JUDGED, kafka_registry()).pages(whole))]
        if case.asked % 2:
            judged, judged_exactly, one_by_one = (judgement(events, how) for how in ("page", "exact", "feed"))
            if not judged == judged_exactly == one_by_one:
                raise Broken("the analysis says something else by its fast path", difference(judged, judged_exactly))
        return Seen(len(case.packets), sum(len(it.data) for it in case.packets), codes_of(events))

    def smaller(self, case: Capture) -> Iterator[Capture]:
        for packets in shorter(case.packets):
            yield Capture(packets, case.edges, case.asked)
        if case.edges:
            yield Capture(case.packets, [], case.asked)
            yield from (Capture(case.packets, edges, case.asked) for edges in shorter(case.edges))
        if case.asked > 1:
            yield Capture(case.packets, case.edges, case.asked % 2)


def judgement(events: Iterable[Event], how: str) -> list[Any]:
    """All that the analysis says: `how` is by the page, by the page and the exact path, or event by event."""
    analyzer = Analyzer(sessions=True, steps=True, coverage=True, exact=how == "exact")
    pages = [[event] for event in events] if how == "feed" else [[*events]]
    found = [finding for page in pages for finding in analyzer.page(page)]
    found += analyzer.close()
    return [*found, analyzer.summary(), *analyzer.listed(), analyzer.coverage]


def codes_of(events: Iterable[Event]) -> Counter[str]:
    """The codes that were told; all are of the catalogue."""
    codes: Counter[str] = Counter()
    for event in events:
        if isinstance(event, Weird):
            codes[event.code] += event.times
        elif isinstance(event, Message):
            codes.update(event.weird or ())
    if unknown := codes.keys() - CATALOGUE.keys():
        raise Broken("a code is not in the catalogue", unknown)
    return codes
