"""Back into one time line: what the processes made of a batch, in the order of its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from kshark.errors import Error
from kshark.model import Event, Weird
from kshark.output.notes import Notes, example
from kshark.parallel.crew import Crew
from kshark.parallel.lessons import Learner
from kshark.parallel.shares import ALWAYS, Batch, Sharing, Where
from kshark.parallel.worker import First

#: Batches that are handed out before the oldest has to be there: enough that no process waits for another's large batch.
WINDOW: Final = 4
#: A place in the time line: rows before it, then events there, then the row itself.
_Place = tuple[int, int]
_ROW: Final = 1 << 62


class Merged(NamedTuple):
    """A batch in order: all its events but frames with the rows before each, and by process what was made of its rows."""

    batch: Batch
    made: dict[int, Any]

    def in_order(self) -> Iterator[Any]:
        """Items of the processes' lists, one for each row that is shown, in the order of the time line."""
        batch = self.batch
        owners = batch.owners
        if len(self.made) == 1:
            return iter(next(iter(self.made.values())))
        if batch.since_ns > ALWAYS:
            owners = [owner for owner, time_ns in zip(owners, batch.last_time_ns, strict=True) if time_ns >= batch.since_ns]
        items = {worker: iter(made) for worker, made in self.made.items()}
        return map(next, map(items.__getitem__, owners))


def merged(
    batches: Iterable[list[Event]],
    crew: Crew,
    sharing: Sharing,
    learner: Learner | None,
    notes: Notes,
    since_ns: Callable[[], int],
    where: Callable[[], Where | None],
) -> Iterator[Merged]:
    """Hands batches of the time line out and gives what was made of them, in order; counts their notes.

    When reading fails, what was read before comes first.
    """
    waiting: deque[Batch] = deque()
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
        since = since_ns()
        lessons = learner.learn(events, since) if learner is not None else []
        batch, shares = sharing.cut(events, lessons, since, where())
        for worker, share in shares.items():
            crew.send(worker, share)
        waiting.append(batch)
        while waiting and (len(waiting) > WINDOW or all(map(crew.ready, waiting[0].steps))):
            yield _collected(waiting.popleft(), crew, notes)
    while waiting:
        yield _collected(waiting.popleft(), crew, notes)
    if failure is not None:
        raise failure


def _collected(batch: Batch, crew: Crew, notes: Notes) -> Merged:
    made = {worker: crew.receive(worker) for worker in batch.steps}
    firsts = [(_place(batch, worker, first), first.code, first.example) for worker, told in made.items() for first in told.firsts]
    others = [event for _, event in batch.events]
    firsts += [((row, index), event.code, example(event)) for index, (row, event) in enumerate(batch.events) if isinstance(event, Weird)]
    for _, code, text in sorted(firsts):
        notes.first(code, text)
    for told in made.values():
        notes.join(told.notes)
    notes.add(others)
    return Merged(batch, {worker: told.what for worker, told in made.items()})


def _place(batch: Batch, worker: int, first: First) -> _Place:
    if first.step is not None:
        return batch.steps[worker][first.step]
    rows = (row for row, owner in enumerate(batch.owners) if owner == worker)
    return next(islice(rows, first.row, None)), _ROW
