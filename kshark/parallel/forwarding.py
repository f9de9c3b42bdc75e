"""The whole time line handed on to one other process, for commands that need all connections in one place.

The first process reads and frames, the other one decodes and all that follows. There a connection stays one and the
same Flow object from batch to batch, and is brought up to date with each."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kshark.model import Closed, Event, Flow, Frames, Side, Weird
from kshark.parallel.packed import FLOW_FIELDS, PackedBatch, flow_values, flows_of, pack, unpack
from kshark.parallel.pool import WINDOW, WorkerPool
from kshark.parallel.reading import UntilFailure

#: Fields of a Flow that the receiving process itself finds out.
_THEIRS: Final = ("software_name", "software_version")


class Forwarded(NamedTuple):
    """A batch, and the connections that changed, as tuples of their fields; pickled already, since a Flow goes on
    changing."""

    batch: PackedBatch
    flows: bytes


class Forwarder:
    """Packs batches for a Receiver."""

    def __init__(self) -> None:
        self._live: dict[int, Flow] = {}
        self._client_sides: dict[int, Side | None] = {}

    def pack(self, events: list[Event]) -> Forwarded:
        """The batch as it is now; what changes about its connections later comes with later batches."""
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
        return Forwarded(pack(events), pickle.dumps([flow_values(flow) for flow in flows], 5))


class Receiver:
    """The other end of a Forwarder."""

    def __init__(self) -> None:
        self._flows: dict[int, Flow] = {}

    def events(self, forwarded: Forwarded) -> list[Event]:
        """The batch as it was packed."""
        for values in pickle.loads(forwarded.flows):
            known = self._flows.get(values[0])
            if known is None:
                self._flows[values[0]] = Flow(*values)
                continue
            for name, value in zip(FLOW_FIELDS, values, strict=True):
                if name not in _THEIRS:
                    setattr(known, name, value)
        events = unpack(forwarded.batch, self._flows)
        for event in events:
            if isinstance(event, Closed):
                self._flows.pop(event.flow.id, None)
        return events


def pipelined(pool: WorkerPool, items: Iterable[Any]) -> Iterator[Any]:
    """What the pool's one process makes of each item, in order. When making items fails, the results of those before
    come first."""
    under_way = 0
    reading = UntilFailure(items)
    for item in reading:
        pool.send(0, item)
        under_way += 1
        while under_way > WINDOW or (under_way and pool.ready(0)):
            yield pool.receive(0)
            under_way -= 1
    for _ in range(under_way):
        yield pool.receive(0)
    reading.end()
