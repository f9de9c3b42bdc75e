"""The whole time line, handed to one other process: for who needs all connections in one place.

The first process reads and frames, the other one decodes and goes on. Connections are the same objects there from batch to batch.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple

from kshark.errors import Error
from kshark.model import Closed, Event, Exchange, Flow, Frames, Message, Side, Weird
from kshark.parallel.crew import WINDOW, Crew
from kshark.parallel.shares import ALWAYS, Share, Sharing

#: What the other process itself learns about a connection.
_THEIRS: Final = ("software_name", "software_version")
_FIELDS: Final = tuple(field.name for field in fields(Flow) if field.name not in _THEIRS)


class Passed(NamedTuple):
    """A batch: its frames, all other events with the rows before each (connections by number), connections that changed; pickled at once,
    since connections go on changing."""

    share: Share | None
    events: bytes
    flows: bytes


class Relay:
    """Packs batches for a Follower."""

    def __init__(self) -> None:
        self._sharing = Sharing(1)
        self._live: dict[int, Flow] = {}
        self._client_sides: dict[int, Side | None] = {}

    def pack(self, events: list[Event]) -> Passed:
        """The batch as it is now: what becomes of its connections later is in later batches."""
        batch, shares = self._sharing.cut(events, [], ALWAYS, None)
        changed = self._touched(events)
        changed |= {number for number, flow in self._live.items() if self._client_sides.get(number) is not flow.client_side}
        flows = [self._live[number] for number in sorted(changed)]
        self._client_sides |= {flow.id: flow.client_side for flow in flows}
        for _, event in batch.events:
            if isinstance(event, Closed):
                self._live.pop(event.flow.id, None)
                self._client_sides.pop(event.flow.id, None)
        return Passed(shares.get(0), _packed(batch.events), pickle.dumps(flows, 5))

    def _touched(self, events: Iterable[Event]) -> set[int]:
        """Connections that are new or that an event is about."""
        touched: set[int] = set()
        for event in events:
            if isinstance(event, Frames):
                new = [event.flows[number] for number in set(event.stream.tolist())]
                new = [flow for flow in new if flow.id not in self._live]
            elif isinstance(event, Weird):
                touched |= {event.flow} & self._live.keys() if event.flow is not None else set()
                continue
            elif isinstance(event, (Message, Exchange)):
                raise TypeError("messages are made by the follower")
            else:
                new = [event.flow]
            for flow in new:
                self._live[flow.id] = flow
                touched.add(flow.id)
        return touched


class Follower:
    """The other end of a Relay."""

    def __init__(self) -> None:
        self._flows: dict[int, Flow] = {}

    def events(self, passed: Passed) -> list[Event]:
        """The batch as it was packed."""
        changed: list[Flow] = pickle.loads(passed.flows)
        for flow in changed:
            known = self._flows.setdefault(flow.id, flow)
            for name in _FIELDS:
                setattr(known, name, getattr(flow, name))
        frames = None if passed.share is None else passed.share.frames(self._flows)
        events: list[Event] = []
        at = 0
        for row, event in _unpacked(passed.events, self._flows):
            if frames is not None and row > at:
                events.append(frames.rows(slice(at, row)))
                at = row
            events.append(event)
            if isinstance(event, Closed):
                self._flows.pop(event.flow.id, None)
        if frames is not None and at < len(frames):
            events.append(frames.rows(slice(at, None)))
        return events


def followed(crew: Crew, items: Iterable[Any]) -> Iterator[Any]:
    """What the crew's one process makes of each item, in order. When making items fails, the results of those before come first."""
    under_way = 0
    source = iter(items)
    failure: Exception | None = None
    while True:
        try:
            item = next(source)
        except StopIteration:
            break
        except (Error, OSError) as error:
            failure = error
            break
        crew.send(0, item)
        under_way += 1
        while under_way > WINDOW or (under_way and crew.ready(0)):
            yield crew.receive(0)
            under_way -= 1
    for _ in range(under_way):
        yield crew.receive(0)
    if failure is not None:
        raise failure


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> int | None:
        return obj.id if type(obj) is Flow else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, flows: dict[int, Flow]) -> None:
        super().__init__(io.BytesIO(data))
        self._flows = flows

    def persistent_load(self, pid: Any) -> Flow:
        return self._flows[pid]


def _packed(events: list[tuple[int, Event]]) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, 5).dump(events)
    return stream.getvalue()


def _unpacked(data: bytes, flows: dict[int, Flow]) -> list[tuple[int, Event]]:
    events: list[tuple[int, Event]] = _Unpickler(data, flows).load()
    return events
