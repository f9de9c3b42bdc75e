"""Where the time goes: CPU nanoseconds of each stage for a packet, a message and a record, on any capture.

    python -m benchmarks.stages FILE [--rounds N] [--json]

The stages are called one after the other, as kshark.pipeline joins them for `read -T json`. Each one's least time of
the rounds counts: the machine may be busy in some of them. `exchange` is headers and pairing; what bodies cost beyond
it, and what opening record batches costs beyond these (CRC, decompression), are the differences to readings without
bodies and with batches left closed."""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import msgspec

from kshark.capture import open_captures
from kshark.embedded.stage import Embedding
from kshark.exchange import BodyWitness, Decoders, ExchangeStage
from kshark.framing import Framing
from kshark.link import Link
from kshark.model import Message, PacketBatch
from kshark.output.jsonlines import json_lines
from kshark.reassembly import Reassembly
from kshark.records import RecordsReader, make_reader
from kshark.records.batch import RecordsField
from kshark.registry import Registry
from kshark.tls import TlsStage

T = TypeVar("T")

#: In the order of the way of the data; `records` are the columns of the opened batches.
STAGES: Final = (
    "capture", "link", "reassembly", "tls", "framing", "exchange", "bodies", "batches", "records", "embedded", "json",
)  # fmt: skip


@dataclass
class Clock:
    """CPU nanoseconds by stage; what runs inside another stage is taken off that one."""

    spent: Counter[str] = field(default_factory=Counter)
    inside: int = 0

    def timed(self, stage: str, work: Callable[..., T], *arguments: Any) -> T:
        begin, inside = time.process_time_ns(), self.inside
        try:
            return work(*arguments)
        finally:
            spent = time.process_time_ns() - begin
            self.spent[stage] += spent - (self.inside - inside)
            self.inside = inside + spent


@dataclass
class Sizes:
    """The contents of a capture."""

    packets: int = 0
    messages: int = 0
    records: int = 0


@dataclass
class Reading:
    """One way through a capture; `bodies`: an empty set reads none, None all; `opened`: record batches are."""

    path: str
    registry: Registry
    bodies: frozenset[int] | None = None
    opened: bool = True
    clock: Clock = field(default_factory=Clock)
    sizes: Sizes = field(default_factory=Sizes)

    def run(self, *, count_records: bool = False) -> Reading:
        timed = self.clock.timed
        registry, reader = self.registry, make_reader(self.opened, True)
        link, reassembly, tls, framing = Link(), Reassembly(), TlsStage(), Framing(BodyWitness(registry))
        exchange, embedding = (
            ExchangeStage(Decoders(registry, reader, self.bodies), reader),
            Embedding(registry, reader),
        )
        items = iter(open_captures([self.path]))
        with _fills_timed(self.clock), open(os.devnull, "wb") as out:
            while (item := timed("capture", next, items, None)) is not None:
                if not isinstance(item, PacketBatch):
                    continue
                self.sizes.packets += len(item.number)
                segments, weirds = timed("link", link.feed, item)
                chunks = timed("tls", tls.feed, timed("reassembly", reassembly.feed, segments, weirds))
                lines = timed("framing", framing.feed, chunks)
                self._show(lines, exchange, embedding, out.write, count_records)
            chunks = timed("tls", tls.feed, timed("reassembly", reassembly.close, link.end, link.close()))
            self._show(timed("framing", framing.close, chunks), exchange, embedding, out.write, count_records)
        return self

    def _show(
        self,
        found: list[Any],
        exchange: ExchangeStage,
        embedding: Embedding,
        write: Callable[[bytes], int],
        count: bool,
    ) -> None:
        """Run the stages after framing, as `read -T json` does."""
        timed = self.clock.timed
        for page in timed("exchange", _listed, exchange.feed, found):
            shown = timed("embedded", embedding.open, page)
            messages = [event for event in shown if isinstance(event, Message)]
            self.sizes.messages += len(messages)
            self.sizes.records += sum(records_in(message.body) for message in messages) if count else 0
            write(timed("json", json_lines, messages))


def _listed(work: Callable[..., Iterable[T]], *arguments: Any) -> list[T]:
    return list(work(*arguments))


@contextmanager
def _fills_timed(clock: Clock) -> Iterator[None]:
    """Count the time of decoding record batches for `records`, whichever stage does it."""
    fill = RecordsReader.fill

    def timed(self: RecordsReader) -> None:
        clock.timed("records", fill, self)

    RecordsReader.fill = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        RecordsReader.fill = fill  # type: ignore[method-assign]


def records_in(value: Any) -> int:
    """Return the number of records in a body."""
    match value:
        case RecordsField():
            return 0 if value.batches is msgspec.UNSET else sum(len(batch.records) for batch in value.batches)
        case msgspec.Struct():
            return sum(records_in(getattr(value, name)) for name in value.__struct_fields__)
        case list():
            return sum(map(records_in, value))
    return 0


def measured(path: str, rounds: int) -> tuple[Sizes, dict[str, int]]:
    """Return the contents of the capture, and the least CPU nanoseconds of each stage."""
    registry = Registry()
    sizes = Reading(path, registry).run(count_records=True).sizes
    full = [Reading(path, registry).run().clock.spent for _ in range(rounds)]
    closed = min(Reading(path, registry, opened=False).run().clock.spent["exchange"] for _ in range(rounds))
    bare = min(Reading(path, registry, frozenset(), opened=False).run().clock.spent["exchange"] for _ in range(rounds))
    least = {stage: min(spent[stage] for spent in full) for stage in STAGES}
    least["batches"] = max(0, least["exchange"] - closed)
    least["bodies"] = max(0, closed - bare)
    least["exchange"] = bare
    return sizes, least


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    asked = parser.parse_args()
    gc.freeze()  # as the command does
    gc.set_threshold(200_000, 50, 100)
    sizes, least = measured(asked.file, asked.rounds)
    if asked.json:
        print(json.dumps({"file": os.path.basename(asked.file), **vars(sizes), "cpu_ns": least}))
        return
    print(
        f"{os.path.basename(asked.file)}: {sizes.packets:,} packets, {sizes.messages:,} messages, {sizes.records:,} "
        f"records"
    )
    print(f"{'':10}{'CPU ms':>10}{'share':>8}{'ns/packet':>11}{'ns/message':>12}{'ns/record':>11}")
    total = sum(least.values())
    for stage, spent in (*least.items(), ("together", total)):
        each = [spent / count if count else 0 for count in (sizes.packets, sizes.messages, sizes.records)]
        print(f"{stage:10}{spent / 1e6:10.1f}{spent / total:8.0%}{each[0]:11,.0f}{each[1]:12,.0f}{each[2]:11,.0f}")


if __name__ == "__main__":
    main()
