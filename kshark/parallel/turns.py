"""Batches of the time line, decoded by several processes in turn, the first one among them, and what they made of them, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kshark.model import Event, Frames
from kshark.output.notes import Notes
from kshark.parallel.ahead import Ahead
from kshark.parallel.carried import carry, flow_values, flows_of
from kshark.parallel.crew import WINDOW, Crew
from kshark.parallel.reading import UntilFailure
from kshark.parallel.worker import Made, Turn, Worker

#: File and frame of a packet.
Where = Callable[[int], tuple[str, int] | None]
#: Before every time.
ALWAYS: Final = -(1 << 62)
#: Batches that wait at each other process when the first one decodes one itself: they last longer than that takes.
DEPTH: Final = 4


@dataclass(slots=True, eq=False)
class _Slot:
    """A batch in its place: the process that has it, None for the first one, and what became of it."""

    worker: int | None
    made: Made | None = None


class Turns:
    """One run through a capture: each batch goes to the process that has the fewest to do; where all have enough, `own` decodes it here."""

    def __init__(self, crew: Crew, own: Worker, ahead: Ahead, notes: Notes) -> None:
        self._crew = crew
        self._own = own
        self._ahead = ahead
        self._notes = notes
        self._under_way: deque[_Slot] = deque()
        #: Of each other process, those that were not received yet; how many names it knows, and the first process last.
        self._sent: list[deque[_Slot]] = [deque() for _ in range(crew.jobs)]
        self._names = [ahead.names] * (crew.jobs + 1)

    def run(self, batches: Iterable[list[Event]], since_ns: Callable[[], int], where: Callable[[], Where | None]) -> Iterator[Any]:
        """What was made of each batch. `since_ns` and `where` are known once the first has come. When reading fails, what was read before
        comes first."""
        reading = UntilFailure(batches)
        for events in reading:
            if events:
                self._hand_out(events, since_ns(), where())
            yield from self._collected(WINDOW)
        yield from self._collected(0)
        reading.end()

    def _hand_out(self, events: list[Event], since_ns: int, where: Where | None) -> None:
        worker = min(range(self._crew.jobs), key=lambda at: len(self._sent[at]))
        own = len(self._sent[worker]) >= DEPTH
        knows = -1 if own else worker
        flows = flows_of(events)
        before = self._ahead.before(flows, self._names[knows])
        self._names[knows] = self._ahead.names
        located = _located(events, where)
        slot = _Slot(None if own else worker)
        if not own:
            self._crew.send(worker, Turn(carry(events), [flow_values(flow) for flow in flows.values()], before, located, since_ns))
            self._sent[worker].append(slot)
        self._ahead.read(events, since_ns)
        if own:
            slot.made = self._own.decode(events, flows, before, located, since_ns)
        self._under_way.append(slot)

    def _collected(self, left: int) -> Iterator[Any]:
        """What is there by now, in order; waits until no more than so many are under way."""
        for worker, sent in enumerate(self._sent):
            while sent and self._crew.ready(worker):
                self._receive(worker)
        under_way = self._under_way
        while under_way and (under_way[0].made is not None or len(under_way) > left):
            slot = under_way[0]
            while slot.made is None and slot.worker is not None:
                self._receive(slot.worker)
            under_way.popleft()
            assert slot.made is not None
            self._notes.join(slot.made.notes)
            yield slot.made.what

    def _receive(self, worker: int) -> None:
        self._sent[worker].popleft().made = self._crew.receive(worker)


def _located(events: list[Event], where: Where | None) -> list[tuple[str, int] | None] | None:
    if where is None:
        return None
    return [where(packet) for event in events if isinstance(event, Frames) for packet in event.last_packet.tolist()]
