"""The handler of a decoding process: batches of the time line in, what is to be printed of their messages out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from kshark.model import Event, Flow, Message
from kshark.output.notes import Notes
from kshark.parallel.lookahead import Context
from kshark.parallel.packed import PackedBatch, unpack
from kshark.pipeline import Back


class Task(NamedTuple):
    """A batch with all that it takes to decode it: its connections as tuples of their fields, and the context from
    earlier batches.

    `where`: the file and the frame number there of each row, where there are several files. Messages before `since_ns`
    are decoded and not shown."""

    batch: PackedBatch
    flows: list[tuple[Any, ...]]
    context: Context
    where: list[tuple[str, int] | None] | None
    since_ns: int


class Result(NamedTuple):
    """What became of a batch: what the Renderer made of its messages, and the notes on it."""

    shown: Any
    notes: Notes


class Renderer(Protocol):
    """Turns messages into what a command prints, in the process that decoded them."""

    def page(self, page: list[Event], since_ns: int) -> None:
        """Takes events in time line order; those before `since_ns` are not shown."""

    def widths(self, widths: tuple[int, ...]) -> None:
        """Columns are that wide from the next message on."""

    def rendered(self) -> Any:
        """What was rendered since the last call; it goes back to the first process."""


class Worker:
    """Decodes some batches of a capture while other processes decode the others."""

    def __init__(self, back: Back, renderer: Renderer) -> None:
        self._back = back
        self._renderer = renderer

    def take(self, task: Task) -> Result:
        """A batch from another process."""
        flows = {values[0]: Flow(*values) for values in task.flows}
        return self.decode(unpack(task.batch, flows), flows, task.context, task.where, task.since_ns)

    def decode(
        self,
        events: Iterable[Event],
        flows: Mapping[int, Flow],
        context: Context,
        where: list[tuple[str, int] | None] | None,
        since_ns: int,
    ) -> Result:
        """A batch; the other arguments are those of a Task."""
        self._begin(context, flows)
        notes = Notes()
        row = 0
        for page in self._back.feed(events):
            if where is not None:
                row = _locate(page, where, row)
            notes.add(page)
            self._renderer.page(page, since_ns)
        return Result(self._renderer.rendered(), notes)

    def _begin(self, context: Context, flows: Mapping[int, Flow]) -> None:
        self._back.resume((flows[flow], standing) for flow, standing in context.states)
        embedding = self._back.embedding
        if embedding is not None:
            for name in context.names:
                embedding.names.tell(name.key, name.value, name.packet)
            embedding.told_full = context.told_full
        if context.widths is not None:
            self._renderer.widths(context.widths)


def _locate(page: list[Event], where: list[tuple[str, int] | None], row: int) -> int:
    """Writes file and frame into the page's messages, the first of which is row `row` of the batch; returns the row
    after its last."""
    for event in page:
        if isinstance(event, Message):
            place = where[row]
            if place is not None:
                event.file, event.frame = place
            row += 1
    return row
