"""What every process does that decodes: it takes batches, and says what is to be shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from kshark.model import Event, Flow, Message
from kshark.output.notes import Notes
from kshark.parallel.ahead import Before
from kshark.parallel.carried import Carried, arrived
from kshark.pipeline import Back


class Turn(NamedTuple):
    """A batch with all that it takes to decode it: its connections as values, and what was known before.

    `where`: file and frame of each row, where there are several files. What is older than `since_ns` is decoded and not shown.
    """

    batch: Carried
    flows: list[tuple[Any, ...]]
    before: Before
    where: list[tuple[str, int] | None] | None
    since_ns: int


class Made(NamedTuple):
    """What became of a batch."""

    what: Any
    notes: Notes


class Maker(Protocol):
    """What a command makes of messages in the process that decoded them."""

    def page(self, page: list[Event], since_ns: int) -> None:
        """Takes events in time line order; those before `since_ns` are not shown."""

    def widths(self, widths: tuple[int, ...]) -> None:
        """Columns are that wide from the next message on."""

    def made(self) -> Any:
        """What was made since the last time; it goes back to the first process."""


class Worker:
    """Decodes batches, of which others may be decoded elsewhere."""

    def __init__(self, back: Back, maker: Maker) -> None:
        self._back = back
        self._maker = maker

    def take(self, turn: Turn) -> Made:
        """A batch from another process."""
        flows = {values[0]: Flow(*values) for values in turn.flows}
        return self.decode(arrived(turn.batch, flows), flows, turn.before, turn.where, turn.since_ns)

    def decode(
        self,
        events: Iterable[Event],
        flows: Mapping[int, Flow],
        before: Before,
        where: list[tuple[str, int] | None] | None,
        since_ns: int,
    ) -> Made:
        """A batch; the other arguments are those of a Turn."""
        self._begin(before, flows)
        notes = Notes()
        row = 0
        for page in self._back.feed(events):
            if where is not None:
                row = _locate(page, where, row)
            notes.add(page)
            self._maker.page(page, since_ns)
        return Made(self._maker.made(), notes)

    def _begin(self, before: Before, flows: Mapping[int, Flow]) -> None:
        self._back.resume((flows[flow], standing) for flow, standing in before.standings)
        embedding = self._back.embedding
        if embedding is not None:
            for name in before.names:
                embedding.names.tell(*name)
            embedding.told_full = before.told_full
        if before.widths is not None:
            self._maker.widths(before.widths)


def _locate(page: list[Event], where: list[tuple[str, int] | None], row: int) -> int:
    """Writes file and frame into the messages; the number of rows behind the page."""
    for event in page:
        if isinstance(event, Message):
            place = where[row]
            if place is not None:
                event.file, event.frame = place
            row += 1
    return row
