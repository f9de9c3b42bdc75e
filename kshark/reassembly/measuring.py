"""Measure the network from packets, one by one: retransmissions, overtaken packets, zero windows, round trips. On
request only.

The terms are Wireshark's, but bytes decide, not time alone. A segment before the last number that fills a hole was
overtaken; if it comes later than a round trip, it was lost before the capture and retransmitted. A segment that fills
no hole was here before. It is a copy if it comes sooner than a round trip, since no host can know so soon of a loss;
spurious if it had been acknowledged; a tail loss probe if it is the last and no timeout has passed; else a
retransmission. Source: RFC 9293, RFC 8985, RFC 6298 (section 3: retransmissions give no round trip).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kshark import limits
from kshark.model import ACK, FIN, RST, SYN, Flow, Segments
from kshark.reassembly.directions import WINDOW, ahead
from kshark.transport import Sent, Transport

#: Used without a known round trip: overtaken segments come within the first time (Wireshark's threshold), copies within
#: the second.
_OVERTAKEN_NS: Final = 3_000_000
_COPIED_NS: Final = 1_000_000
#: The shortest timeout in use (Linux: TCP_RTO_MIN): a last segment repeated sooner is a tail loss probe (RFC 8985).
_TIMEOUT_NS: Final = 200_000_000
#: Shorter than the time after which a SYN is retransmitted (RFC 6298, section 2: one second).
_SYN_NS: Final = 200_000_000


class _Side:
    """The state of one side. Numbers continue beyond 2**32; `next` is the one after the last number sent."""

    __slots__ = ("ack", "holes", "isn", "next", "recent", "sent", "syn_ns", "timed", "window", "zero_ns")

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.next: int | None = None
        self.isn: int | None = None
        self.syn_ns = 0
        #: Numbers passed over: from, to (exclusive), and the time since when.
        self.holes: list[tuple[int, int, int]] = []
        #: The last segments in order: from, to, time.
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=limits.MEASURED_SEGMENTS)
        #: The number whose acknowledgement is awaited, and the time since when.
        self.timed: tuple[int, int] | None = None
        #: The last values that this side sent.
        self.ack: int | None = None
        self.window: int | None = None
        self.zero_ns: int | None = None

    def unwrapped(self, number: int) -> int:
        """Return the number of a segment, continued beyond 2**32."""
        assert self.next is not None
        return self.next + ahead(number, self.next & 0xFFFFFFFF)

    def fill(self, begin: int, end: int) -> int | None:
        """Remove these numbers from the holes; return since when the first of them was open, None if none was."""
        since, holes = None, []
        for first, stop, opened in self.holes:
            if end <= first or stop <= begin:
                holes.append((first, stop, opened))
                continue
            since = opened if since is None else min(since, opened)
            holes += [(a, z, opened) for a, z in ((first, begin), (end, stop)) if a < z]
        self.holes = holes[-limits.MEASURED_HOLES :]
        return since

    def first_sent(self, begin: int) -> int | None:
        """Return the time at which the byte of that number was sent; None if that is too long ago."""
        return next((time_ns for first, stop, time_ns in reversed(self.recent) if first <= begin < stop), None)


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
        """Handle an acknowledgement: bytes of `there` reached `here` up to that number."""
        if flags & SYN == 0 and here.ack is None and here.isn is not None:
            self._greeted(here, there, time_ns, seq, ack, flags, size)
        if there.next is not None:
            if flags & (SYN | FIN | RST) == 0 and not size and ack == here.ack and window == here.window and window:
                outstanding = ahead(there.next & 0xFFFFFFFF, ack)
                here.sent.duplicate_acks += outstanding > 0 and here.next is not None and seq == here.next & 0xFFFFFFFF
            if there.timed is not None and there.unwrapped(ack) >= there.timed[0]:
                there.sent.round_trips.add(max(0, time_ns - there.timed[1]))
                there.timed = None
        here.ack = ack

    def _greeted(self, here: _Side, there: _Side, time_ns: int, seq: int, ack: int, flags: int, size: int) -> None:
        """Handle the first acknowledgement of a side whose SYN was seen. The answer to the SYN may be missing."""
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
        """Handle `count` numbers from `seq` on: bytes, and the one of a FIN."""
        if here.next is None:
            here.next = seq
            here.holes.append(
                (seq - WINDOW, seq, time_ns)
            )  # bytes sent before the capture, which the capture's first bytes may have overtaken
        begin = here.unwrapped(seq)
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
            self._before_last(here, there, time_ns, begin, end, size)
            here.timed = None
        here.next = max(due, end)

    def _before_last(self, here: _Side, there: _Side, time_ns: int, begin: int, end: int, size: int) -> None:
        """Classify a segment before the last number."""
        sent, whole_ns = here.sent, self._round_trip()
        since = here.fill(begin, end)
        if since is not None and time_ns - since <= max(whole_ns or 0, _OVERTAKEN_NS):
            sent.late += 1
            here.recent.append((begin, end, time_ns))
            return
        sent_ns = None if since is not None else here.first_sent(begin)
        if sent_ns is not None and time_ns - sent_ns < (_COPIED_NS if whole_ns is None else whole_ns):
            sent.copies += 1
            return
        if since is None and there.ack is not None and here.unwrapped(there.ack) >= end:
            sent.spurious += 1
            return
        if sent_ns is not None and end == here.next and time_ns - sent_ns < _TIMEOUT_NS:
            sent.tail_probes += 1
            return
        sent.again += 1
        sent.again_bytes += size
        first_ns = sent_ns if since is None else since
        sent.again_ns = max(sent.again_ns, 0 if first_ns is None else time_ns - first_ns)

    def _round_trip(self) -> int | None:
        """Return the usual round-trip time, wherever the capture was taken; None if unknown."""
        if self._transport.handshake_ns is not None:
            return self._transport.handshake_ns
        seen = [median for side in self._sides if (median := side.sent.round_trips.median) is not None]
        return sum(seen) if seen else None


class Measuring:
    """Measures up to limits.MEASURED_FLOWS connections. Call `open` for each new connection, then `feed` its batch."""

    def __init__(self) -> None:
        self._flows = 0
        #: By pair of ends: the connection that its segments belong to, and the connections that began in this batch.
        self._measured: dict[int, _Measured] = {}
        self._opened: dict[int, list[Flow]] = {}

    def open(self, pair: int, flow: Flow) -> None:
        if self._flows < limits.MEASURED_FLOWS:
            self._flows += 1
            flow.transport = Transport()
        self._opened.setdefault(pair, []).append(flow)

    def feed(self, segments: Segments) -> None:
        """Measure the segments of a batch; all its connections must be opened."""
        opened, measured = self._opened, self._measured
        window = [1] * len(segments.packet) if segments.window is None else segments.window.tolist()
        sizes = (segments.length + segments.missing).tolist()
        numbers = (segments.path, segments.packet, segments.time_ns, segments.seq, segments.ack, segments.flags)
        for path, packet, time_ns, seq, ack, flags, size, room in zip(
            *(column.tolist() for column in numbers), sizes, window, strict=True
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
