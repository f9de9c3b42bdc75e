"""A share of a capture's connections through kshark's engine.

All packets are read, numbered and put in order, since connections tell of each other and of the time; the messages of one in so many
connections are decoded, which is where the work is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kshark.capture import open_captures
from kshark.model import Ends, Event, Exchange, Frames, Message, Segments, Weird
from kshark.pipeline import Engine, Options


class Share:
    """In the place of the engine's framing: passes what happens on every `shards`th connection; what is of none goes with the first."""

    def __init__(self, framing: Any, shard: int, shards: int) -> None:
        self._framing = framing
        self._shard, self._shards = shard, shards

    def feed(self, segments: Segments, ends: Sequence[Ends]) -> Iterator[Event]:
        return self._ours(self._framing.feed(segments, ends))

    def tell(self, weirds: Iterable[Weird]) -> None:
        self._framing.tell(weirds)

    def close(self) -> Iterator[Event]:
        return self._ours(self._framing.close())

    def takes(self, flow: int | None) -> bool:
        return (flow or 0) % self._shards == self._shard

    def _ours(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case Frames():
                    yield from self._frames(event)
                case Weird():
                    if self.takes(event.flow):
                        yield event
                case Message() | Exchange():
                    raise TypeError("framing makes no messages")
                case _:
                    if self.takes(event.flow.id):
                        yield event

    def _frames(self, frames: Frames) -> Iterator[Frames]:
        ours = [self.takes(flow.id) for flow in frames.flows]
        rows = [row for row, stream in enumerate(frames.stream.tolist()) if ours[stream]]
        if rows:
            yield frames.rows(rows)


def sharded_pages(files: Sequence[str], options: Options, shard: int, shards: int) -> Iterator[list[Event]]:
    """The events of one share of the connections."""
    engine: Any = Engine(options)
    if shards > 1:
        engine.front.framing = Share(engine.front.framing, shard, shards)
    for item in open_captures(list(files)):
        for page in engine.feed(item):
            yield page if shard == 0 else [event for event in page if not (isinstance(event, Weird) and event.flow is None)]
    yield from engine.close()
