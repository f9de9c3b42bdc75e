"""The whole time line, handed to one other process: for who needs all connections in one place.

The first process reads and frames, the other one decodes and goes on. Connections are the same objects there from batch to batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kshark.model import Closed, Event, Flow, Frames, Side, Weird
from kshark.parallel.carried import FLOW_FIELDS, Carried, arrived, carry, flow_values, flows_of
from kshark.parallel.crew import WINDOW, Crew
from kshark.parallel.reading import UntilFailure

#: What the other process itself learns about a connection.
_THEIRS: Final = ("software_name", "software_version")


class Passed(NamedTuple):
    """A batch, and the connections that changed as tuples of their values, pickled at once, since they go on changing."""

    batch: Carried
    flows: bytes


class Relay:
    """Packs batches for a Follower."""

    def __init__(self) -> None:
        self._live: dict[int, Flow] = {}
        self._client_sides: dict[int, Side | None] = {}

    def pack(self, events: list[Event]) -> Passed:
        """The batch as it is now: what becomes of its connections later is in later batches."""
        others = [event for event in events if not isinstance(event, Frames)]
        here, live = flows_of(events), self._live
        changed = flows_of(others).keys() | (here.keys() - live.keys())
        changed |= {event.flow for event in others if isinstance(event, Weird) and event.flow in live}
        live |= here
        changed |= {number for number, flow in live.items() if self._client_sides.get(number) is not flow.client_side}
        flows = [live[number] for number in sorted(changed)]
        self._client_sides |= {flow.id: flow.client_side for flow in flows}
        for event in others:
            if isinstance(event, Closed):
                live.pop(event.flow.id, None)
                self._client_sides.pop(event.flow.id, None)
        return Passed(carry(events), pickle.dumps([flow_values(flow) for flow in flows], 5))


class Follower:
    """The other end of a Relay."""

    def __init__(self) -> None:
        self._flows: dict[int, Flow] = {}

    def events(self, passed: Passed) -> list[Event]:
        """The batch as it was packed."""
        for values in pickle.loads(passed.flows):
            known = self._flows.get(values[0])
            if known is None:
                self._flows[values[0]] = Flow(*values)
                continue
            for name, value in zip(FLOW_FIELDS, values, strict=True):
                if name not in _THEIRS:
                    setattr(known, name, value)
        events = arrived(passed.batch, self._flows)
        for event in events:
            if isinstance(event, Closed):
                self._flows.pop(event.flow.id, None)
        return events


def followed(crew: Crew, items: Iterable[Any]) -> Iterator[Any]:
    """What the crew's one process makes of each item, in order. When making items fails, the results of those before come first."""
    under_way = 0
    reading = UntilFailure(items)
    for item in reading:
        crew.send(0, item)
        under_way += 1
        while under_way > WINDOW or (under_way and crew.ready(0)):
            yield crew.receive(0)
            under_way -= 1
    for _ in range(under_way):
        yield crew.receive(0)
    reading.end()
