"""One direction of a TCP connection: the bytes that a side has sent, as its sequence numbers show. Source: RFC 9293,
3.4.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kshark import limits
from kshark.link.disorder import acked_unseen
from kshark.model import UNKNOWN_PACKET, Moment, Side, Weird
from kshark.reassembly.runs import Item, Run

if TYPE_CHECKING:
    from kshark.model import Int64s

MASK: Final = 0xFFFFFFFF
HALF: Final = 1 << 31
#: Packets closer together than this are not reported: no host answers so fast.
LEAST_DISPLACED_NS: Final = 1 << 13
#: The greatest distance of a segment from the expected sequence number; farther ones lie in no window (RFC 7323: 1
#: GiB).
WINDOW: Final = 1 << 30


def ahead(a: int, b: int) -> int:
    """Return how far sequence number `a` is ahead of `b`; negative if it is before `b`."""
    return ((a - b + HALF) & MASK) - HALF


class Segment(Struct, frozen=True, gc=False):
    """One segment. `clock_ns` is the greatest time so far; `size` counts payload bytes, `missing` those cut by the snap
    length.
    """

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
        """Return the segment with another sequence number."""
        return replace(self, seq=seq)

    def beginning(self, size: int) -> Segment:
        """Return the segment with the first `size` bytes of its payload."""
        return replace(self, payload=self.payload[:size])


def skipped(segment: Segment, why: str, flow: int) -> Weird:
    """Return the Weird for bytes of a segment that belong to no position."""
    facts = (segment.packet, segment.time_ns, why, flow, segment.side, segment.packet, len(segment.payload))
    return Weird("BYTES_SKIPPED", "reassembly", *facts)


class Waiting(Struct, eq=False):
    """A segment after a hole, or a FIN, which has no bytes.

    `position` is its distance from the direction's first sequence number, so that order survives the wrap of numbers.
    `knows` as in Run.
    """

    position: int
    packet: int
    time_ns: int
    payload: bytes
    missing: int
    knows: int


#: Without late segments: most of many open connections have no hole, and an empty dict and list take memory.
NONE: Final[Any] = ()


class Direction:  # a struct takes longer to change, a dataclass to import
    """The bytes that one side has sent. `next` is the next expected sequence number; None until it is known."""

    __slots__ = (
        "acked",
        "acked_at",
        "acked_packet",
        "base",
        "early",
        "early_ns",
        "fin",
        "finished",
        "isn",
        "last_acked",
        "last_packet",
        "last_ready",
        "last_ready_ns",
        "late",
        "late_bytes",
        "next",
        "order",
        "peer_seen",
        "position",
        "positions",
        "reached",
        "run",
        "since_acked",
        "unacked",
    )

    def __init__(self) -> None:
        self.next: int | None = None
        self.isn: int | None = None
        #: Bytes delivered and lost so far: the position of `next`.
        self.position: int = 0
        #: The late segments by position, and these positions as a heap.
        self.late: dict[int, Waiting] = NONE
        self.positions: list[int] = NONE
        self.late_bytes: int = 0
        #: The first number that the peer acknowledged while `next` was unknown, and the farthest one.
        self.base: int | None = None
        self.acked: int | None = None
        #: Packet, clock and position of the late segments, in packet order; those up to `position` are not late any
        #: more. None: never used.
        self.order: deque[tuple[int, int, int]] | None = None
        #: When the peer had acknowledged the whole first hole; the segments after the hole since then; the last
        #: acknowledgement.
        self.acked_at: Moment | None = None
        self.since_acked: int = 0
        self.last_acked: Moment | None = None
        #: The first packet that acknowledged bytes after `next`, and its time (these bytes are late or lost); the
        #: greatest delay reported.
        self.early: tuple[int, int] | None = None
        self.early_ns: int = LEAST_DISPLACED_NS
        #: The farthest number of a segment that did not follow the bytes here: all bytes before it were sent by then.
        self.reached: int | None = None
        #: The peer's packets are in the capture.
        self.peer_seen: bool = False
        #: Packets with bytes that the peer has not acknowledged, each as packet << 32 | the number after its last byte.
        self.unacked: list[int] = NONE
        #: The last packet whose bytes the peer has acknowledged, with all before; 0: none; UNKNOWN_PACKET: it may be
        #: any.
        self.acked_packet: int = 0
        self.fin: int | None = None
        self.finished: bool = False
        self.last_packet: int = 0
        self.last_ready: int = 0
        self.last_ready_ns: int = 0
        self.run: Run | None = None

    @property
    def first(self) -> int | None:
        """The number of the first known byte."""
        return None if self.next is None else (self.next - self.position) & MASK

    @property
    def rests_at(self) -> int | None:
        """The next expected number if all sent bytes are here and more may come; else None."""
        return None if self.late or self.fin is not None or self.unseen() else self.next

    def begin(self, seq: int) -> None:
        """Set the first bytes seen of a connection older than the capture.

        If the peer acknowledged bytes before them, these bytes are a hole.
        """
        base = self.base
        self.next = base if base is not None and 0 < ahead(seq, base) <= WINDOW else seq

    def acknowledge(self, ack: int, at: tuple[int, int] | None = None) -> None:
        """Apply an acknowledgement.

        `at`: its packet and time; None if all acknowledged bytes are known to be here.
        """
        if self.acked is None or 0 < (ack - self.acked & MASK) < HALF:  # `ahead`, without a call
            self.acked, self.peer_seen = ack, True
            if at is not None and self.early is None and self.next is not None and 0 < (ack - self.next & MASK) < HALF:
                self.early = at

    def sent(self, packet: int) -> None:
        """Note that with this packet all bytes before `next` are here. Nothing is kept if the peer's acknowledgements
        are not in the capture.
        """
        assert self.next is not None
        if not self.peer_seen:
            self.acked_packet = UNKNOWN_PACKET
        elif not self.unacked:
            self.unacked = [packet << 32 | self.next]
        else:
            if self.unacked[-1] >> 32 == packet:
                del self.unacked[-1]
            self.unacked.append(packet << 32 | self.next)

    def forget_unacked(self) -> int:
        """Forget the packets that are not acknowledged; return their number."""
        count, self.unacked, self.acked_packet = len(self.unacked), NONE, UNKNOWN_PACKET
        return count

    def sent_all(self, entries: list[int]) -> None:
        """Do the same for many packets, given as entries of `unacked`."""
        if not self.peer_seen:
            self.acked_packet = UNKNOWN_PACKET
        elif self.unacked:
            self.unacked.extend(entries)
        elif entries:
            self.unacked = entries

    def received_by_each(self, acks: Int64s) -> list[int]:
        """Return `received_by` for many acknowledgements, none of which is before the one before it."""
        if not self.unacked and self.acked is not None and (int(acks[0]) - self.acked & MASK) < HALF:
            return [self.acked_packet] * len(acks)
        if acks[0] == acks[-1]:
            return [self.received_by(int(acks[0]), is_here=True)] * len(acks)
        return [self.received_by(ack, is_here=True) for ack in acks.tolist()]

    def received_by(self, ack: int, *, is_here: bool = False) -> int:
        """Return the last packet that the peer had certainly received when it sent this acknowledgement; 0 if none.

        UNKNOWN_PACKET: an acknowledgement overtaken by a later one, of bytes before the capture, or of bytes that are
        not here (yet). `is_here`: the acknowledged bytes are certainly here, or come with this batch.
        """
        if self.acked is not None and 0 < (self.acked - ack & MASK) < HALF:
            return UNKNOWN_PACKET
        count = 0
        for entry in self.unacked:
            if (ack - entry & MASK) >= HALF:
                break
            count += 1
        if count:
            self.acked_packet = self.unacked[count - 1] >> 32
            if count < len(self.unacked):
                del self.unacked[:count]
            else:
                self.unacked = NONE
        if not is_here and self.next is not None and 0 < (ack - self.next & MASK) < HALF:  # `lacks`, without a call
            return UNKNOWN_PACKET
        return self.acked_packet

    def was_sent_before(self, seq: int) -> bool:
        """True if the segment with this number may be a retransmission whose first transmission is not here."""
        if self.reached is None:
            return False
        if 0 < (self.reached - seq & MASK) < HALF:
            return True
        self.reached = None  # after 2 GiB more it would seem to be ahead again
        return False

    def lacks(self, ack: int) -> bool:
        """True if that acknowledges bytes that are not here."""
        return self.next is not None and 0 < (ack - self.next & MASK) < HALF

    def displaced(self, flow: int, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        """Report new bytes that an earlier packet has acknowledged, each time the delay grows."""
        if self.early is None or self.acked is None or not self.lacks(self.acked):
            self.early = None
            return
        since, since_ns = self.early
        if time_ns - since_ns >= self.early_ns:
            self.early_ns = 1 << (time_ns - since_ns).bit_length()
            out.append(acked_unseen(flow, side, packet, time_ns, since, self.early_ns))

    def reach(self, seq: int) -> None:
        """Note a segment at this number, after the bytes here: all bytes before it were sent."""
        if self.reached is None or ahead(seq, self.reached) > 0:
            self.reached = seq

    def placed(self, segment: Segment, distance: int, knows: int) -> Waiting:
        """Return a segment at this distance from `next`; a possible retransmission shows no longer what its sender
        knew.
        """
        if distance < 0 or self.was_sent_before(segment.seq):
            knows = UNKNOWN_PACKET
        position = self.position + distance
        return Waiting(position, segment.packet, segment.time_ns, segment.payload, segment.missing, knows)

    def keep(self, late: Waiting, moment: Moment) -> Waiting | None:
        """Keep a segment after a hole; if one is already kept at the same position, return that one."""
        if not self.late:
            self.late, self.positions, self.order, self.last_acked = {}, [], deque(), None
        if late.position in self.late:
            return self.late[late.position]
        self.late[late.position] = late
        heappush(self.positions, late.position)
        self.late_bytes += len(late.payload) + limits.LATE_SEGMENT_BYTES
        assert self.order is not None
        if len(self.order) > 2 * len(self.late):
            self.order = deque([entry for entry in self.order if entry[2] > self.position])
        self.order.append((moment.packet, moment.clock_ns, late.position))
        return None

    @property
    def since(self) -> Moment:
        """The packet and clock at which the first late segment came."""
        order = self.order
        assert order
        while order[0][2] <= self.position:
            order.popleft()
        packet, clock_ns, _ = order[0]
        return Moment(packet, clock_ns)

    def due(self) -> Waiting | None:
        """Remove and return the first late segment if no hole is before it any more."""
        if not self.positions or self.positions[0] > self.position:
            return None
        late = self.late.pop(heappop(self.positions))
        if not self.late:
            self.late = self.positions = NONE
        self.late_bytes -= len(late.payload) + limits.LATE_SEGMENT_BYTES
        return late

    def see_acked(self, moment: Moment) -> None:
        """Note when the peer is first known to have received the whole first hole."""
        if not self.late or self.acked_at is not None:
            return
        assert self.next is not None
        hole = self.positions[0] - self.position
        if self.acked is not None and ahead(self.acked, self.next) >= hole:
            self.acked_at, self.since_acked = moment, 0

    def held_from(self, clock_ns: int) -> int | None:
        """Return the packet from which on other connections are held for the first hole; None if they are not."""
        if not self.late:
            return None
        since = self.since
        if self.acked_at is not None:
            return (
                since.packet if self.acked_at.clock_ns - since.clock_ns <= limits.REORDER_NS else self.acked_at.packet
            )
        return since.packet if clock_ns - since.clock_ns <= limits.REORDER_NS else None

    def lost_fin(self) -> bool:
        """True if a side's FIN was not seen but acknowledged: exactly one number is acknowledged beyond its bytes."""
        return self.next is not None and not self.late and self.acked == (self.next + 1) & MASK

    def unseen(self) -> int:
        """Return the bytes after the last one here that were sent: acknowledged by the peer, or followed by later
        segments.

        -1: more than can be counted. A single one is the FIN's number, and counts as 0.
        """
        begin = self.base if self.next is None else self.next
        if begin is None or self.fin is not None:
            return 0
        acked = 0 if self.acked is None else ahead(self.acked, begin)
        if acked < (-WINDOW if self.position else 0):
            return -1  # wrapped: an acknowledgement is at most a window before the bytes here
        size = acked if self.reached is None else max(acked, ahead(self.reached, begin))
        return size if size > 1 else 0
