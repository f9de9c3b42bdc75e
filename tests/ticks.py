"""Ticks of a running capture between the packets of a recorded one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import msgspec
import numpy as np

from kshark.analysis.results.findings import in_packet_order
from kshark.model import Finding, PacketBatch, Tick, Weird
from kshark.pipeline import JUDGED, Engine
from kshark.registry import kafka_registry
from kshark.run import Run
from tests.conversation import Conversation, Thinned, registry
from tests.packets import batch

#: A running capture gives one so often.
EVERY_NS = 250_000_000
#: The most ticks in one silence: at this pace, more than any deadline in seconds.
MOST = 2_000

Item = PacketBatch | Weird | Tick


def between(since_ns: int, until_ns: int) -> Iterator[Tick]:
    """The ticks of a running capture between two packets."""
    yield from (Tick(time_ns) for time_ns in range(since_ns + EVERY_NS, until_ns, EVERY_NS)[:MOST])


def rows(item: PacketBatch, part: slice) -> PacketBatch:
    """Some packets of a batch."""
    columns = ("number", "time_ns", "link_type", "offset", "length", "wire_length")
    return replace(item, **{name: getattr(item, name)[part] for name in columns})


def with_ticks(items: Iterable[PacketBatch | Weird], random: Random, places: int) -> Iterator[Item]:
    """The same with ticks wherever packets are far apart, and at so many random places: each at a time between the
    packet before it and the one after it."""
    batches = [item for item in items if isinstance(item, PacketBatch) and len(item.number)]
    for index, item in enumerate(batches):
        times = [*item.time_ns.tolist(), int(batches[index + 1].time_ns[0]) if index + 1 < len(batches) else None]
        far = [at for at in range(1, len(times)) if times[at] is not None and times[at] - times[at - 1] > EVERY_NS]
        chosen = random.sample(range(1, len(times)), min(places, len(times) - 1))
        done = 0
        for at in sorted({*far, *chosen, len(times) - 1}):
            yield rows(item, slice(done, at))
            done, after = at, times[at]
            if after is None:
                return
            yield from between(times[at - 1], after)
            yield Tick(random.randint(min(times[at - 1], after), max(times[at - 1], after)))


def with_wrong_ticks(batches: Iterable[PacketBatch], random: Random) -> Iterator[Item]:
    """The same with ticks of a clock that is stepped back and forth, after some packets."""
    hour_ns = 3_600_000_000_000
    for item in batches:
        edges = [0, *sorted(random.sample(range(1, len(item.number)), min(60, len(item.number) - 1))), len(item.number)]
        for begin, end in pairwise(edges):
            yield rows(item, slice(begin, end))
            time_ns = int(item.time_ns[end - 1])
            for _ in range(random.randint(1, 6)):
                time_ns += random.choice((1, -1, hour_ns, -hour_ns, random.randint(0, 499_000_000), EVERY_NS, EVERY_NS))
                yield Tick(time_ns)


def judged(items: Iterable[Item]) -> tuple[list[Finding], list[tuple[int | None, Finding]]]:
    """The findings of a whole run in the order of packets, and each as it was returned: with the time of the tick that
    proved it, None where a packet or the end did."""
    engine, run = Engine(JUDGED, kafka_registry()), Run(kafka_registry())
    returned: list[tuple[int | None, Finding]] = []
    for item in items:
        time_ns = item.time_ns if isinstance(item, Tick) else None
        for page in engine.feed(item):
            returned += [(time_ns, finding) for finding in run.page(page)]
    for page in engine.close():
        returned += [(None, finding) for finding in run.page(page)]
    returned += [(None, finding) for finding in run.close()]
    return [*run.findings], returned


def without_explanation(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without the incident that explains them: that may become known after they are returned."""
    return in_packet_order(msgspec.structs.replace(finding, event_code=None, event_packet=None) for finding in findings)


class Running:
    """A running capture of a conversation: its packets, and then ticks without any."""

    def __init__(self, talk: Conversation | Thinned) -> None:
        self._engine, self.run = Engine(JUDGED, registry()), Run(registry())
        #: The findings that packets proved.
        self.findings = self.goes_on(talk, 0)
        self.now_ns = talk.packets()[-1][1].time_ns

    def passes(self, seconds: float) -> list[tuple[float, Finding]]:
        """So much time passes; return the findings of ticks, each with the seconds until then."""
        proved = []
        since_ns = self.now_ns
        for tick in between(since_ns, since_ns + int(seconds * 1e9) + 1):
            proved += [((tick.time_ns - since_ns) / 1e9, finding) for finding in self.tick(tick.time_ns)]
        return proved

    def tick(self, time_ns: int) -> list[Finding]:
        self.now_ns = time_ns
        return self._feed(Tick(time_ns))

    def goes_on(self, talk: Conversation | Thinned, after: int) -> list[Finding]:
        """The packets of the conversation after the first `after` ones."""
        packets = talk.packets()[after:]
        taken = batch([packet for _, packet in packets])
        taken.number = np.array([number for number, _ in packets], np.int64)
        return self._feed(taken)

    def close(self) -> list[Finding]:
        found = [finding for page in self._engine.close() for finding in self.run.page(page)]
        return [*found, *self.run.close()]

    def _feed(self, item: Item) -> list[Finding]:
        return [finding for page in self._engine.feed(item) for finding in self.run.page(page)]
