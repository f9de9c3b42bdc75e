"""Which process decodes which batch of the time line; the results come in the order of the batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kshark.model import Event, Frames
from kshark.output.notes import Notes
from kshark.parallel.lookahead import Lookahead
from kshark.parallel.packed import flow_values, flows_of, pack
from kshark.parallel.pool import WINDOW, WorkerPool
from kshark.parallel.reading import UntilFailure
from kshark.parallel.worker import Result, Task, Worker

#: File and frame of a packet.
Where = Callable[[int], tuple[str, int] | None]
#: Before every time.
ALWAYS: Final = -(1 << 62)
#: Batches in every worker's queue from which on the first process decodes one itself: the workers stay busy for longer
#: than that takes.
DEPTH: Final = 4


@dataclass(slots=True, eq=False)
class _Pending:
    """A batch whose turn in the output has not come: who decodes it (None: the first process), and the result once it
    is there."""

    worker: int | None
    result: Result | None = None


class Scheduler:
    """One run through a capture: a batch goes to the worker with the shortest queue; where all queues are full, `own`
    decodes it here."""

    def __init__(self, pool: WorkerPool, own: Worker, lookahead: Lookahead, notes: Notes) -> None:
        self._pool = pool
        self._own = own
        self._lookahead = lookahead
        self._notes = notes
        self._pending: deque[_Pending] = deque()
        #: By worker, the batches whose results were not received yet.
        self._sent: list[deque[_Pending]] = [deque() for _ in range(pool.jobs)]
        #: By worker, how many topic names it was told; the last one is `own`.
        self._names = [lookahead.names] * (pool.jobs + 1)

    def run(
        self, batches: Iterable[list[Event]], since_ns: Callable[[], int], where: Callable[[], Where | None]
    ) -> Iterator[Any]:
        """The result of each batch. `since_ns` and `where` are asked once the first batch has come: only then they are
        known. When reading fails, the results of what was read before come first."""
        reading = UntilFailure(batches)
        for events in reading:
            if events:
                self._hand_out(events, since_ns(), where())
            yield from self._collect(WINDOW)
        yield from self._collect(0)
        reading.end()

    def _hand_out(self, events: list[Event], since_ns: int, where: Where | None) -> None:
        worker = min(range(self._pool.jobs), key=lambda at: len(self._sent[at]))
        own = len(self._sent[worker]) >= DEPTH
        knows = -1 if own else worker
        flows = flows_of(events)
        context = self._lookahead.context(flows, self._names[knows])
        self._names[knows] = self._lookahead.names
        located = _located(events, where)
        entry = _Pending(None if own else worker)
        if not own:
            self._pool.send(
                worker, Task(pack(events), [flow_values(flow) for flow in flows.values()], context, located, since_ns)
            )
            self._sent[worker].append(entry)
        self._lookahead.read(events, since_ns)
        if own:
            entry.result = self._own.decode(events, flows, context, located, since_ns)
        self._pending.append(entry)

    def _collect(self, left: int) -> Iterator[Any]:
        """The results that are there by now, in order; waits until no more than `left` batches are pending."""
        for worker, sent in enumerate(self._sent):
            while sent and self._pool.ready(worker):
                self._receive(worker)
        pending = self._pending
        while pending and (pending[0].result is not None or len(pending) > left):
            first = pending[0]
            while first.result is None and first.worker is not None:
                self._receive(first.worker)
            pending.popleft()
            assert first.result is not None
            self._notes.join(first.result.notes)
            yield first.result.shown

    def _receive(self, worker: int) -> None:
        self._sent[worker].popleft().result = self._pool.receive(worker)


def _located(events: list[Event], where: Where | None) -> list[tuple[str, int] | None] | None:
    if where is None:
        return None
    return [where(packet) for event in events if isinstance(event, Frames) for packet in event.last_packet.tolist()]
