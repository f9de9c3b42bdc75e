"""The one time line: frames and events in the order of the packets that completed them, whatever the batches are.

Later items are held while something earlier may still arrive (a hole may be filled, a connection is not recognised
yet), for at most limits.HELD_NS of packet time and limits.HELD_BYTES bytes. An item that becomes known later keeps its
own packet and time, and stands at the packet at which it became known (kshark.framing.waiting).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kshark.framing.waiting import NEVER, Waits
from kshark.model import Closed, Flow, Frames, Gap, HalfClosed, Late, Opened, Side, Tick, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

Line = Frames | Gap | Late | Weird | Opened | HalfClosed | Closed | Tick


@final
class Ending(NamedTuple):
    """The end of a connection, with the anomalies that only its end shows."""

    weirds: list[Weird]
    closed: Closed


TimelineEvent = Gap | Late | Weird | Opened | HalfClosed | Ending

#: Approximate memory of a held event.
_EVENT_BYTES: Final = 256
#: Sorts after all flows.
_ON_TIME: Final = 1 << 62


class EventPosition(Struct, gc=False):
    """The position of an event in the time line.

    `known` is the packet at which it became known. `late` is its flow if that was late, else _ON_TIME. `packet` is its
    own packet; `after_frames` is True if it stands after the frames of that packet (as endings do).
    """

    known_at: int
    late: int
    packet: int
    after_frames: bool
    flow: int
    event: TimelineEvent


_order: Final = attrgetter("known_at", "late", "packet", "after_frames", "flow")


class Timeline(Struct, eq=False):
    """Holds frames and events until the time line is complete up to them.

    `waits`: by flow, the connections that wait or became known late; for the latter a Late event is reported first.
    """

    waits: dict[int, Waits] = field(default_factory=dict)
    _held: list[Frames] = field(default_factory=list)
    _events: list[TimelineEvent] = field(default_factory=list)

    @property
    def held_bytes(self) -> int:
        """Approximate bytes of the held items."""
        return sum(len(frames.buffer) for frames in self._held) + _EVENT_BYTES * len(self._events)

    def of(self, flow: int) -> Waits:
        """Return the waiting state of a connection, to be changed."""
        return self.waits.setdefault(flow, Waits())

    def set_holes(self, holes: dict[int, int]) -> None:
        """Set by flow the first packet after an undecided hole: the flow's items from that packet on wait."""
        for flow, waits in self.waits.items():
            waits.hole = holes.get(flow, NEVER)
        for flow in holes.keys() - self.waits.keys():
            self.of(flow).hole = holes[flow]

    def let_go(self) -> None:
        """Stop all waiting: there is no memory left for held items."""
        for waits in self.waits.values():
            waits.let_go()

    def release(self, cuts: list[Frames], events: list[TimelineEvent], horizon: int) -> list[Line]:
        """Add the frames and events of a batch; return everything up to the packet `horizon` and hold the rest."""
        late = [Late(flow, *news) for flow, waits in self.waits.items() for news in waits.news()]
        events, self._events = [*self._events, *late, *events], []
        due: list[EventPosition] = []
        for event in events:  # positions of waiting events are made again with the next batch, to save memory
            position = self._position(event)
            if position.known_at > horizon:
                self._events.append(event)
            else:
                due.append(position)
        due.sort(key=_order)
        frames = joined(self._held + cuts)
        self._held = []
        if frames is None:
            lines = [line for position in due for line in _events(position.event)]
        else:
            known_at = self._frames_known_at(frames)
            if int(known_at.max()) > horizon:
                later = known_at > horizon
                self._held = [apart(frames.rows(later))]
                frames, known_at = frames.rows(~later), known_at[~later]
            lines = _lines(*_in_order(frames, known_at), due)
        for number in [number for number, waits in self.waits.items() if waits.forget(horizon)]:
            del self.waits[number]
        return lines

    def _position(self, event: TimelineEvent) -> EventPosition:
        if type(event) is Opened:  # certain at once
            return EventPosition(event.packet, _ON_TIME, event.packet, False, event.flow.id, event)
        if type(event) is Late:  # before all items that it concerns
            return EventPosition(event.packet, event.flow, 0, False, event.flow, event)
        packet, after_frames, flow, side = _own_position(event)
        waits = self.waits.get(flow)
        known_at = packet if waits is None else waits.known_at(packet, side)
        return EventPosition(known_at, _ON_TIME if known_at == packet else flow, packet, after_frames, flow, event)

    def _frames_known_at(self, frames: Frames) -> Int64s:
        """Return for each frame the packet at which it became known."""
        own = frames.last_packet
        waits = [self.waits.get(flow.id) for flow in frames.flows] if self.waits else ()
        if not any(waits):
            return own
        known_at = own.copy()
        order = np.argsort(frames.stream, kind="stable")
        edges = np.searchsorted(frames.stream[order], np.arange(len(frames.flows) + 1)).tolist()
        for number, flow_waits in enumerate(waits):
            if flow_waits is not None:
                rows = order[edges[number] : edges[number + 1]]
                side = _side(frames.flows[number], frames.by_client[number])
                known_at[rows] = [flow_waits.known_at(packet, side) for packet in own[rows].tolist()]
        return known_at


