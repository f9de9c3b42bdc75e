"""The one time line: frames and events in the order of the packets that completed them, whatever the cut into batches.

While it is not certain yet what comes before (a hole may still be filled, a connection is not recognised), what is later waits, up to
limits.HELD_PACKETS packets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.framing.cutting import Cut
from kshark.model import Closed, Frames, Gap, HalfClosed, Opened, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

Line = Frames | Gap | Weird | Opened | HalfClosed | Closed
Told = Gap | Weird | Opened | HalfClosed | Closed

NEVER: Final = 1 << 62


@dataclass(slots=True, eq=False)
class Timeline:
    """`release` takes what came together and gives what is certain up to the packet `horizon`."""

    _held: list[Cut] = field(default_factory=list)
    _told: list[Told] = field(default_factory=list)

    @property
    def held_bytes(self) -> int:
        """Bytes of the frames that wait."""
        return sum(len(cut.buffer) for cut in self._held)

    def release(self, cuts: list[Cut], told: list[Told], horizon: int) -> list[Line]:
        if self._told:
            told = self._told + told
        told.sort(key=_place)
        count = _count_until(told, horizon)
        self._told = told[count:]
        ready = told[:count]
        frames = _joined(self._held + cuts)
        self._held = []
        if frames is None:
            return list(ready)
        if int(frames.last_packet.max()) > horizon:
            late = frames.last_packet > horizon
            self._held = [_rows(frames, np.flatnonzero(late))]
            frames = _rows(frames, np.flatnonzero(~late))
        return _lines(_frames(frames), ready)


def _joined(cuts: list[Cut]) -> Cut | None:
    """All in one, the earlier ones' frames first."""
    if len(cuts) < 2:
        return cuts[0] if cuts else None
    bytes_before = list(accumulate((len(cut.buffer) for cut in cuts), initial=0))
    streams_before = list(accumulate((len(cut.flows) for cut in cuts), initial=0))

    def column(name: str, before: list[int] | None = None) -> Int64s:
        return np.concatenate([getattr(cut, name) + (before[i] if before else 0) for i, cut in enumerate(cuts)])

    return Cut(
        b"".join([cut.buffer for cut in cuts]),
        list(chain.from_iterable([cut.flows for cut in cuts])),
        list(chain.from_iterable([cut.by_client for cut in cuts])),
        column("stream", streams_before),
        column("start", bytes_before),
        column("end", bytes_before),
        column("first_packet"),
        column("first_time_ns"),
        column("last_packet"),
        column("last_time_ns"),
        np.concatenate([cut.resync for cut in cuts]),
    )


def _rows(cut: Cut, rows: Int64s) -> Cut:
    """Some of its frames, with bytes of their own."""
    pieces = [cut.buffer[start:end] for start, end in zip(cut.start[rows].tolist(), cut.end[rows].tolist(), strict=True)]
    end = np.cumsum([0, *map(len, pieces)])
    names = ("stream", "first_packet", "first_time_ns", "last_packet", "last_time_ns", "resync")
    columns = {name: getattr(cut, name)[rows] for name in names}
    return replace(cut, buffer=b"".join(pieces), start=end[:-1], end=end[1:], **columns)


def _frames(cut: Cut) -> Frames:
    """In the order of the time line."""
    packet = cut.last_packet
    order = slice(None) if (packet[1:] >= packet[:-1]).all() else np.argsort(packet, kind="stable")
    stream = cut.stream[order].tolist()
    return Frames(
        cut.buffer,
        [cut.flows[number] for number in stream],
        [cut.by_client[number] for number in stream],
        cut.start[order].tolist(),
        cut.end[order].tolist(),
        cut.first_packet[order].tolist(),
        cut.first_time_ns[order].tolist(),
        packet[order].tolist(),
        cut.last_time_ns[order].tolist(),
        cut.resync[order].tolist() if cut.resync.any() else None,
    )


def _lines(frames: Frames, told: list[Told]) -> list[Line]:
    """Frames cut at the events between them."""
    if not frames.start:
        return list(told)
    lines: list[Line] = []
    at = 0
    for event in told:
        behind = bisect_right if isinstance(event, (HalfClosed, Closed)) else bisect_left
        to = behind(frames.last_packet, event.packet)
        if to > at:
            lines.append(_part(frames, at, to))
            at = to
        lines.append(event)
    if at < len(frames.start):
        lines.append(_part(frames, at, len(frames.start)) if at else frames)
    return lines


def _part(frames: Frames, a: int, z: int) -> Frames:
    return Frames(
        frames.buffer,
        frames.flow[a:z],
        frames.sent_by_client[a:z],
        frames.start[a:z],
        frames.end[a:z],
        frames.first_packet[a:z],
        frames.first_time_ns[a:z],
        frames.last_packet[a:z],
        frames.last_time_ns[a:z],
        frames.resync and frames.resync[a:z],
    )


def _place(event: Told) -> tuple[int, bool, int]:
    """Closings come behind what their packet brought, all else before it; what a capture's end brings goes by flow."""
    flow = event.flow or 0 if isinstance(event, Weird) else event.flow.id
    return event.packet, isinstance(event, (HalfClosed, Closed)), flow


def _count_until(told: list[Told], horizon: int) -> int:
    return sum(event.packet <= horizon for event in told)
