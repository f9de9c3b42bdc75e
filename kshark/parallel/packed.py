"""A batch of the time line as it is sent between processes: frames as columns over their bytes, connections by
number."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pickle import PickleBuffer
from typing import Any, Final, NamedTuple

import numpy as np

from kshark.framing import joined
from kshark.model import Event, Exchange, Flow, Frames, Late, Message, Weird

#: Columns of model.Frames with a value for each row.
_BY_ROW: Final = ("stream", "start", "end", "first_packet", "first_time_ns", "last_packet", "last_time_ns", "resync")
_columns: Final = attrgetter(*_BY_ROW)

#: A connection as a tuple of its fields, in their order: `Flow(*flow_values(flow))` is another one like it.
FLOW_FIELDS: Final = Flow.__struct_fields__
flow_values: Final = attrgetter(*FLOW_FIELDS)


class PackedBatch(NamedTuple):
    """A batch of the time line. `frames` holds the bytes, the connections' numbers, by_client and the columns; () where
    there are none.

    `others` holds all other events, each with the number of frames before it; they are pickled already, since a Flow in
    them goes on changing."""

    frames: tuple[Any, ...]
    others: bytes


def pack(events: Iterable[Event]) -> PackedBatch:
    """The batch as it is now. Raises TypeError for messages and exchanges: they are made after the time line."""
    parts: list[Frames] = []
    others: list[tuple[int, Event]] = []
    row = 0
    for event in events:
        if isinstance(event, Frames):
            parts.append(event)
            row += len(event)
        elif isinstance(event, (Message, Exchange)):
            raise TypeError("messages are made after the time line")
        else:
            others.append((row, event))
    whole = _whole(parts)
    frames: tuple[Any, ...] = ()
    if whole is not None:
        frames = (PickleBuffer(whole.buffer), [flow.id for flow in whole.flows], whole.by_client, *_columns(whole))
    return PackedBatch(frames, _packed(others))


def unpack(batch: PackedBatch, flows: Mapping[int, Flow]) -> list[Event]:
    """The batch again, with the connections in `flows`."""
    frames = None
    if batch.frames:
        data, numbers, by_client, *columns = batch.frames
        frames = Frames(bytes(data), [flows[number] for number in numbers], by_client, *columns)
    events: list[Event] = []
    at = 0
    for row, event in _unpacked(batch.others, flows):
        if frames is not None and row > at:
            events.append(frames.rows(slice(at, row)))
            at = row
        events.append(event)
    if frames is not None and at < len(frames):
        events.append(frames.rows(slice(at, None)))
    return events


def flows_of(events: Iterable[Event]) -> dict[int, Flow]:
    """The connections that these events are about, by number."""
    found: dict[int, Flow] = {}
    seen: list[Flow] | None = None
    for event in events:
        if isinstance(event, Frames):
            if event.flows is not seen:  # most frames of a batch share one list of connections
                seen = event.flows
                found.update([(flow.id, flow) for flow in seen])
        elif not isinstance(event, (Late, Weird, Message, Exchange)):
            found[event.flow.id] = event.flow
    return found


def _whole(parts: list[Frames]) -> Frames | None:
    """A batch's frames as one; None where there are none."""
    if len(parts) < 2 or any(part.buffer is not parts[0].buffer or part.flows is not parts[0].flows for part in parts):
        return joined(parts)
    first = parts[0]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in _BY_ROW]
    return Frames(first.buffer, first.flows, first.by_client, *columns)


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> int | None:
        return obj.id if type(obj) is Flow else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, flows: Mapping[int, Flow]) -> None:
        super().__init__(io.BytesIO(data))
        self._flows = flows

    def persistent_load(self, pid: Any) -> Flow:
        return self._flows[pid]


def _packed(events: list[tuple[int, Event]]) -> bytes:
    if not events:
        return b""
    stream = io.BytesIO()
    _Pickler(stream, 5).dump(events)
    return stream.getvalue()


def _unpacked(data: bytes, flows: Mapping[int, Flow]) -> list[tuple[int, Event]]:
    events: list[tuple[int, Event]] = _Unpickler(data, flows).load() if data else []
    return events
