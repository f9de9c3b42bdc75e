"""One TCP connection, segment by segment: sequence numbers, holes, FIN and RST. What is plainly in order need not come here (fast_path).

Bytes come out in order, each piece with the packet that carried it and the packet with which it was ready: the same one, or, behind a
hole, the one that filled it. A hole is given up as a Gap when the peer has acknowledged past it and REORDER_SEGMENTS later segments or
REORDER_NS have gone by, at the buffer limit, or when the connection ends: never because a batch does. Source: RFC 9293.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Literal

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, Closed, Flow, Gap, HalfClosed, Side, Weird
from kshark.reassembly.runs import Item, Run

_MASK = 0xFFFFFFFF
#: How far from the sequence number due a segment may lie; what is farther belongs to no window (RFC 7323: 1 GiB).
_WINDOW = 1 << 30
#: Longer than any handshake.
_HANDSHAKE_NS = 3_000_000_000


def ahead(a: int, b: int) -> int:
    """How far sequence number `a` is ahead of `b`, negative when it is behind (RFC 9293, section 3.4)."""
    return ((a - b + 0x80000000) & _MASK) - 0x80000000


@dataclass(slots=True, order=True)
class _Late:
    """A segment behind a hole; `place` is its distance from the direction's first sequence number, which does not wrap at 2**32."""

    place: int
    packet: int
    time_ns: int = field(compare=False)
    payload: bytes = field(compare=False)
    missing: int = field(compare=False)


@dataclass(slots=True, eq=False)
class Direction:
    """What one side has sent. `next` is the sequence number due; None until it is known."""

    next: int | None = None
    isn: int | None = None
    #: Bytes delivered and lost so far: the place of `next`.
    place: int = 0
    late: list[_Late] = field(default_factory=list)
    late_bytes: int = 0
    #: When the peer was seen to have acknowledged the whole first hole: clock and segments that came behind it since.
    acked: int | None = None
    acked_ns: int | None = None
    since_acked: int = 0
    fin: int | None = None
    finished: bool = False
    last_packet: int = 0
    last_ready: int = 0
    last_ready_ns: int = 0
    run: Run | None = None


