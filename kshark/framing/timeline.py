"""The one time line: frames and events in the order of the packets that completed them, whatever the cut into batches.

While it is not certain yet what comes before (a hole may still be filled, a connection is not recognised), what is later waits, up to
limits.HELD_PACKETS packets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshark.framing.streams import Cuts
from kshark.model import Closed, Frames, Gap, HalfClosed, Opened, Weird

Line = Frames | Gap | Weird | Opened | HalfClosed | Closed
Told = Gap | Weird | Opened | HalfClosed | Closed

NEVER: Final = 1 << 62


@dataclass(slots=True, eq=False)
class Timeline:
    """`release` takes what came together and gives what is certain up to the packet `horizon`."""

    _frames: Cuts = field(default_factory=Cuts)
    _told: list[Told] = field(default_factory=list)

    def release(self, cuts: Cuts, told: list[Told], horizon: int) -> list[Line]:
        if self._told:
            told = self._told + told
        told.sort(key=_place)
        count = _count_until(told, horizon)
        self._told = told[count:]
        ready = told[:count]
        held = self._frames
        if held.starts:
            self._frames = Cuts()
            cuts = _joined(held, cuts)
        if not cuts.starts:
            return list(ready)
        columns = _Columns(cuts)
        if columns.highest > horizon:
            self._hold(cuts, columns, horizon)
        return columns.lines(cuts, ready)

    def _hold(self, cuts: Cuts, columns: _Columns, horizon: int) -> None:
        """Keeps the frames beyond the horizon, with bytes of their own."""
        keep = columns.split(horizon)
        held = self._frames
        for row in keep.tolist():
            start, end = cuts.starts[row], cuts.ends[row]
            piece = columns.buffer[start:end]
            held.starts.append(held.size + 4)
            held.ends.append(held.size + 4 + len(piece))
            held.mark_at += [held.size, held.size + 1]
            first, last = columns.first_mark[row], columns.last_mark[row]
            # a frame's first byte keeps the packet that carried it, the rest the one with which all was ready
            for mark in (first, last):
                held.packet.append(cuts.packet[mark])
                held.time_ns.append(cuts.time_ns[mark])
                held.ready.append(cuts.ready[mark])
                held.ready_ns.append(cuts.ready_ns[mark])
            held.pieces.append(b"\0\0\0\0" + piece)
            held.size += 4 + len(piece)
            held.flows.append(cuts.flows[row])
            held.by_client.append(cuts.by_client[row])
            held.resync.append(cuts.resync[row])


class _Columns:
    """A batch's frames with their packets, in the order of the time line."""

    def __init__(self, cuts: Cuts) -> None:
        self.buffer = cuts.pieces[0] if len(cuts.pieces) == 1 else b"".join(cuts.pieces)
        self._starts = np.array(cuts.starts, np.int64)
        self._ends = np.array(cuts.ends, np.int64)
        marks = np.array(cuts.mark_at, np.int64)
        self._ready = np.array(cuts.ready, np.int64)
        first = np.searchsorted(marks, self._starts - 4, "right") - 1
        last = np.searchsorted(marks, self._ends - 1, "right") - 1
        self.first_mark, self.last_mark = first, last
        ready = self._ready[last]
        self.highest = int(ready.max())
        in_order = bool((ready[1:] >= ready[:-1]).all())
        self._order = None if in_order else np.argsort(ready, kind="stable")
        self._ready_of = ready

    def split(self, horizon: int) -> NDArray[np.int64]:
        """Rows beyond the horizon, in stream order; the others stay."""
        order = np.arange(len(self._ready_of)) if self._order is None else self._order
        beyond = self._ready_of > horizon
        self._order = order[~beyond[order]]
        return np.flatnonzero(beyond)

    def lines(self, cuts: Cuts, told: list[Told]) -> list[Line]:
        """Frames cut at the events between them."""
        order = self._order
        rows = slice(None) if order is None else order
        ready = self._ready_of[rows]
        if not len(ready):
            return list(told)
        last, first = self.last_mark[rows], self.first_mark[rows]
        pick = range(len(ready)) if order is None else order.tolist()
        frames = Frames(
            self.buffer,
            cuts.flows if order is None else [cuts.flows[i] for i in pick],
            cuts.by_client if order is None else [cuts.by_client[i] for i in pick],
            self._starts[rows].tolist(),
            self._ends[rows].tolist(),
            np.array(cuts.packet, np.int64)[first].tolist(),
            np.array(cuts.time_ns, np.int64)[first].tolist(),
            ready.tolist(),
            np.array(cuts.ready_ns, np.int64)[last].tolist(),
            None if True not in cuts.resync else [cuts.resync[i] for i in pick],
        )
        if not told:
            return [frames]
        lines: list[Line] = []
        at = 0
        for event in told:
            to = int(np.searchsorted(ready, event.packet, "right" if isinstance(event, (HalfClosed, Closed)) else "left"))
            if to > at:
                lines.append(_part(frames, at, to))
                at = to
            lines.append(event)
        if at < len(ready):
            lines.append(_part(frames, at, len(ready)))
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


def _joined(first: Cuts, second: Cuts) -> Cuts:
    """Both, the first one's rows before the second one's."""
    base = first.size
    first.pieces += second.pieces
    first.size += second.size
    first.starts += [base + at for at in second.starts]
    first.ends += [base + at for at in second.ends]
    first.mark_at += [base + at for at in second.mark_at]
    for name in ("flows", "by_client", "resync", "packet", "time_ns", "ready", "ready_ns"):
        getattr(first, name).extend(getattr(second, name))
    return first
