"""Where the time goes: CPU microseconds of each stage, per packet and per message, on one capture.

    python -m benchmarks.stages FILE [--rounds N]

Every stage's least time of the rounds counts: the machine may be busy in some of them.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from kshark.capture import open_captures
from kshark.decoding import Decoders
from kshark.embedding import Embedding
from kshark.exchange import ExchangeStage
from kshark.framing import Framing
from kshark.link import Link
from kshark.model import Message, PacketBatch
from kshark.output.jsonlines import json_lines
from kshark.reassembly import Reassembly
from kshark.records import RecordsReader
from kshark.registry import Registry

T = TypeVar("T")


class Clock:
    """CPU seconds by stage. What runs inside another stage is taken off that one."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.inside = 0.0

    def timed(self, stage: str, results: Iterable[T]) -> Iterator[T]:
        """The results, the time that each takes to come counted for the stage."""
        steps = iter(results)
        while True:
            begin, inside = time.process_time(), self.inside
            try:
                result = next(steps)
            except StopIteration:
                self._count(stage, begin, inside)
                return
            self._count(stage, begin, inside)
            yield result

    def _count(self, stage: str, begin: float, inside: float) -> None:
        spent = time.process_time() - begin
        self.spent[stage] += spent - (self.inside - inside)
        self.inside = inside + spent


def once(path: str) -> tuple[Clock, int, int]:
    """One way through the capture: times, packets, messages."""
    clock, packets, messages = Clock(), 0, 0
    registry = Registry()
    records = RecordsReader()
    framing = Framing(registry.knows)
    link, exchange, embedding = Link(), ExchangeStage(Decoders(registry, records), records), Embedding(registry, records)
    reassemble, fill = Reassembly.feed, RecordsReader.fill

    def timed_reassembly(self: Reassembly, *given: object) -> object:
        return next(clock.timed("reassembly", (reassemble(self, *given) for _ in "1")))  # type: ignore[arg-type]

    def timed_fill(self: RecordsReader) -> None:
        next(clock.timed("records", (fill(self) for _ in "1")))

    Reassembly.feed, RecordsReader.fill = timed_reassembly, timed_fill  # type: ignore[assignment,method-assign]
    try:
        for batch in clock.timed("capture", open_captures([path])):
            if not isinstance(batch, PacketBatch):
                continue
            packets += len(batch.number)
            segments, _ = next(clock.timed("link", (link.feed(batch) for _ in "1")))
            lines = [] if segments is None else next(clock.timed("framing", (framing.feed(segments, link.ends) for _ in "1")))
            pages = [page for line in lines for page in clock.timed("exchange", exchange.feed(line))]
            pages += clock.timed("exchange", exchange.turn())
            for page in pages:
                events = next(clock.timed("embedded", (embedding.open(page) for _ in "1")))
                found = [event for event in events if isinstance(event, Message)]
                messages += len(found)
                next(clock.timed("json", (json_lines(found) for _ in "1")))
    finally:
        Reassembly.feed, RecordsReader.fill = reassemble, fill  # type: ignore[method-assign]
    return clock, packets, messages


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    once(asked.file)
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    rounds = [once(asked.file) for _ in range(asked.rounds)]
    _, packets, messages = rounds[0]
    best = {stage: min(clock.spent[stage] for clock, _, _ in rounds) for stage in rounds[0][0].spent}
    print(f"{asked.file}: {packets} packets, {messages} messages, {messages / packets:.2f} a packet")
    for stage in ("capture", "link", "reassembly", "framing", "exchange", "records", "embedded", "json"):
        spent = best.get(stage, 0)
        print(f"{stage:12}{spent:8.3f} s{spent / packets * 1e6:8.2f} us/packet{spent / messages * 1e6:8.2f} us/message")
    total = sum(best.values())
    print(f"{'together':12}{total:8.3f} s{total / packets * 1e6:8.2f} us/packet{total / messages * 1e6:8.2f} us/message")


if __name__ == "__main__":
    main()