class Connection:
    """A connection of one pair of ends. `feed` puts what a segment brings into `out`."""

    __slots__ = ("closed", "first_finished", "flow", "latest", "sides")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.sides = (Direction(), Direction())
        self.closed = False
        self.first_finished: Side | None = None
        #: Packet and time of the first FIN: the end comes after it.
        self.latest = (0, 0)

    @property
    def holed(self) -> bool:
        return bool(self.sides[0].late or self.sides[1].late)

    @property
    def late_bytes(self) -> int:
        return self.sides[0].late_bytes + self.sides[1].late_bytes

    def hole_packet(self) -> int:
        """The first packet that waits behind a hole."""
        return min(late.packet for side in self.sides for late in side.late)

    def is_another(self, side: Side, seq: int, time_ns: int) -> bool:
        """Whether this SYN begins a new connection on the same ports."""
        here = self.sides[side]
        if self.closed:
            return True
        if here.isn is not None:
            # the same number again long after data: nobody retransmits a SYN then, somebody repeats a capture
            return here.isn != seq or (here.place > 0 and abs(time_ns - self.flow.first_time_ns) > _HANDSHAKE_NS)
        # a SYN behind the data it opened was only reordered
        return here.next is not None and ahead(here.next, seq) != here.place + 1

    def feed(
        self,
        side: Side,
        packet: int,
        time_ns: int,
        clock_ns: int,
        seq: int,
        ack: int,
        flags: int,
        payload: bytes,
        missing: int,
        out: list[Item],
    ) -> None:
        flow = self.flow
        self.expire(clock_ns, out)
        flow.last_packet, flow.last_time_ns = packet, time_ns
        if self.closed:
            if payload:
                text = "after the connection was closed"
                out.append(Weird("BYTES_SKIPPED", "reassembly", packet, time_ns, text, flow.id, side, packet, len(payload)))
            return
        here, there = self.sides[side], self.sides[1 - side]
        if flags & SYN:
            self._syn(side, seq, flags)
            seq = (seq + 1) & _MASK
        if flags & ACK:
            self._acknowledged(side, seq, ack, flags, clock_ns)
        if flags & RST:
            if self._believable_reset(here, there, seq, ack, flags):
                self.end("rst", packet, time_ns, side, out)
            return
        if here.next is None and (payload or missing or flags & FIN):
            here.next = seq
        if flags & FIN and here.fin is None:
            here.fin = (seq + len(payload) + missing) & _MASK
        if payload and here.finished and here.next is not None and here.next == here.fin and ahead(seq, here.next) > 0:
            text = "behind the sender's own FIN"
            out.append(Weird("BYTES_SKIPPED", "reassembly", packet, time_ns, text, flow.id, side, packet, len(payload)))
        elif payload or missing:
            self._data(here, side, packet, time_ns, clock_ns, seq, payload, missing, out)
        self._finish(side, packet, time_ns, out)

    def goes_on(self, side: int, seq: int) -> bool:
        """Whether segments in order, the first of them with this sequence number, do nothing but move this side on."""
        here, there = self.sides[side], self.sides[1 - side]
        if self.closed or here.next != seq or here.late or there.late or here.fin is not None:
            return False
        return there.next is not None or here.place > 0 or not self.flow.begun[side]

    def go_on(self, side: Side, due: int, ack: int, size: int, packet: int, time_ns: int) -> None:
        """`feed` for all such segments at once, without their bytes: `due` is the sequence number that follows, `ack` the last one sent."""
        flow, here, there = self.flow, self.sides[side], self.sides[1 - side]
        if packet > flow.last_packet:
            flow.last_packet, flow.last_time_ns = packet, time_ns
        if there.next is not None and (there.acked is None or ahead(ack, there.acked) > 0):
            there.acked = ack
        if size:
            here.next = due
            here.place += size
            here.run = None
            flow.stream_bytes[side] += size

    def next_is(self, side: Side, seq: int) -> bool:
        """Whether a segment with this sequence number is the next one and no hole is open."""
        return not self.closed and self.sides[side].next == seq and not self.holed

    def extend(self, side: Side, packet: int, time_ns: int, ack: int, payload: bytes, out: list[Item]) -> None:
        """`feed` for such a segment, which carries no SYN, FIN or RST."""
        flow, here, there = self.flow, self.sides[side], self.sides[1 - side]
        flow.last_packet, flow.last_time_ns = packet, time_ns
        if there.next is None:
            if flow.begun[side] and here.place == 0:
                there.next, flow.begun[1 - side] = ack, True
        elif there.acked is None or ahead(ack, there.acked) > 0:
            there.acked = ack
        if not payload:
            return
        self._running(here, side, out).add(payload, packet, time_ns, packet, time_ns)
        size = len(payload)
        flow.stream_bytes[side] += size
        assert here.next is not None
        here.next = (here.next + size) & _MASK
        here.place += size
        here.last_packet = here.last_ready = packet
        here.last_ready_ns = time_ns
        if here.fin is not None:
            self._finish(side, packet, time_ns, out)

    def _running(self, here: Direction, side: Side, out: list[Item]) -> Run:
        """The run that takes the next piece."""
        if here.run is None:
            here.run = Run(self.flow, side, [], [], [], [], [], here)
            out.append(here.run)
        return here.run

    def _syn(self, side: Side, seq: int, flags: int) -> None:
        here = self.sides[side]
        if here.isn is None:
            here.isn = seq
            if here.next is None:
                here.next = (seq + 1) & _MASK
            self.flow.begun[side] = True
        if not flags & ACK:
            self.flow.opened_by = side

    def _acknowledged(self, side: Side, seq: int, ack: int, flags: int, clock_ns: int) -> None:
        here, there = self.sides[side], self.sides[1 - side]
        if there.next is None:
            # the answer to a SYN tells where the other side began; so does the first acknowledgement of one who has sent nothing yet
            if flags & SYN or (self.flow.begun[side] and here.place == 0 and seq == here.next):
                there.next = ack
                self.flow.begun[1 - side] = True
            return
        if there.acked is None or ahead(ack, there.acked) > 0:
            there.acked = ack
        if there.late and there.acked_ns is None:
            self._see_acked(there, clock_ns)

    @staticmethod
    def _see_acked(there: Direction, clock_ns: int) -> None:
        """Notes when the whole first hole is known to have reached the peer."""
        assert there.next is not None
        hole = there.late[0].place - there.place
        if there.acked is not None and ahead(there.acked, there.next) >= hole:
            there.acked_ns, there.since_acked = clock_ns, 0

    @staticmethod
    def _believable_reset(here: Direction, there: Direction, seq: int, ack: int, flags: int) -> bool:
        """Whether the receiver takes this RST: its number lies near the one due, or it answers a SYN (RFC 5961, section 3)."""
        if here.next is not None and abs(ahead(seq, here.next)) < _WINDOW >> 10:
            return True
        return here.isn is None and (here.next is None or bool(flags & ACK and there.next == ack))

    def _data(
        self, here: Direction, side: Side, packet: int, time_ns: int, clock_ns: int, seq: int, payload: bytes, missing: int, out: list[Item]
    ) -> None:
        assert here.next is not None
        distance = ahead(seq, here.next)
        if abs(distance) > _WINDOW:
            text = "outside every window"
            out.append(Weird("BYTES_SKIPPED", "reassembly", packet, time_ns, text, self.flow.id, side, packet, len(payload)))
            return
        if distance + len(payload) + missing <= 0:
            return  # a retransmission of what is there
        late = _Late(here.place + distance, packet, time_ns, payload, missing)
        if distance > 0:
            self._keep(here, late, clock_ns, out, side)
            return
        self._deliver(here, side, late, packet, time_ns, out)
        while here.late and here.late[0].place <= here.place:
            first = here.late.pop(0)
            here.late_bytes -= len(first.payload)
            self._deliver(here, side, first, packet, time_ns, out)
            here.acked_ns = None
        if here.late and here.acked_ns is None:
            self._see_acked(here, clock_ns)

    def _keep(self, here: Direction, late: _Late, clock_ns: int, out: list[Item], side: Side) -> None:
        twin = next((other for other in here.late if other.place == late.place), None)
        if twin is not None:
            shared = min(len(twin.payload), len(late.payload))
            if twin.payload[:shared] != late.payload[:shared]:
                out.append(Weird("OVERLAP_DIFFERS", "reassembly", late.packet, late.time_ns, "", self.flow.id, side, twin.packet, shared))
            if len(late.payload) > len(twin.payload):
                here.late_bytes += len(late.payload) - len(twin.payload)
                twin.payload += late.payload[len(twin.payload) :]
                twin.missing = late.missing
            return
        insort(here.late, late)
        here.late_bytes += len(late.payload)
        if here.acked_ns is not None:
            here.since_acked += 1
        elif len(here.late) == 1 or here.late[0] is late:
            self._see_acked(here, clock_ns)
        if here.late_bytes > limits.REORDER_BYTES:
            self._give_up(here, side, "buffer_full", clock_ns, out)
        elif here.since_acked >= limits.REORDER_SEGMENTS:
            self._give_up(here, side, "missing", clock_ns, out)

    def _deliver(self, here: Direction, side: Side, late: _Late, ready: int, ready_ns: int, out: list[Item]) -> None:
        """Hands on the part of a segment that is new; `late.place` is at or before the place due."""
        assert here.next is not None
        known = here.place - late.place
        payload = late.payload[known:] if known else late.payload
        missing = min(late.missing, len(late.payload) + late.missing - known)
        if len(payload) + missing <= 0:
            return
        if ready < here.last_ready:
            ready, ready_ns = here.last_ready, here.last_ready_ns
        if payload:
            self._running(here, side, out).add(payload, late.packet, late.time_ns, ready, ready_ns)
            self.flow.stream_bytes[side] += len(payload)
        here.last_packet, here.last_ready, here.last_ready_ns = late.packet, ready, ready_ns
        here.next = (here.next + len(payload) + missing) & _MASK
        here.place += len(payload) + missing
        if missing:
            self._gap(here, side, late, missing, "snapped", out)

    def _gap(
        self, here: Direction, side: Side, behind: _Late, size: int, reason: Literal["missing", "snapped", "buffer_full", "at_close"],
        out: list[Item],
    ) -> None:  # fmt: skip
        self.flow.gaps += 1
        packet, time_ns = max((behind.packet, behind.time_ns), (here.last_ready, here.last_ready_ns))
        out.append(Gap(self.flow, side, packet, time_ns, here.last_packet, behind.packet, size, reason))
        here.run = None

    def _give_up(
        self, here: Direction, side: Side, reason: Literal["missing", "buffer_full", "at_close"], clock_ns: int, out: list[Item]
    ) -> None:
        """The first hole will not be filled: what waits behind it comes out, each segment ready with its own packet."""
        assert here.next is not None
        first = here.late[0]
        size = first.place - here.place
        self._gap(here, side, first, size, reason, out)
        here.next = (here.next + size) & _MASK
        here.place = first.place
        while here.late and here.late[0].place <= here.place:
            late = here.late.pop(0)
            here.late_bytes -= len(late.payload)
            self._deliver(here, side, late, late.packet, late.time_ns, out)
        here.acked_ns = None
        if here.late:
            self._see_acked(here, clock_ns)

    def expire(self, clock_ns: int, out: list[Item]) -> None:
        """Gives up holes whose time has gone by, in the order in which it did; what comes ready of it may also finish the connection."""
        while self.holed:
            since = [(here.acked_ns, side) for side, here in enumerate(self.sides) if here.late and here.acked_ns is not None]
            if not since or clock_ns - min(since)[0] < limits.REORDER_NS:
                return
            acked_ns, number = min(since)
            side: Side = 1 if number else 0
            here = self.sides[side]
            self._give_up(here, side, "missing", acked_ns + limits.REORDER_NS, out)
            self._finish(side, here.last_ready, here.last_ready_ns, out)

    def give_up(self, clock_ns: int, out: list[Item]) -> None:
        """No hole is waited for any longer: there is no room for what lies behind them."""
        for number, here in enumerate(self.sides):
            side: Side = 1 if number else 0
            while here.late:
                self._give_up(here, side, "buffer_full", clock_ns, out)
            self._finish(side, here.last_ready, here.last_ready_ns, out)

    def _finish(self, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        here = self.sides[side]
        if self.closed or here.finished or here.fin is None or here.next is None or ahead(here.next, here.fin) < 0:
            return
        here.finished = True
        if self.first_finished is None:
            self.first_finished = side
            self.latest = (packet, time_ns)
            out.append(HalfClosed(self.flow, packet, time_ns, side))
        else:
            self.end("fin", packet, time_ns, self.first_finished, out)

    def end(
        self, how: Literal["fin", "rst", "reused", "forgotten", "capture"], packet: int, time_ns: int, side: Side | None, out: list[Item]
    ) -> None:
        """The connection is over: holes become gaps, then it is closed."""
        if self.closed:
            return
        packet, time_ns = max((packet, time_ns), self.latest)
        for number, here in enumerate(self.sides):
            while here.late:
                self._give_up(here, 1 if number else 0, "at_close", time_ns, out)
            here.run = None
            packet, time_ns = max((packet, time_ns), (here.last_ready, here.last_ready_ns))
        self.closed = True
        out.append(Closed(self.flow, packet, time_ns, how, side))
