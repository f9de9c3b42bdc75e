"""Batches of the time line, decoded by the processes of a crew in turn, and what they made of them, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from kshark.errors import Error
from kshark.model import Event, Frames
from kshark.output.notes import Notes
from kshark.parallel.ahead import Ahead, Before
from kshark.parallel.carried import Carried, carry, flow_values, flows_of
from kshark.parallel.crew import WINDOW, Crew

#: File and frame of a packet.
Where = Callable[[int], tuple[str, int] | None]
#: Before every time.
ALWAYS: Final = -(1 << 62)


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


class Turns:
    """One run through a capture: each batch goes to the process that has the fewest to do."""

    def __init__(self, crew: Crew, ahead: Ahead, notes: Notes) -> None:
        self._crew = crew
        self._ahead = ahead
        self._notes = notes
        #: The processes of the batches that are under way, in order; and how many names each process knows.
        self._under_way: deque[int] = deque()
        self._names = [ahead.names] * crew.jobs

    def run(self, batches: Iterable[list[Event]], since_ns: Callable[[], int], where: Callable[[], Where | None]) -> Iterator[Any]:
        """What was made of each batch. `since_ns` and `where` are known once the first has come. When reading fails, what was read before
        comes first."""
        under_way = self._under_way
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
            if events:
                self._hand_out(events, since_ns(), where())
            while under_way and (len(under_way) > WINDOW or self._crew.ready(under_way[0])):
                yield self._collected()
        while under_way:
            yield self._collected()
        if failure is not None:
            raise failure

    def _hand_out(self, events: list[Event], since_ns: int, where: Where | None) -> None:
        worker = min(range(self._crew.jobs), key=self._under_way.count)
        flows = flows_of(events)
        before = self._ahead.before(flows, self._names[worker])
        self._names[worker] = self._ahead.names
        located = (
            None
            if where is None
            else [where(packet) for event in events if isinstance(event, Frames) for packet in event.last_packet.tolist()]
        )
        values = [flow_values(flow) for flow in flows.values()]
        self._crew.send(worker, Turn(carry(events), values, before, located, since_ns))
        self._under_way.append(worker)
        self._ahead.read(events, since_ns)

    def _collected(self) -> Any:
        made: Made = self._crew.receive(self._under_way.popleft())
        self._notes.join(made.notes)
        return made.what


def _located(events: list[Event], where: Where | None) -> list[tuple[str, int] | None] | None:
    if where is None:
        return None
    return [where(packet) for event in events if isinstance(event, Frames) for packet in event.last_packet.tolist()]
