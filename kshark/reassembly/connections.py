"""One TCP connection, segment by segment: sequence numbers, holes, FIN and RST. Segments in plain order take fast_path.

Bytes are delivered in order. Each piece has the packet that carried it and the packet at which it was ready: the same
packet, or, after a hole, the packet that filled it. A hole is given up as a Gap when the peer has acknowledged past it
and REORDER_SEGMENTS later segments or REORDER_NS have passed, at the buffer limit, or when the connection ends; the end
of a batch never decides. A FIN, a RST or an acknowledgement beyond the last byte of a side also shows a hole, with no
bytes after it. Source: RFC 9293.
"""

from __future__ import annotations

from typing import Final, Literal

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, UNKNOWN_PACKET, Closed, Flow, Gap, HalfClosed, Late, Moment, Side, Weird
from kshark.reassembly.copies import AT_ONCE_NS, EARLIER, Again, SequenceRange
from kshark.reassembly.directions import MASK, WINDOW, Direction, Segment, Waiting, ahead, skipped
from kshark.reassembly.runs import Hole, Item, Run
from kshark.reassembly.stalls import PacketTimes, Stalls

#: The greatest distance from the next expected number at which a RST is accepted.
_NEAR: Final = WINDOW >> 10


class TcpConnection:
    """A TCP connection of one pair of ends. `feed` appends the results of a segment to `out`."""

    __slots__ = (
        "again",
        "clock_ns",
        "closed",
        "first_finished",
        "flow",
        "forgotten",
        "latest",
        "ranges",
        "repeated",
        "sides",
        "stalls",
    )

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.sides = (Direction(), Direction())
        self.closed = self.forgotten = False
        self.first_finished: Side | None = None
        #: The clock at the last segment.
        self.clock_ns = 0
        #: Packet and time of the first FIN: the end comes after it.
        self.latest = (0, 0)
        #: Segments captured again; None if there are none.
        self.again: Again | None = None
        #: The last packet whose content was here before.
        self.repeated = -1
        #: Its troubles; None if there are none.
        self.stalls: Stalls | None = None
        #: The sequence numbers that both sides sent; set on first use after the connection ended.
        self.ranges: tuple[SequenceRange | None, SequenceRange | None] | None = None

    @property
    def holed(self) -> bool:
        return bool(self.sides[0].late or self.sides[1].late)

    @property
    def late_bytes(self) -> int:
        return self.sides[0].late_bytes + self.sides[1].late_bytes

    def hole(self, clock_ns: int) -> Hole:
        """Return the hole of this connection at that time. At least one hole must be open."""
        held = [packet for side in self.sides if (packet := side.held_from(clock_ns)) is not None]
        return Hole(min(side.since.packet for side in self.sides if side.late), min(held, default=None))

    def carried(self, segment: Segment) -> bool:
        """True if a segment lies wholly within the numbers that this ended connection sent; then it is counted."""
        if self.ranges is None:
            self.ranges = SequenceRange.of(self.sides[0]), SequenceRange.of(self.sides[1])
        here, there = self.ranges[segment.side], self.ranges[1 - segment.side]
        if segment.flags & ACK and there is not None and not there.holds(segment.ack):
            return False
        if here is None or not (
            here.opens(segment.seq) if segment.flags & SYN else here.holds(segment.seq, segment.size)
        ):
            return False
        if segment.size or segment.flags & (SYN | FIN):
            self._again(segment)
        return True

    def is_another(self, side: Side, seq: int) -> bool:
        """True if this SYN begins a new connection on the same ports."""
        here = self.sides[side]
        if here.isn is not None:
            return here.isn != seq
        first = here.first
        # a SYN after the data it opened was reordered, or comes from a second capture that began earlier
        return first is not None and not 0 < ahead(first, seq) <= EARLIER

    def feed(self, segment: Segment, out: list[Item]) -> None:
        flow, side, packet, time_ns, flags = self.flow, segment.side, segment.packet, segment.time_ns, segment.flags
        here, there = self.sides[side], self.sides[1 - side]
        flow.last_packet, flow.last_time_ns, self.clock_ns = packet, time_ns, segment.clock_ns
        seq = segment.seq
        if flags & SYN:
            segment, seq = self._syn(segment)
        distance = 0 if here.next is None else ahead(seq, here.next)
        knows = self._acknowledged(segment) if flags & ACK and abs(distance) <= WINDOW else UNKNOWN_PACKET
        if flags & RST:
            self._rst(here, there, segment, seq, distance, out)
            return
        if abs(distance) > WINDOW:
            self._skip(segment, "outside every window", out)
            return
        if here.next is None and (segment.size or flags & FIN):
            here.begin(seq)
        end = (seq + segment.size) & MASK
        if flags & FIN:
            self._fin(here, end, segment)
        if segment.size or (flags & FIN and here.fin == end):
            self._data(here, segment, knows, out)
        elif distance > 0:
            here.reach(seq)
        if here.fin is not None:
            self._come_to_fin(side, packet, time_ns, out)

    def is_in_order(self, side: int, seq: int) -> bool:
        """True if segments in order, beginning with this sequence number, only advance this side."""
        here, there = self.sides[side], self.sides[1 - side]
        if here.next != seq or here.late or there.late or here.fin is not None or here.early or there.early:
            return False
        if not there.peer_seen or here.was_sent_before(seq):
            return False
        return there.next is not None or (there.base is not None and (here.position > 0 or not self.flow.begun[side]))

    def advance(self, side: Side, due: int, ack: int, size: int, packet: int, time_ns: int) -> None:
        """Apply all such segments at once, without their bytes.

        `due` is the sequence number after them, `ack` the last acknowledgement sent.
        """
        flow, here = self.flow, self.sides[side]
        if packet > flow.last_packet:
            flow.last_packet, flow.last_time_ns = packet, time_ns
        self.sides[1 - side].acknowledge(ack)
        if size:
            here.next = due
            here.position += size
            here.run = None
            flow.stream_bytes[side] += size

    def next_is(self, side: Side, seq: int) -> bool:
        """True if a segment with this sequence number is the next one and no hole is open."""
        here, there = self.sides[side], self.sides[1 - side]
        return here.next == seq and not here.late and not there.late

    def extend(self, side: Side, packet: int, time_ns: int, ack: int, payload: bytes, out: list[Item]) -> None:
        """Apply the next segment, which carries no SYN, FIN or RST (a faster `feed`)."""
        flow, here, there = self.flow, self.sides[side], self.sides[1 - side]
        assert here.next is not None
        flow.last_packet, flow.last_time_ns = packet, time_ns
        if there.next is None:
            self._learn(side, here.next, ack, ACK)
        else:
            there.acknowledge(ack, (packet, time_ns))
        if ack == there.next and ack == there.acked and not there.unacked:
            knows = there.acked_packet  # the usual case, without a call
        else:
            knows = there.received_by(ack)
        if payload:
            if here.early is not None:
                here.displaced(flow.id, side, packet, time_ns, out)
            if here.reached is not None and here.was_sent_before(here.next):
                knows = UNKNOWN_PACKET
            self._running(here, side, out).add(payload, packet, time_ns, packet, time_ns, knows)
            size = len(payload)
            flow.stream_bytes[side] += size
            here.next = (here.next + size) & MASK
            here.position += size
            here.last_packet = here.last_ready = packet
            here.last_ready_ns = time_ns
            if here.unacked or not here.peer_seen:
                here.sent(packet)
            else:
                here.unacked = [packet << 32 | here.next]
        if here.fin is not None:
            self._come_to_fin(side, packet, time_ns, out)

    def _again(self, segment: Segment) -> None:
        """Count a segment whose content was here before, a retransmission or a copy; the counts decide which."""
        flow, here, there = self.flow, self.sides[segment.side], self.sides[1 - segment.side]
        self.repeated = segment.packet
        again = self.again = self.again or Again()
        again.count(segment)
        later_ns = segment.time_ns - flow.first_time_ns
        if segment.flags & SYN:
            if not segment.flags & ACK and (here.position or there.acked is not None or abs(later_ns) < AT_ONCE_NS):
                again.open(later_ns)
        elif not again.opened and segment.size and (segment.seq + segment.size) & MASK == here.next:
            again.later_ns = segment.time_ns - here.last_ready_ns

    def repeat(self, segment: Segment, times: PacketTimes, out: list[Item]) -> None:
        """Take content that was here before, after `feed`: trouble if the peer has not acknowledged it."""
        flow, here = self.flow, self.sides[segment.side]
        if segment.flags & SYN:
            if flow.opened_by == segment.side and not here.peer_seen and not here.position:
                self.stalls = self.stalls or Stalls(flow.id)
                self.stalls.repeat_syn(segment, flow.first_packet, flow.first_time_ns, out)
        elif here.unacked and (here.acked is None or ahead(segment.seq + segment.size, here.acked) > 0):
            self.stalls = self.stalls or Stalls(flow.id)
            self.stalls.repeat(segment, here, times, out)

    def _skip(self, segment: Segment, why: str, out: list[Item]) -> None:
        if segment.payload:
            out.append(skipped(segment, why, self.flow.id))

    def _before(self, lead: int, segment: Segment, out: list[Item]) -> None:
        """Report bytes before the first delivered byte. A single byte is a keep-alive and is not reported."""
        if lead > 1 and segment.payload:
            self._skip(segment.beginning(lead), "before the first byte that was seen", out)

    def _running(self, here: Direction, side: Side, out: list[Item]) -> Run:
        """Return the run that takes the next piece."""
        if here.run is None:
            here.run = Run(self.flow, side, [], [], [], [], [], [], here)
            out.append(here.run)
        return here.run

    def _syn(self, segment: Segment) -> tuple[Segment, int]:
        """Apply a SYN; return the segment moved to the number after the SYN (if it has bytes), and that number."""
        side, flow = segment.side, self.flow
        here = self.sides[side]
        if here.isn is None:
            here.isn = segment.seq
            self.sides[1 - side].peer_seen = True
            begin = (segment.seq + 1) & MASK
            if here.next is None:
                here.next = begin
            if here.first == begin and not self._has_spoken():
                flow.begun = flow.begun[0] or side == 0, flow.begun[1] or side == 1
                if flow.opened_by is None or not segment.flags & ACK:
                    flow.opened_by = _other(side) if segment.flags & ACK else side
        elif not segment.size:
            self._again(segment)
        seq = (segment.seq + 1) & MASK
        return segment.at(seq) if segment.size else segment, seq

    def _fin(self, here: Direction, end: int, segment: Segment) -> None:
        """Apply a FIN at that number. A second FIN without bytes is a retransmission."""
        if here.fin is None:
            here.fin = end
        elif here.fin == end and not segment.size:
            self._again(segment)

    def _rst(
        self, here: Direction, there: Direction, segment: Segment, seq: int, distance: int, out: list[Item]
    ) -> None:
        """End the connection if the receiver accepts the reset."""
        if self._believable_reset(here, there, segment):
            if distance > 0:
                here.reach(seq)
            self.end("rst", segment.packet, segment.time_ns, segment.side, out)

    def _has_spoken(self) -> bool:
        """True if bytes of either side were delivered. From then on `Flow.begun` must not change."""
        return bool(self.sides[0].position or self.sides[1].position)

    def _acknowledged(self, segment: Segment) -> int:
        """Apply an acknowledgement; return the last packet that its sender had certainly received (received_by)."""
        there = self.sides[1 - segment.side]
        if there.next is None:
            self._learn(segment.side, segment.seq, segment.ack, segment.flags)
            return there.received_by(segment.ack)
        before = there.acked
        there.acknowledge(segment.ack, (segment.packet, segment.time_ns))
        if there.late and there.acked != before:
            there.last_acked = Moment(segment.packet, segment.clock_ns)
            there.see_acked(there.last_acked)
        return there.received_by(segment.ack)

    def _learn(self, side: Side, seq: int, ack: int, flags: int) -> None:
        """Learn where the other side began from the answer to a SYN, or from the first acknowledgement of a side that
        has sent nothing.
        """
        here, there = self.sides[side], self.sides[1 - side]
        if flags & SYN or (self.flow.begun[side] and here.position == 0 and seq == here.next):
            there.next, there.peer_seen = ack, True
            if not self._has_spoken():
                self.flow.begun = self.flow.begun[0] or side == 1, self.flow.begun[1] or side == 0
            return
        if there.base is None:
            there.base = ack
        there.acknowledge(ack)

    @staticmethod
    def _believable_reset(here: Direction, there: Direction, segment: Segment) -> bool:
        """True if the receiver accepts this RST: its number is near the expected one, or it answers a SYN.

        Source: RFC 5961, section 3.
        """
        if here.next is not None and abs(ahead(segment.seq, here.next)) < _NEAR:
            return True
        return here.isn is None and (here.next is None or bool(segment.flags & ACK and there.next == segment.ack))

    def _data(self, here: Direction, segment: Segment, knows: int, out: list[Item]) -> None:
        assert here.next is not None
        distance = ahead(segment.seq, here.next)
        if segment.payload and here.finished and here.next == here.fin and distance > 0:
            self._skip(segment, "after the sender's own FIN", out)
            return
        if here.position + distance < 0:
            self._before(-here.position - distance, segment, out)
        if distance + segment.size <= 0:
            if segment.size:
                self._again(segment)
            return
        late = here.placed(segment, distance, knows)
        moment = Moment(segment.packet, segment.clock_ns)
        if distance <= 0 and here.early is not None:
            here.displaced(self.flow.id, segment.side, segment.packet, segment.time_ns, out)
        if distance > 0:
            here.reach(segment.seq)
            self._keep(here, late, moment, out, segment.side)
            return
        since = here.since if here.late else None
        self._deliver(here, segment.side, late, segment.packet, segment.time_ns, out)
        if since is not None and here.positions[0] <= here.position:
            self._decide(here, since, moment, out)
        while first := here.due():
            self._deliver(here, segment.side, first, segment.packet, segment.time_ns, out)
        if here.late:
            here.see_acked(moment)

    def _keep(self, here: Direction, late: Waiting, moment: Moment, out: list[Item], side: Side) -> None:
        twin = here.keep(late, moment)
        if twin is not None:
            shared = min(len(twin.payload), len(late.payload))
            if twin.payload[:shared] != late.payload[:shared]:
                out.append(
                    Weird(
                        "OVERLAP_DIFFERS",
                        "reassembly",
                        late.packet,
                        late.time_ns,
                        "",
                        self.flow.id,
                        side,
                        twin.packet,
                        shared,
                    )
                )
            if len(late.payload) > len(twin.payload):
                here.late_bytes += len(late.payload) - len(twin.payload)
                twin.payload += late.payload[len(twin.payload) :]
                twin.missing = late.missing
            return
        if here.acked_at is not None:
            here.since_acked += 1
        elif here.positions[0] == late.position:
            here.see_acked(moment)
        if here.late_bytes > limits.REORDER_BYTES:
            self._give_up(here, side, "buffer_full", moment, out)
        elif here.since_acked >= limits.REORDER_SEGMENTS:
            self._give_up(here, side, "missing", moment, out)

    def _deliver(self, here: Direction, side: Side, late: Waiting, ready: int, ready_ns: int, out: list[Item]) -> None:
        """Deliver the new part of a segment; `late.position` is at or before the expected position."""
        assert here.next is not None
        overlap = here.position - late.position
        payload = late.payload[overlap:] if overlap else late.payload
        missing = min(late.missing, len(late.payload) + late.missing - overlap)
        if overlap and len(payload) + missing <= 0:
            return
        if ready < here.last_ready:
            ready, ready_ns = here.last_ready, here.last_ready_ns
        if payload:
            knows = UNKNOWN_PACKET if overlap else late.knows
            self._running(here, side, out).add(payload, late.packet, late.time_ns, ready, ready_ns, knows)
            self.flow.stream_bytes[side] += len(payload)
        here.last_packet, here.last_ready, here.last_ready_ns = late.packet, ready, ready_ns
        here.next = (here.next + len(payload) + missing) & MASK
        here.position += len(payload) + missing
        here.sent(ready)
        if missing:
            self._gap(here, side, late.packet, late.time_ns, missing, "snapped", out)

    def _gap(
        self, here: Direction, side: Side, packet_after: int, time_after_ns: int, size: int,
        reason: Literal["missing", "snapped", "buffer_full", "at_close"], out: list[Item],
    ) -> None:  # fmt: skip
        """Append a Gap for the bytes missing before the packet `packet_after`."""
        flow = self.flow
        flow.gaps += 1
        flow.missing_bytes = (
            flow.missing_bytes[0] + max(size, 0) * (1 - side),
            flow.missing_bytes[1] + max(size, 0) * side,
        )
        packet, time_ns = max((packet_after, time_after_ns), (here.last_ready, here.last_ready_ns))
        out.append(Gap(flow, side, packet, time_ns, here.last_packet or flow.first_packet, packet_after, size, reason))
        here.run = None

    def _decide(self, here: Direction, since: Moment, when: Moment, out: list[Item]) -> None:
        """Record that the first hole is filled or given up; report the rest as Late if others did not wait."""
        here.acked_at = None
        if when.clock_ns - since.clock_ns > limits.REORDER_NS:
            out.append(Late(self.flow.id, since.packet, when.packet))

    def _give_up(
        self,
        here: Direction,
        side: Side,
        reason: Literal["missing", "buffer_full", "at_close"],
        moment: Moment,
        out: list[Item],
    ) -> None:
        """Give up the first hole: deliver the segments after it, each ready at its own packet."""
        assert here.next is not None
        first = here.late[here.positions[0]]
        size = first.position - here.position
        self._decide(here, here.since, here.acked_at or moment, out)
        self._gap(here, side, first.packet, first.time_ns, size, reason, out)
        here.next = (here.next + size) & MASK
        here.position = first.position
        while late := here.due():
            self._deliver(here, side, late, late.packet, late.time_ns, out)
        here.since_acked = 0
        here.see_acked(moment)

    def expire(self, clock_ns: int, out: list[Item]) -> None:
        """Give up holes whose time has passed, in the order of their expiry; this may end the connection."""
        while self.holed:
            since = [
                (here.acked_at, side) for side, here in enumerate(self.sides) if here.late and here.acked_at is not None
            ]
            if not since or clock_ns - min(since)[0].clock_ns < limits.REORDER_NS:
                return
            acked_at, number = min(since)
            side: Side = 1 if number else 0
            here = self.sides[side]
            self._give_up(here, side, "missing", here.last_acked or acked_at, out)
            self._finish(side, here.last_ready, here.last_ready_ns, out)

    def give_up(
        self, moment: Moment, out: list[Item], reason: Literal["buffer_full", "at_close"] = "buffer_full"
    ) -> None:
        """Give up all holes: there is no memory for the segments after them, or no more will come."""
        for number, here in enumerate(self.sides):
            side: Side = 1 if number else 0
            while here.late:
                self._give_up(here, side, reason, moment, out)
            self._finish(side, here.last_ready, here.last_ready_ns, out)

    def _come_to_fin(self, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        """Handle this side's FIN. If the other side's FIN was lost, this side's acknowledgements show it."""
        here, there = self.sides[side], self.sides[1 - side]
        self._finish(side, packet, time_ns, out)
        if here.finished and there.fin is None and there.lost_fin():
            there.fin = there.next
            self._finish(_other(side), packet, time_ns, out)

    def _finish(self, side: Side, packet: int, time_ns: int, out: list[Item]) -> None:
        here, there = self.sides[side], self.sides[1 - side]
        if self.closed or here.finished or here.fin is None or here.next is None or ahead(here.next, here.fin) < 0:
            return
        if there.fin is None and there.lost_fin():  # this side received and acknowledged it before it sent its own FIN
            there.fin = there.next
            self._finish(_other(side), packet, time_ns, out)
        here.finished = True
        if self.first_finished is None:
            self.first_finished = side
            self.latest = (packet, time_ns)
            out.append(HalfClosed(self.flow, packet, time_ns, side))
        else:
            self.end("fin", packet, time_ns, self.first_finished, out)

    def end(
        self,
        how: Literal["fin", "rst", "reused", "forgotten", "capture"],
        packet: int,
        time_ns: int,
        side: Side | None,
        out: list[Item],
    ) -> None:
        """End the connection: holes become gaps, also one after the last byte."""
        if self.holed:
            self.give_up(Moment(packet, max(time_ns, self.clock_ns)), out, "at_close")
            if self.closed:
                return
        packet, time_ns = max((packet, time_ns), self.latest)
        for number, here in enumerate(self.sides):
            if size := here.unseen():
                self._gap(here, 1 if number else 0, packet, time_ns, size, "at_close", out)
            here.run = None
            packet, time_ns = max((packet, time_ns), (here.last_ready, here.last_ready_ns))
        self.closed, self.forgotten = True, how == "forgotten"
        out.append(Closed(self.flow, packet, time_ns, how, side))


def _other(side: Side) -> Side:
    return 0 if side else 1
