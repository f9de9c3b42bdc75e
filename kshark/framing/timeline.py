"""The one time line: frames and events in the order of the packets that completed them, however packets were cut into batches.

While something earlier may still come (a hole may be filled, a connection is not recognised yet) later items wait, up to
limits.HELD_PACKETS packets and limits.HELD_BYTES bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kshark.model import Closed, Frames, Gap, HalfClosed, Opened, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

Line = Frames | Gap | Weird | Opened | HalfClosed | Closed


class Ending(NamedTuple):
    """The end of a connection, with what only its end shows about it."""

    weirds: list[Weird]
    closed: Closed


Told = Gap | Weird | Opened | HalfClosed | Ending

NEVER: Final = 1 << 62


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
        count = _count_until(told, horizon)
        self._told = told[count:]
        ready = told[:count]
        frames = joined(self._held + cuts)
        self._held = []
        if frames is None:
            return [event for each in ready for event in _events(each)]
        if int(frames.last_packet.max()) > horizon:
            late = frames.last_packet > horizon
            self._held = [apart(frames.rows(late))]
            frames = frames.rows(~late)
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
    packet = frames.last_packet
    return frames if (packet[1:] >= packet[:-1]).all() else frames.rows(np.argsort(packet, kind="stable"))


def _lines(frames: Frames, told: list[Told]) -> list[Line]:
    """Frames cut at the events between them."""
    lines: list[Line] = []
    at = 0
    packets = frames.last_packet.tolist() if told else []
    for each in told:
        packet, after_frames, _ = _place(each)
        to = (bisect_right if after_frames else bisect_left)(packets, packet)
        if to > at:
            lines.append(frames.rows(slice(at, to)))
            at = to
        lines += _events(each)
    if at < len(frames):
        lines.append(frames.rows(slice(at, None)) if at else frames)
    return lines


def _place(told: Told) -> tuple[int, bool, int]:
    """Where it belongs in the time line: packet, whether after the frames of that packet (as endings are), flow."""
    if isinstance(told, Weird):
        return told.packet, False, told.flow or 0
    event = told.closed if isinstance(told, Ending) else told
    return event.packet, isinstance(event, (HalfClosed, Closed)), event.flow.id


def _events(told: Told) -> Sequence[Line]:
    return [*told.weirds, told.closed] if isinstance(told, Ending) else [told]


def _count_until(told: list[Told], horizon: int) -> int:
    return sum(_place(each)[0] <= horizon for each in told)
