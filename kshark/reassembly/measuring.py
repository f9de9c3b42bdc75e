"""What packets say of the network: sent again, overtaken, no room to receive, round trips. One by one, and only where
somebody asks.

Wireshark's terms, decided by the bytes rather than by the time alone: what is behind the last number and fills a hole
was overtaken, unless it comes later than a round trip, when it was lost before the capture and sent again; what fills
none was here before. That is sent again; spurious, where it had been acknowledged; a probe, where it is the last and no
timeout has gone by; or, sooner than a round trip, a copy: nobody can know so soon that it was lost. Source: RFC 9293,
RFC 8985, RFC 6298 (section 3: no round trip is taken from what was sent again)."""

from __future__ import annotations

from collections import deque
from typing import Final

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, Flow, Segments
from kshark.reassembly.directions import WINDOW, ahead
from kshark.transport import Sent, Transport

#: Where no round trip was seen: what is overtaken comes within that time (Wireshark's threshold), and what comes again
#: sooner is a copy.
_OVERTAKEN_NS: Final = 3_000_000
_COPIED_NS: Final = 1_000_000
#: The shortest timeout that is in use (Linux: TCP_RTO_MIN): what is last and comes again sooner is a tail loss probe
#: (RFC 8985).
_TIMEOUT_NS: Final = 200_000_000
#: Sooner than anybody sends a SYN again (RFC 6298, section 2: a second).
_SYN_NS: Final = 200_000_000


class _Side:
    """What is remembered of one side; numbers are counted on beyond 2**32. `next` is the one behind the last that was
    sent."""

    __slots__ = ("ack", "holes", "isn", "next", "recent", "sent", "syn_ns", "timed", "window", "zero_ns")

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.next: int | None = None
        self.isn: int | None = None
        self.syn_ns = 0
        #: Numbers that were passed over, from and to (exclusive), and since when.
        self.holes: list[tuple[int, int, int]] = []
        #: The last segments in order: from, to, time.
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=limits.MEASURED_SEGMENTS)
        #: The number whose acknowledgement is waited for, and since when.
        self.timed: tuple[int, int] | None = None
        #: As this side said last.
        self.ack: int | None = None
        self.window: int | None = None
        self.zero_ns: int | None = None

    def place(self, number: int) -> int:
        """The number of a segment, counted on."""
        assert self.next is not None
        return self.next + ahead(number, self.next & 0xFFFFFFFF)

    def fill(self, begin: int, end: int) -> int | None:
        """Takes these numbers out of the holes; gives the time since when one of them was open, None where none was."""
        since, holes = None, []
        for first, behind, opened in self.holes:
            if end <= first or behind <= begin:
                holes.append((first, behind, opened))
                continue
            since = opened if since is None else min(since, opened)
            holes += [(a, z, opened) for a, z in ((first, begin), (end, behind)) if a < z]
        self.holes = holes[-limits.MEASURED_HOLES :]
        return since

    def first_sent(self, begin: int) -> int | None:
        """When the byte of that number was here; None where that is long ago."""
        return next((time_ns for first, behind, time_ns in reversed(self.recent) if first <= begin < behind), None)


