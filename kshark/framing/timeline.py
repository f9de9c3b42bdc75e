"""The one time line: frames and events in the order of the packets that completed them, however packets were cut into
batches.

While something earlier may still come (a hole may be filled, a connection is not recognised yet) later items are held,
for limits.HELD_NS of packet time and limits.HELD_BYTES bytes at most. What is known only after that keeps its own
packet and time, and stands where it was known (kshark.framing.waiting)."""

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
from kshark.model import Closed, Flow, Frames, Gap, HalfClosed, Late, Opened, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

Line = Frames | Gap | Late | Weird | Opened | HalfClosed | Closed


@final
class Ending(NamedTuple):
    """The end of a connection, with what only its end shows about it."""

    weirds: list[Weird]
    closed: Closed


Told = Gap | Late | Weird | Opened | HalfClosed | Ending

#: What an event that is held takes, about.
_EVENT_BYTES: Final = 256
#: Comes behind all flows.
_ON_TIME: Final = 1 << 62


class Place(Struct, gc=False):
    """Where an event stands: the packet with which it was known; if that was late its flow (else _ON_TIME); its own
    packet, and whether after the frames of that packet (as endings are)."""

    known: int
    late: int
    packet: int
    after_frames: bool
    flow: int
    event: Told


_order: Final = attrgetter("known", "late", "packet", "after_frames", "flow")


class Timeline(Struct, eq=False):
    """`release` takes what a batch brought and returns everything up to the packet `horizon`; the rest waits.

    `waits`: by flow, of which connections something waits or was known late; before that a Late is told.
    """

    waits: dict[int, Waits] = field(default_factory=dict)
    _held: list[Frames] = field(default_factory=list)
    _told: list[Told] = field(default_factory=list)

    @property
    def held_bytes(self) -> int:
        """Bytes of what is held."""
        return sum(len(frames.buffer) for frames in self._held) + _EVENT_BYTES * len(self._told)

    def of(self, flow: int) -> Waits:
        """What of a connection waits, to be changed."""
        return self.waits.setdefault(flow, Waits())

    def behind(self, holes: dict[int, int]) -> None:
        """By flow, the first packet behind a hole that is not decided yet: what is told of it from there on waits."""
        for flow, waits in self.waits.items():
            waits.hole = holes.get(flow, NEVER)
        for flow in holes.keys() - self.waits.keys():
            self.of(flow).hole = holes[flow]

    def let_go(self) -> None:
        """There is no room for what is held: nothing waits longer."""
        for waits in self.waits.values():
            waits.let_go()

    def release(self, cuts: list[Frames], told: list[Told], horizon: int) -> list[Line]:
        late = [Late(flow, *news) for flow, waits in self.waits.items() for news in waits.news()]
        told, self._told = [*self._told, *late, *told], []
        events: list[Place] = []
        for each in told:  # places are made again with the next batch: those of what waits take no room until then
            place = self._place(each)
            if place.known > horizon:
                self._told.append(each)
            else:
                events.append(place)
        events.sort(key=_order)
        frames = joined(self._held + cuts)
        self._held = []
        if frames is None:
            lines = [event for each in events for event in _events(each.event)]
        else:
            known = self._known(frames)
            if int(known.max()) > horizon:
                later = known > horizon
                self._held = [apart(frames.rows(later))]
                frames, known = frames.rows(~later), known[~later]
            lines = _lines(*_in_order(frames, known), events)
        for number in [number for number, waits in self.waits.items() if waits.forget(horizon)]:
            del self.waits[number]
        return lines

    def _place(self, told: Told) -> Place:
        if type(told) is Opened:  # which is certain at once
            return Place(told.packet, _ON_TIME, told.packet, False, told.flow.id, told)
        if type(told) is Late:  # before all that it is said of
            return Place(told.packet, told.flow, 0, False, told.flow, told)
        packet, after_frames, flow, side = _own_place(told)
        waits = self.waits.get(flow)
        known = packet if waits is None else waits.known(packet, side)
        return Place(known, _ON_TIME if known == packet else flow, packet, after_frames, flow, told)

    def _known(self, frames: Frames) -> Int64s:
        """The packet with which each frame was known."""
        own = frames.last_packet
        waits = [self.waits.get(flow.id) for flow in frames.flows] if self.waits else ()
        if not any(waits):
            return own
        known = own.copy()
        order = np.argsort(frames.stream, kind="stable")
        edges = np.searchsorted(frames.stream[order], np.arange(len(frames.flows) + 1)).tolist()
        for number, each in enumerate(waits):
            if each is not None:
                rows = order[edges[number] : edges[number + 1]]
                side = _side(frames.flows[number], frames.by_client[number])
                known[rows] = [each.known(packet, side) for packet in own[rows].tolist()]
        return known


def joined(parts: list[Frames]) -> Frames | None:
    """All in one, in this order; None where there are none."""
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
        np.concatenate([part.resync for part in parts]),
    )


def apart(frames: Frames) -> Frames:
    """A copy with its own buffer and streams, so that waiting frames do not keep the whole batch in memory."""
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


def _in_order(frames: Frames, known: Int64s) -> tuple[Frames, Int64s]:
    """By their places."""
    own = frames.last_packet
    if known is own:
        if (own[1:] >= own[:-1]).all():
            return frames, own
        order = np.argsort(own, kind="stable")
    else:
        order = np.lexsort((own, _late(frames, known), known))
    return frames.rows(order), known[order]


def _late(frames: Frames, known: Int64s) -> Int64s:
    """Of each frame, as in Place."""
    flows = np.array([flow.id for flow in frames.flows])
    return np.where(known > frames.last_packet, flows[frames.stream], _ON_TIME)


def _lines(frames: Frames, known: Int64s, events: list[Place]) -> list[Line]:
    """Frames cut at the events between them."""
    lines: list[Line] = []
    at = 0
    places = (
        [*zip(*(column.tolist() for column in (known, _late(frames, known), frames.last_packet)), strict=True)]
        if events
        else []
    )
    for each in events:
        to = (bisect_right if each.after_frames else bisect_left)(places, (each.known, each.late, each.packet))
        if to > at:
            lines.append(frames.rows(slice(at, to)))
            at = to
        lines += _events(each.event)
    if at < len(frames):
        lines.append(frames.rows(slice(at, None)) if at else frames)
    return lines


def _own_place(told: Gap | Weird | HalfClosed | Ending) -> tuple[int, bool, int, int | None]:
    """Its packet, whether after the frames of that packet, flow and side; -1 for no flow, None for both sides."""
    if type(told) is Weird:
        return told.packet, False, -1 if told.flow is None else told.flow, told.side
    if type(told) is Gap:
        return told.packet, False, told.flow.id, told.side
    event = told.closed if type(told) is Ending else told
    return event.packet, True, event.flow.id, None


def _events(told: Told) -> Sequence[Line]:
    return [*told.weirds, told.closed] if type(told) is Ending else [told]
