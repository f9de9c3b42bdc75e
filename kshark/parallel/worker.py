"""What every other process does: decodes the batches that it is given, and says what is to be shown of them."""

from __future__ import annotations

from typing import Any, Protocol

from kshark.model import Event, Flow, Message
from kshark.output.notes import Notes
from kshark.parallel.ahead import Before
from kshark.parallel.carried import arrived
from kshark.parallel.turns import Made, Turn
from kshark.pipeline import Back


class Maker(Protocol):
    """What a command makes of messages in the process that decoded them."""

    def page(self, page: list[Event], since_ns: int) -> None:
        """Takes events in time line order; those before `since_ns` are not shown."""

    def widths(self, widths: tuple[int, ...]) -> None:
        """Columns are that wide from the next message on."""

    def made(self) -> Any:
        """What was made since the last time; it goes back to the first process."""


class Worker:
    """Takes batches, of which others may be decoded elsewhere."""

    def __init__(self, back: Back, maker: Maker) -> None:
        self._back = back
        self._maker = maker

    def take(self, turn: Turn) -> Made:
        flows = {values[0]: Flow(*values) for values in turn.flows}
        self._begin(turn.before, flows)
        notes = Notes()
        row = 0
        for page in self._back.feed(arrived(turn.batch, flows)):
            if turn.where is not None:
                row = _locate(page, turn.where, row)
            notes.add(page)
            self._maker.page(page, turn.since_ns)
        return Made(self._maker.made(), notes)

    def _begin(self, before: Before, flows: dict[int, Flow]) -> None:
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
