"""Captures as if they came from an interface: their packets in steps of time, with a status after each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from kshark.capture import open_captures
from kshark.live import Status
from kshark.live.screen import Model, Picture, State, lines
from kshark.model import PacketBatch
from kshark.output.spans import plain
from kshark.pipeline import Engine, Options
from kshark.run import Run
from tests.conversation import Conversation, registry
from tests.packets import batch

STEP_NS = 250_000_000


class Playing:
    """A model that has seen a capture, and the run that judged it."""

    def __init__(self) -> None:
        self.engine = Engine(Options(records="headers"), registry())
        names = self.engine.back.names
        self.model = Model({} if names is None else names.by_id, "tcp port 9092")
        self.run = Run(registry(), keeps=False, on_change=self.model.change)
        self.model.judges(self.run)
        self.since_ns: int | None = None
        self.seen = 0

    def feed(self, packets: PacketBatch) -> None:
        self.seen += len(packets.number)
        for page in self.engine.feed(packets):
            self.model.page(page, self.run.page(page))

    def status(self, now_ns: int, **fields: object) -> Picture:
        if self.since_ns is None:
            self.since_ns = now_ns
        self.model.status(Status(("eth0",), self.since_ns, now_ns, self.seen, **fields))  # type: ignore[arg-type]
        assert self.model.picture is not None
        return self.model.picture


def played(path: Path, seconds: float | None = None) -> Playing:
    """The capture until so many seconds after its first packet; None: to its last one."""
    playing = Playing()
    begun: int | None = None
    for step, end_ns in _steps(path):
        begun = int(step.time_ns[0]) if begun is None else begun
        if seconds is not None and end_ns - begun > seconds * 1e9:
            break
        playing.feed(step)
        playing.status(end_ns)
    return playing


def talked(talk: Conversation, after_s: float = 0.0) -> Playing:
    """The same of a conversation; the status comes so many seconds after its last packet."""
    playing = Playing()
    packets = batch([packet for _, packet in talk.packets()])
    playing.feed(packets)
    playing.status(int(packets.time_ns[-1]) + int(after_s * 1e9))
    return playing


def _steps(path: Path) -> Iterator[tuple[PacketBatch, int]]:
    """Yield the packets of each quarter of a second, and its end."""
    end_ns: int | None = None
    for packets in open_captures([path]):
        if not isinstance(packets, PacketBatch):
            continue
        at = 0
        while at < len(packets.number):
            time_ns = int(packets.time_ns[at])
            if end_ns is None or time_ns >= end_ns:
                end_ns = time_ns + STEP_NS
            last = at + int(np.searchsorted(packets.time_ns[at:], end_ns))
            rows = slice(at, max(last, at + 1))
            columns = ("number", "time_ns", "link_type", "offset", "length", "wire_length")
            yield replace(packets, **{name: getattr(packets, name)[rows] for name in columns}), end_ns
            at = rows.stop


def screen_of(picture: Picture, size: tuple[int, int], *keys: str) -> str:
    """The text of the screen after these keys; each is drawn."""
    state = State()
    lines(picture, *size, state)
    for key in keys:
        state.press(key)
        lines(picture, *size, state)
    return "\n".join(plain(line).rstrip() for line in lines(picture, *size, state)) + "\n"
