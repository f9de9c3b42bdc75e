"""Back into one time line: what the processes made of a batch, in the order of its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kshark.errors import Error
from kshark.model import Event, Weird
from kshark.output.notes import Notes, example
from kshark.parallel.crew import WINDOW, Crew
from kshark.parallel.crossings import Crossings
from kshark.parallel.lessons import Learner
from kshark.parallel.printed import Bytes, in_order
from kshark.parallel.shares import ALWAYS, Batch, Share, Sharing, Where
from kshark.parallel.worker import First, Made

#: A place in the time line: rows before it, then events there, then the row itself.
_Place = tuple[int, int]
_ROW: Final = 1 << 62


class Merged(NamedTuple):
    """A batch in order: all its events but frames with the rows before each, and by process what was made of its rows."""

    batch: Batch
    made: dict[int, Any]

    def in_order(self) -> list[Bytes]:
        """What the processes printed of the rows that are shown, in the order of the time line."""
        batch = self.batch
        owners = batch.owners if batch.since_ns == ALWAYS else batch.owners[batch.last_time_ns >= batch.since_ns]
        return in_order(owners, self.made)


class Parallel:
    """One run through a capture: hands its time line out batch by batch and gives what was made of it, in order.

    `learner` None: crossings are watched instead, and Crossed may be raised.
    """

    def __init__(self, crew: Crew, learner: Learner | None, notes: Notes) -> None:
        self._crew = crew
        self._learner = learner
        self._notes = notes
        self._sharing = Sharing(crew.jobs)
        self._crossings = Crossings()
        #: Batches that were handed out, with their shares as long as crossings are watched.
        self._waiting: deque[tuple[Batch, dict[int, Share]]] = deque()

    def run(self, batches: Iterable[list[Event]], since_ns: Callable[[], int], where: Callable[[], Where | None]) -> Iterator[Merged]:
        """All batches. `since_ns` and `where` are known once the first has come. When reading fails, what was read before comes first."""
        waiting = self._waiting
        source = iter(batches)
        failure: Exception | None = None
        while True:
            try:
                events = next(source)
            except StopIteration:
                break
            except (Error, OSError) as error:
                failure = error
                break
            self._hand_out(events, since_ns(), where())
            while waiting and (len(waiting) > WINDOW or all(map(self._crew.ready, waiting[0][0].steps))):
                yield self._collected()
        while waiting:
            yield self._collected()
        if failure is not None:
            raise failure

    def _hand_out(self, events: list[Event], since_ns: int, where: Where | None) -> None:
        lessons = self._learner.learn(events, since_ns) if self._learner is not None else []
        batch, shares = self._sharing.cut(events, lessons, since_ns, where)
        for worker, share in shares.items():
            self._crew.send(worker, share)
        self._waiting.append((batch, shares if self._learner is None else {}))

    def _collected(self) -> Merged:
        batch = self._waiting[0][0]
        made = {worker: self._crew.receive(worker) for worker in batch.steps}
        if self._learner is None:
            lesson = self._crossings.lesson(made, [shares for _, shares in self._waiting])
            if lesson is not None:
                self._sharing.teach(lesson)
        self._waiting.popleft()
        self._note(batch, made)
        return Merged(batch, {worker: told.what for worker, told in made.items()})

    def _note(self, batch: Batch, made: dict[int, Made]) -> None:
        notes = self._notes
        firsts = [(_place(batch, worker, first), first.code, first.example) for worker, told in made.items() for first in told.firsts]
        firsts += [((row, at), event.code, example(event)) for at, (row, event) in enumerate(batch.events) if isinstance(event, Weird)]
        for _, code, text in sorted(firsts):
            notes.first(code, text)
        for told in made.values():
            notes.join(told.notes)
        notes.add(event for _, event in batch.events)


def _place(batch: Batch, worker: int, first: First) -> _Place:
    if first.step is not None:
        return batch.steps[worker][first.step]
    return int(np.flatnonzero(batch.owners == worker)[first.row]), _ROW
