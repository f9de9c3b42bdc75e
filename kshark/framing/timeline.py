"""The one time line: frames and events in the order of the packets that completed them, however packets were cut into batches.

While something earlier may still come (a hole may be filled, a connection is not recognised yet) later items are held, for limits.HELD_NS
of packet time and limits.HELD_BYTES bytes at most. What is known only after that stands where it was known, with its own packet and time:
at a packet of its own connection (kshark.framing.stage), so that the order is the same however many packets come at once, and whichever
other connections are read beside.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kshark.model import Closed, Frames, Gap, HalfClosed, Opened, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

Line = Frames | Gap | Weird | Opened | HalfClosed | Closed


class Told(NamedTuple):
    """What happened, and its place: the packet with which it was known, whether after the frames of that packet (as endings are), flow.

    With the end of a connection comes what only its end shows about it.
    """

    known: int
    after_frames: bool
    flow: int
    events: Sequence[Line]


NEVER: Final = 1 << 62

_place: Final = attrgetter("known", "after_frames", "flow")
_known: Final = attrgetter("known")


@dataclass(slots=True, eq=False)
class Timeline:
    """`release` takes what a batch brought and returns everything up to the packet `horizon`; the rest waits."""

    _held: list[Frames] = field(default_factory=list)
    _told: list[Told] = field(default_factory=list)

    @property
    def held_bytes(self) -> int:
        """Bytes of the frames that wait."""
        return sum(len(frames.buffer) for frames in self._held)

    def release(self, cuts: list[Frames], told: list[Told], horizon: int) -> list[Line]:
        if self._told:
            told = self._told + told
        told.sort(key=_place)
        count = bisect_right(told, horizon, key=_known)
        self._told = told[count:]
        ready = told[:count]
        frames = joined(self._held + cuts)
        self._held = []
        if frames is None:
            return [event for each in ready for event in each.events]
        if int(frames.known.max()) > horizon:
            later = frames.known > horizon
            self._held = [apart(frames.rows(later))]
            frames = frames.rows(~later)
        return _lines(_in_order(frames), ready)


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
        column("known"),
        np.concatenate([part.resync for part in parts]),
    )


def apart(frames: Frames) -> Frames:
    """A copy with its own buffer and streams, so that waiting frames do not keep the whole batch in memory."""
    pieces = [frames.buffer[start:end] for start, end in zip(frames.start.tolist(), frames.end.tolist(), strict=True)]
    end = np.cumsum([0, *map(len, pieces)])
    used, stream = np.unique(frames.stream, return_inverse=True)
    flows, by_client = [frames.flows[number] for number in used.tolist()], [frames.by_client[number] for number in used.tolist()]
    return replace(frames, buffer=b"".join(pieces), flows=flows, by_client=by_client, stream=stream, start=end[:-1], end=end[1:])


def _in_order(frames: Frames) -> Frames:
    """By the packet with which each was known, and those of one packet by their own."""
    known, own = frames.known, frames.last_packet
    if (known[1:] >= known[:-1]).all() and (own is known or (own[1:] >= own[:-1]).all()):
        return frames
    return frames.rows(np.lexsort((own, known)))


def _lines(frames: Frames, told: list[Told]) -> list[Line]:
    """Frames cut at the events between them."""
    lines: list[Line] = []
    at = 0
    packets = frames.known.tolist() if told else []
    for each in told:
        to = (bisect_right if each.after_frames else bisect_left)(packets, each.known)
        if to > at:
            lines.append(frames.rows(slice(at, to)))
            at = to
        lines += each.events
    if at < len(frames):
        lines.append(frames.rows(slice(at, None)) if at else frames)
    return lines
