"""What one side of a TCP connection has sent, as far as its sequence numbers tell. Source: RFC 9293, section 3.4."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kshark import limits
from kshark.link.disorder import acked_unseen
from kshark.model import Moment, Side, Weird
from kshark.reassembly.runs import Item, Run

MASK: Final = 0xFFFFFFFF
HALF: Final = 1 << 31
#: Nobody answers so soon that packets closer to each other than this matter.
LEAST_DISPLACED_NS: Final = 1 << 13
#: How far from the sequence number due a segment may lie; what is farther belongs to no window (RFC 7323: 1 GiB).
WINDOW: Final = 1 << 30


def ahead(a: int, b: int) -> int:
    """How far sequence number `a` is ahead of `b`, negative when it is behind."""
    return ((a - b + HALF) & MASK) - HALF


class Segment(Struct, frozen=True, gc=False):
    """One segment; `clock_ns` is the greatest time so far, `size` counts payload bytes, of which the snap length cut
    off `missing`."""

    side: Side
    packet: int
    time_ns: int
    clock_ns: int
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    size: int

    def at(self, seq: int) -> Segment:
        """The same with another sequence number."""
        return replace(self, seq=seq)

    def beginning(self, size: int) -> Segment:
        """With so many bytes of its payload."""
        return replace(self, payload=self.payload[:size])


def skipped(segment: Segment, why: str, flow: int) -> Weird:
    """Bytes of a segment that belong nowhere."""
    place = (segment.packet, segment.time_ns, why, flow, segment.side, segment.packet, len(segment.payload))
    return Weird("BYTES_SKIPPED", "reassembly", *place)


class Waiting(Struct, eq=False):
    """A segment behind a hole, or a FIN, which has no bytes; `place` is its distance from the direction's first
    sequence number, so that order survives wrapping."""

    place: int
    packet: int
    time_ns: int
    payload: bytes
    missing: int


#: Where nothing is late: most of many open connections have no hole, and an empty dict and list each take room.
_NONE: Final[Any] = ()


@dataclass(slots=True, eq=False)  # a struct takes longer to change
class Direction:
    """What one side has sent. `next` is the sequence number due; None until it is known."""

    next: int | None = None
    isn: int | None = None
    #: Bytes delivered and lost so far: the place of `next`.
    place: int = 0
    #: By their places, one each; and these places as a heap.
    late: dict[int, Waiting] = _NONE
    places: list[int] = _NONE
    late_bytes: int = 0
    #: The first number that the peer acknowledged while `next` was unknown, and the farthest one.
    base: int | None = None
    acked: int | None = None
    #: Packet, clock and place of the late ones, in the order of their packets; those up to `place` are late no more.
    #: None: none ever was.
    order: deque[tuple[int, int, int]] | None = None
    #: When the peer was seen to have acknowledged the whole first hole, segments that came behind it since, and the
    #: last acknowledgement.
    acked_at: Moment | None = None
    since_acked: int = 0
    last_acked: Moment | None = None
    #: The first packet that acknowledged bytes behind `next`, and its time: these are late or lost; and how late any
    #: were said to be.
    early: tuple[int, int] | None = None
    early_ns: int = LEAST_DISPLACED_NS
    #: The farthest number at which a segment without bytes stood.
    reached: int | None = None
    fin: int | None = None
    finished: bool = False
    last_packet: int = 0
    last_ready: int = 0
    last_ready_ns: int = 0
    run: Run | None = None

    @property
    def first(self) -> int | None:
        """The number of the first byte known."""
        return None if self.next is None else (self.next - self.place) & MASK

    @property
    def rests_at(self) -> int | None:
        """The number due, if all is here that this side was seen to have sent and more may come."""
        return None if self.late or self.fin is not None or self.unseen() else self.next

    def begin(self, seq: int) -> None:
        """The first bytes that are seen of a connection older than the capture; what the peer acknowledged before them
        is a hole."""
        base = self.base
        self.next = base if base is not None and 0 < ahead(seq, base) <= WINDOW else seq

    def acknowledge(self, ack: int, at: tuple[int, int] | None = None) -> None:
        """`at`: the packet and its time, unless it is known that all is here that it acknowledges."""
        if self.acked is None or 0 < (ack - self.acked & MASK) < HALF:  # `ahead`, without a call
            self.acked = ack
            if at is not None and self.early is None and self.next is not None and 0 < (ack - self.next & MASK) < HALF:
                self.early = at

    def lacks(self, ack: int) -> bool:
        """Whether that acknowledges bytes that are not here."""
        return self.next is not None and 0 < (ack - self.next & MASK) < HALF

    def displaced(self, flow: int, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        """New bytes come with that packet: if an earlier one acknowledged them, tells how late they are, each time that
        grows."""
        if self.early is None or self.acked is None or not self.lacks(self.acked):
            self.early = None
            return
        since, since_ns = self.early
        if time_ns - since_ns >= self.early_ns:
            self.early_ns = 1 << (time_ns - since_ns).bit_length()
            out.append(acked_unseen(flow, side, packet, time_ns, since, self.early_ns))

    def reach(self, seq: int) -> None:
        """A segment without bytes stands here: all before it was sent."""
        if self.reached is None or ahead(seq, self.reached) > 0:
            self.reached = seq

    def keep(self, late: Waiting, now: Moment) -> Waiting | None:
        """Takes a segment behind a hole; gives the one at the same place instead, if there is one."""
        if not self.late:
            self.late, self.places, self.order, self.last_acked = {}, [], deque(), None
        if late.place in self.late:
            return self.late[late.place]
        self.late[late.place] = late
        heappush(self.places, late.place)
        self.late_bytes += len(late.payload) + limits.LATE_SEGMENT_BYTES
        assert self.order is not None
        if len(self.order) > 2 * len(self.late):
            self.order = deque([each for each in self.order if each[2] > self.place])
        self.order.append((*now, late.place))
        return None

    @property
    def since(self) -> Moment:
        """When the first of the late ones came."""
        order = self.order
        assert order
        while order[0][2] <= self.place:
            order.popleft()
        packet, clock_ns, _ = order[0]
        return Moment(packet, clock_ns)

    def due(self) -> Waiting | None:
        """The first of the late ones, taken out, if there is no hole before it any more."""
        if not self.places or self.places[0] > self.place:
            return None
        late = self.late.pop(heappop(self.places))
        if not self.late:
            self.late = self.places = _NONE
        self.late_bytes -= len(late.payload) + limits.LATE_SEGMENT_BYTES
        return late

    def see_acked(self, now: Moment) -> None:
        """Notes when the whole first hole, if there is one, was first known to have reached the peer."""
        if not self.late or self.acked_at is not None:
            return
        assert self.next is not None
        hole = self.places[0] - self.place
        if self.acked is not None and ahead(self.acked, self.next) >= hole:
            self.acked_at, self.since_acked = now, 0

    def held_from(self, clock_ns: int) -> int | None:
        """The packet from which on other connections are held until the first hole is decided; None: they are not."""
        if not self.late:
            return None
        since = self.since
        if self.acked_at is not None:
            return (
                since.packet if self.acked_at.clock_ns - since.clock_ns <= limits.REORDER_NS else self.acked_at.packet
            )
        return since.packet if clock_ns - since.clock_ns <= limits.REORDER_NS else None

    def lost_fin(self) -> bool:
        """Of a side whose FIN was not seen: whether all that the peer acknowledged beyond the bytes here is one, which
        takes one number."""
        return self.next is not None and not self.late and self.acked == (self.next + 1) & MASK

    def unseen(self) -> int:
        """Bytes behind the last one here that were sent all the same: the peer acknowledged them, or this side went on
        behind them.

        -1: more than can be counted. One alone is the FIN's number.
        """
        begin = self.base if self.next is None else self.next
        if begin is None or self.fin is not None:
            return 0
        acked = 0 if self.acked is None else ahead(self.acked, begin)
        if acked < (-WINDOW if self.place else 0):
            return -1  # gone around: what is acknowledged is no more than a window behind what is here
        size = acked if self.reached is None else max(acked, ahead(self.reached, begin))
        return size if size > 1 else 0