def joined(parts: list[Frames]) -> Frames | None:
    """Join all parts in this order; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    bytes_before = list(accumulate((len(part.buffer) for part in parts), initial=0))
    streams_before = list(accumulate((len(part.flows) for part in parts), initial=0))

    def column(name: str, before: list[int] | None = None) -> Int64s:
        return np.concatenate([getattr(part, name) + (before[i] if before else 0) for i, part in enumerate(parts)])

    return Frames(
        b"".join([part.buffer for part in parts]),
        list(chain.from_iterable([part.flows for part in parts])),
        list(chain.from_iterable([part.by_client for part in parts])),
        column("stream", streams_before),
        column("start", bytes_before),
        column("end", bytes_before),
        column("first_packet"),
        column("first_time_ns"),
        column("last_packet"),
        column("last_time_ns"),
        column("knows"),
        np.concatenate([part.resync for part in parts]),
        column("cut"),
        column("dropped"),
        np.concatenate([part.long for part in parts]),
    )


def apart(frames: Frames) -> Frames:
    """Return a copy with its own buffer and streams, so that waiting frames do not keep the whole batch in memory."""
    pieces = [frames.buffer[start:end] for start, end in zip(frames.start.tolist(), frames.end.tolist(), strict=True)]
    end = np.cumsum([0, *map(len, pieces)])
    used, stream = np.unique(frames.stream, return_inverse=True)
    flows, by_client = (
        [frames.flows[number] for number in used.tolist()],
        [frames.by_client[number] for number in used.tolist()],
    )
    return replace(
        frames, buffer=b"".join(pieces), flows=flows, by_client=by_client, stream=stream, start=end[:-1], end=end[1:]
    )


def _side(flow: Flow, by_client: bool | None) -> Side | None:
    client = flow.client_side
    if client is None or by_client is None:
        return None
    return client if by_client else 0 if client else 1


def _in_order(frames: Frames, known_at: Int64s) -> tuple[Frames, Int64s]:
    """Sort frames by their position."""
    own = frames.last_packet
    if known_at is own:
        if (own[1:] < own[:-1]).any():
            frames = frames.rows(np.argsort(own, kind="stable"))
        return frames, frames.last_packet
    order = np.lexsort((own, _late(frames, known_at), known_at))
    return frames.rows(order), known_at[order]


def _late(frames: Frames, known_at: Int64s) -> Int64s:
    """Return `EventPosition.late` of each frame."""
    flows = np.array([flow.id for flow in frames.flows])
    return np.where(known_at > frames.last_packet, flows[frames.stream], _ON_TIME)


def _lines(frames: Frames, known_at: Int64s, due: list[EventPosition]) -> list[Line]:
    """Cut the frames at the events between them."""
    lines: list[Line] = []
    at = 0
    for position, to in zip(due, _rows_before(frames, known_at, due), strict=True):
        if to > at:
            lines.append(frames.rows(slice(at, to)))
            at = to
        lines += _events(position.event)
    if at < len(frames):
        lines.append(frames.rows(slice(at, None)) if at else frames)
    return lines


def _rows_before(frames: Frames, known_at: Int64s, due: list[EventPosition]) -> list[int]:
    """Return for each event the number of frames before it."""
    if not due:
        return []
    if known_at is frames.last_packet:  # each frame became known at its own packet
        events = np.array([position.known_at for position in due])
        after = np.array([position.after_frames and position.late == _ON_TIME for position in due])
        before: list[int] = np.where(
            after, known_at.searchsorted(events, "right"), known_at.searchsorted(events)
        ).tolist()
        return before
    columns = known_at, _late(frames, known_at), frames.last_packet
    positions = [*zip(*(column.tolist() for column in columns), strict=True)]
    return [
        (bisect_right if position.after_frames else bisect_left)(
            positions, (position.known_at, position.late, position.packet)
        )
        for position in due
    ]


def _own_position(event: Gap | Weird | HalfClosed | Ending) -> tuple[int, bool, int, int | None]:
    """Return packet, True if after the frames of that packet, flow and side; -1 for no flow, None for both sides."""
    if type(event) is Weird:
        return event.packet, False, -1 if event.flow is None else event.flow, event.side
    if type(event) is Gap:
        return event.packet, False, event.flow.id, event.side
    last = event.closed if type(event) is Ending else event
    return last.packet, True, last.flow.id, None


def _events(event: TimelineEvent) -> Sequence[Line]:
    return [*event.weirds, event.closed] if type(event) is Ending else [event]
