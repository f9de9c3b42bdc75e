"""Trouble of a connection: bytes or a SYN sent again without an acknowledgement, and a receiver without room.

The facts are weirds: one when the trouble has lasted for long, and one when it ends. `Weird.side` is the sender of the
bytes, or the receiver; `first_packet` began the trouble, `by_ns` is the time since. Not reported: what a retransmission
repairs, bytes of a peer that repeats its acknowledgement (it receives something), probes of a closed window, and
packets captured twice, which come much sooner. Source: RFC 9293, 3.8; RFC 6298.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from kshark import limits
from kshark.model import RST, SYN, Segments, Side, Weird
from kshark.reassembly.directions import MASK, Direction, Segment, ahead
from kshark.reassembly.runs import Item

if TYPE_CHECKING:
    from kshark.model import Int64s

UNACKNOWLEDGED: Final = "UNACKNOWLEDGED"
SYN_UNANSWERED: Final = "SYN_UNANSWERED"
WINDOW_CLOSED: Final = "WINDOW_CLOSED"
#: The code of a trouble's end, and how long it must last to be reported.
_ENDS: Final = {
    UNACKNOWLEDGED: ("ACKNOWLEDGED_LATE", limits.UNACKED_NS),
    SYN_UNANSWERED: ("ACKNOWLEDGED_LATE", limits.UNACKED_NS),
    WINDOW_CLOSED: ("WINDOW_OPENED", limits.WINDOW_CLOSED_NS),
}


class PacketTimes:
    """The times of the last packets, by number."""

    def __init__(self) -> None:
        self._batches: deque[tuple[Int64s, Int64s]] = deque()

    def add(self, segments: Segments) -> None:
        """Add the packets of a batch."""
        oldest = int(segments.packet[0]) - limits.TIMED_PACKETS
        while self._batches and self._batches[0][0][-1] < oldest:
            self._batches.popleft()
        self._batches.append((segments.packet, segments.time_ns))

    def of(self, packet: int, now: int) -> int | None:
        """Return the time of a packet; None if it is too far before the packet `now`."""
        if now - packet <= limits.TIMED_PACKETS:
            for packets, times in reversed(self._batches):
                if packets[0] <= packet:
                    at = int(np.searchsorted(packets, packet))
                    return int(times[at]) if at < len(packets) and packets[at] == packet else None
        return None


def closed_windows(segments: Segments) -> Int64s | None:
    """Return the rows of a batch that close their sender's window; None if there are none. A RST has no window."""
    if segments.window is None or segments.window.all():
        return None
    rows = np.flatnonzero((segments.window == 0) & (segments.flags & (SYN | RST) == 0))
    return rows if len(rows) else None


class _Trouble(Struct):
    """A trouble of one side. `until`: the sequence number whose acknowledgement ends it."""

    code: str
    packet: int
    since_ns: int
    until: int = 0
    reported: bool = False


class Stalls:
    """The troubles of one connection, by side."""

    __slots__ = ("_closed", "_flow", "_unacked")

    def __init__(self, flow: int) -> None:
        self._flow = flow
        self._unacked: list[_Trouble | None] = [None, None]
        self._closed: list[_Trouble | None] = [None, None]

    @property
    def are_over(self) -> bool:
        return self._unacked == self._closed == [None, None]

    def repeat(self, segment: Segment, here: Direction, times: PacketTimes, out: list[Item]) -> None:
        """Take bytes that were sent before, and that the peer has not acknowledged."""
        if self._closed[1 - segment.side] is None:
            if self._unacked[segment.side] is None:
                packet, until = here.unacked[0] >> 32, here.unacked[0] & MASK
                since_ns = times.of(packet, segment.packet)
                since_ns = here.last_ready_ns if since_ns is None else since_ns
                self._unacked[segment.side] = _Trouble(UNACKNOWLEDGED, packet, since_ns, until)
            self._lasts(self._unacked[segment.side], segment.side, segment.packet, segment.time_ns, out)

    def repeat_syn(self, segment: Segment, packet: int, since_ns: int, out: list[Item]) -> None:
        """Take a SYN that was sent before, first in `packet`, and has no answer."""
        if self._unacked[segment.side] is None:
            self._unacked[segment.side] = _Trouble(SYN_UNANSWERED, packet, since_ns, (segment.seq + 1) & MASK)
        self._lasts(self._unacked[segment.side], segment.side, segment.packet, segment.time_ns, out)

    def acknowledge(self, side: Side, acked: int | None, packet: int, time_ns: int, out: list[Item]) -> None:
        """Take the farthest number of a side's bytes that its peer acknowledged.

        None: a packet that only acknowledges, and if it is nothing new, because something arrived.
        """
        trouble = self._unacked[side]
        if trouble is not None and (acked is None or ahead(acked, trouble.until) >= 0):
            self._unacked[side] = None
            self._ended(trouble, side, packet, time_ns, out)

    def window(self, side: Side, packet: int, time_ns: int, out: list[Item], *, is_closed: bool) -> None:
        """Take the window of each segment of a side."""
        trouble = self._closed[side]
        if is_closed and trouble is None:
            self._closed[side] = _Trouble(WINDOW_CLOSED, packet, time_ns)
        elif is_closed:
            self._lasts(trouble, side, packet, time_ns, out)
        elif trouble is not None:
            self._closed[side] = None
            self._lasts(trouble, side, packet, time_ns, out)
            self._ended(trouble, side, packet, time_ns, out)

    def _lasts(self, trouble: _Trouble | None, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        """Report a trouble once, when it has lasted for long."""
        if trouble is not None and not trouble.reported and time_ns - trouble.since_ns >= _ENDS[trouble.code][1]:
            trouble.reported = True
            out.append(self._weird(trouble.code, trouble, side, packet, time_ns))

    def _ended(self, trouble: _Trouble, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        if trouble.reported:
            out.append(self._weird(_ENDS[trouble.code][0], trouble, side, packet, time_ns))

    def _weird(self, code: str, trouble: _Trouble, side: Side, packet: int, time_ns: int) -> Weird:
        by_ns = time_ns - trouble.since_ns
        detail = f"for {by_ns / 1e9:.3f} s"
        return Weird(code, "reassembly", packet, time_ns, detail, self._flow, side, trouble.packet, by_ns=by_ns)
