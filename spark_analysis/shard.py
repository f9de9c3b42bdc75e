"""A share of a capture's connections through kshark's engine: all packets are read and numbered, one in so many connections is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from kshark.capture import open_captures
from kshark.model import Ends, Event, PacketBatch, Segments, Weird
from kshark.pipeline import Engine, Options


class Shard:
    """In the place of kshark.link.Link: lets pass the segments of every `shards`th pair of ends."""

    def __init__(self, link: Any, shard: int, shards: int) -> None:
        self._link = link
        self._shard = shard
        self._shards = shards

    @property
    def ends(self) -> list[Ends]:
        found: list[Ends] = self._link.ends
        return found

    def feed(self, batch: PacketBatch) -> tuple[Segments | None, list[Weird]]:
        segments, weirds = self._link.feed(batch)
        if segments is not None:
            segments = kept(segments, (segments.path >> 1) % self._shards == self._shard)
        return segments, weirds if self._shard == 0 else []


def kept(segments: Segments, mask: Any) -> Segments | None:
    """The segments where the mask is true, in the same buffer."""
    if mask.all():
        return segments
    if not mask.any():
        return None
    columns = {field.name: getattr(segments, field.name) for field in fields(segments)}
    return Segments(**{name: column[mask] if isinstance(column, np.ndarray) else column for name, column in columns.items()})


def sharded_pages(files: Sequence[str], options: Options, shard: int, shards: int) -> Iterator[list[Event]]:
    """The events of one share of the connections; what belongs to no connection goes with the first share."""
    engine: Any = Engine(options)
    if shards > 1:
        engine.link = Shard(engine.link, shard, shards)
    for item in open_captures(list(files)):
        if isinstance(item, PacketBatch) or shard == 0:
            yield from engine.feed(item)
    yield from engine.close()