class _Measured:
    """One connection."""

    __slots__ = ("_sides", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._sides = (_Side(transport.sent[0]), _Side(transport.sent[1]))

    def segment(self, side: int, time_ns: int, seq: int, ack: int, flags: int, size: int, window: int) -> None:
        here, there = self._sides[side], self._sides[1 - side]
        sent = here.sent
        sent.packets += 1
        sent.data += size > 0
        sent.payload_bytes += size
        if flags & ACK:
            self._acknowledged(here, there, time_ns, seq, ack, flags, size, window)
        if flags & SYN:
            self._syn(here, there, time_ns, seq, flags)
            seq = seq + 1 & 0xFFFFFFFF
        elif not flags & (FIN | RST):
            self._window(here, time_ns, window)
            here.sent.keep_alives += not size and here.next is not None and seq == here.next - 1 & 0xFFFFFFFF
        if flags & RST == 0 and (size or flags & FIN):
            self._data(here, there, time_ns, seq, size, size + (flags & FIN))

    def _syn(self, here: _Side, there: _Side, time_ns: int, seq: int, flags: int) -> None:
        if here.isn is None:
            here.isn = seq
            if here.next is None:
                here.next = seq + 1
        elif here.isn == seq:
            if time_ns - here.syn_ns < _SYN_NS:
                here.sent.copies += 1
                return
            here.sent.syns_again += 1
        here.syn_ns = time_ns
        if not flags & ACK:
            self._transport.answered = self._transport.answered or False
        elif there.isn is not None:
            self._transport.answered = True

    def _acknowledged(
        self, here: _Side, there: _Side, time_ns: int, seq: int, ack: int, flags: int, size: int, window: int
    ) -> None:
        """What `there` sent has come to `here`, up to that number."""
        if flags & SYN == 0 and here.ack is None and here.isn is not None:
            self._greeted(here, there, time_ns, seq, ack, flags, size)
        if there.next is not None:
            if flags & (SYN | FIN | RST) == 0 and not size and ack == here.ack and window == here.window and window:
                outstanding = ahead(there.next & 0xFFFFFFFF, ack)
                here.sent.duplicate_acks += outstanding > 0 and here.next is not None and seq == here.next & 0xFFFFFFFF
            if there.timed is not None and there.place(ack) >= there.timed[0]:
                there.sent.round_trips.add(max(0, time_ns - there.timed[1]))
                there.timed = None
        here.ack = ack

    def _greeted(self, here: _Side, there: _Side, time_ns: int, seq: int, ack: int, flags: int, size: int) -> None:
        """The first acknowledgement of a side whose SYN was seen: of the answer to it, which need not be in the
        capture."""
        plain = (
            not flags & (FIN | RST)
            and not size
            and not here.sent.syns_again
            and here.next is not None
            and seq == here.next & 0xFFFFFFFF
        )
        if plain and (there.isn is None or ack == there.isn + 1 & 0xFFFFFFFF):
            self._transport.answered = True
            self._transport.handshake_ns = max(0, time_ns - here.syn_ns)

    @staticmethod
    def _window(here: _Side, time_ns: int, window: int) -> None:
        if not window:
            here.sent.zero_windows += 1
            here.zero_ns = here.zero_ns or time_ns
        elif here.zero_ns is not None:
            here.sent.zero_window_ns += max(0, time_ns - here.zero_ns)
            here.zero_ns = None
        here.window = window

    def _data(self, here: _Side, there: _Side, time_ns: int, seq: int, size: int, count: int) -> None:
        """So many numbers from `seq` on: bytes, and the one of a FIN."""
        if here.next is None:
            here.next = seq
            here.holes.append(
                (seq - WINDOW, seq, time_ns)
            )  # what came before the capture, which may be overtaken by what it begins with
        begin = here.place(seq)
        end, due = begin + count, here.next
        if abs(begin - due) > WINDOW:
            return
        if begin >= due:
            if begin > due:
                here.holes = [*here.holes[1 - limits.MEASURED_HOLES :], (due, begin, time_ns)]
            if here.timed is None and size:
                here.timed = end, time_ns
            here.recent.append((begin, end, time_ns))
        elif begin == due - 1 and count == size and size <= 1:
            here.sent.keep_alives += 1
            return
        else:
            self._behind(here, there, time_ns, begin, end, size)
            here.timed = None
        here.next = max(due, end)

    def _behind(self, here: _Side, there: _Side, time_ns: int, begin: int, end: int, size: int) -> None:
        """Something before the last number."""
        sent, whole_ns = here.sent, self._round_trip()
        since = here.fill(begin, end)
        if since is not None and time_ns - since <= max(whole_ns or 0, _OVERTAKEN_NS):
            sent.late += 1
            here.recent.append((begin, end, time_ns))
            return
        before = None if since is not None else here.first_sent(begin)
        if before is not None and time_ns - before < (_COPIED_NS if whole_ns is None else whole_ns):
            sent.copies += 1
            return
        if since is None and there.ack is not None and here.place(there.ack) >= end:
            sent.spurious += 1
            return
        if before is not None and end == here.next and time_ns - before < _TIMEOUT_NS:
            sent.tail_probes += 1
            return
        sent.again += 1
        sent.again_bytes += size
        first_ns = before if since is None else since
        sent.again_ns = max(sent.again_ns, 0 if first_ns is None else time_ns - first_ns)

    def _round_trip(self) -> int | None:
        """The time in which a side usually hears of what it sent, wherever the capture was taken; None where nothing
        tells."""
        if self._transport.handshake_ns is not None:
            return self._transport.handshake_ns
        seen = [median for side in self._sides if (median := side.sent.round_trips.median) is not None]
        return sum(seen) if seen else None


class Measuring:
    """`open` a connection when its first segment was seen, then `feed` the batch with that segment. As many as
    limits.MEASURED_FLOWS."""

    def __init__(self) -> None:
        self._flows = 0
        #: Of each pair of ends the connection that its segments belong to, and those that began in this batch.
        self._measured: dict[int, _Measured] = {}
        self._opened: dict[int, list[Flow]] = {}

    def open(self, pair: int, flow: Flow) -> None:
        if self._flows < limits.MEASURED_FLOWS:
            self._flows += 1
            flow.transport = Transport()
        self._opened.setdefault(pair, []).append(flow)

    def feed(self, segments: Segments) -> None:
        """The segments of a batch, all of whose connections were opened."""
        opened, measured = self._opened, self._measured
        window = [1] * len(segments.packet) if segments.window is None else segments.window.tolist()
        sizes = (segments.length + segments.missing).tolist()
        numbers = (segments.path, segments.packet, segments.time_ns, segments.seq, segments.ack, segments.flags)
        for path, packet, time_ns, seq, ack, flags, size, room in zip(
            *(each.tolist() for each in numbers), sizes, window, strict=True
        ):
            pair = path >> 1
            if pair in opened and opened[pair] and opened[pair][0].first_packet <= packet:
                flow = opened[pair].pop(0)
                measured.pop(pair, None)
                if flow.transport is not None:
                    measured[pair] = _Measured(flow.transport)
            if pair in measured:
                measured[pair].segment(path & 1, time_ns, seq, ack, flags, size, room)
        opened.clear()
