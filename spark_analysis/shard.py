"""A share of a capture's connections, through kshark's engine.

All packets are read, numbered and put in order, since connections tell about each other and about time; decoding messages, which is
most of the work, is done for one in so many connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kshark.capture import open_captures
from kshark.model import Event, Exchange, Frames, Message, Weird
from kshark.pipeline import Engine, Options


def sharded_pages(files: Sequence[str], options: Options, shard: int, shards: int) -> Iterator[list[Event]]:
    """The events of one share of the connections: the `shard`th of `shards`; what belongs to no connection goes with the first."""
    engine = Engine(options)
    batches = engine.front.batches(open_captures(list(files)))
    for page in engine.back.pages(_share(events, shard, shards) for events in batches):
        yield page if shard == 0 else [event for event in page if not (isinstance(event, Weird) and event.flow is None)]


def _share(events: Iterable[Event], shard: int, shards: int) -> Iterator[Event]:
    """Of a batch of the time line, what happens on every `shards`th connection."""
    for event in events:
        match event:
            case Frames():
                ours = [flow.id % shards == shard for flow in event.flows]
                rows = [row for row, stream in enumerate(event.stream.tolist()) if ours[stream]]
                if rows:
                    yield event.rows(rows)
            case Weird():
                if (event.flow or 0) % shards == shard:
                    yield event
            case Message() | Exchange():
                raise TypeError("messages are made after the time line")
            case _:
                if event.flow.id % shards == shard:
                    yield event
