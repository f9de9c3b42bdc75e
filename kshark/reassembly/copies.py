"""What was captured twice: both ends of a link, a port mirrored twice, files merged although their clocks differ.

A connection is known by its ends and its sequence numbers: what it has carried it does not carry again. Of a live one the bytes are here
already, as with a retransmission; of one that is over the numbers are remembered, so that a copy that comes later opens no new one.
Addresses that were rewritten on the way (NAT) make two connections: nothing tells that they are one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kshark import limits
from kshark.model import ACK, FIN, SYN, Flow, Weird
from kshark.reassembly.directions import MASK, WINDOW, Direction, Segment, ahead

#: A SYN whose number lies so little before the first byte seen opened the same connection: nobody else's is so near by chance.
EARLIER: Final = 1 << 24
#: Sooner than anybody sends a SYN again (RFC 6298, section 2: a second).
AT_ONCE_NS: Final = 200_000_000
#: Packets that come again before their share of the bytes tells anything.
_TELLING: Final = 8


@dataclass(slots=True)
class Again:
    """What a connection carried once more: packets, and bytes of each side. `later_ns` is by how much, where that can be told."""

    packets: int = 0
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    first_packet: int = 0
    later_ns: int | None = None
    #: Its SYN came again when nobody sends it again.
    opened: bool = False

    def count(self, segment: Segment) -> None:
        self.first_packet = self.first_packet or segment.packet
        self.packets += 1
        self.sizes[segment.side] += segment.size

    def open(self, later_ns: int) -> None:
        self.opened, self.later_ns = True, later_ns

    def is_copy(self, sizes: list[int]) -> bool:
        """Whether the connection, of so many bytes, was captured twice: nobody says half of it again, least of all both sides."""
        telling = self.packets > 1 if self.opened else self.packets >= _TELLING and all(sizes)
        return telling and any(sizes) and all(2 * again >= size for again, size in zip(self.sizes, sizes, strict=True))


@dataclass(slots=True)
class Range:
    """Sequence numbers of one side that were seen, or are known to have been sent: `size` of them from `first` on."""

    isn: int | None
    first: int
    size: int
    #: Behind the last byte, and its time.
    end: int
    last_ns: int

    @classmethod
    def of(cls, side: Direction) -> Range | None:
        """None where nothing is known. Of more than a window the last; of a connection older than the capture also what came before."""
        due = side.base if side.next is None else side.next
        if due is None:
            return None
        before = EARLIER if side.isn is None else (due - side.place - side.isn) & MASK
        behind = 1 if side.finished else 0
        for number in (side.acked, side.reached):
            if number is not None and number != due:
                behind = max(behind, ahead(number, due))
        size = min(side.place + before, WINDOW) + behind
        return cls(side.isn, (due + behind - size) & MASK, size, due, side.last_ready_ns)

    def holds(self, number: int, size: int = 0) -> bool:
        return (number - self.first & MASK) + size <= self.size

    def opens(self, seq: int) -> bool:
        """Whether a SYN with this number is the one of this side."""
        return seq == self.isn if self.isn is not None else self.holds(seq, 1)


@dataclass(slots=True, eq=False)
class Past:
    """A connection that is over, or, where it is not, was forgotten."""

    flow: Flow
    over: bool
    sides: tuple[Range | None, Range | None]
    again: Again | None

    def holds(self, segment: Segment) -> bool:
        """Whether the segment lies wholly within what the connection carried."""
        here, there = self.sides[segment.side], self.sides[1 - segment.side]
        if segment.flags & ACK and there is not None and not there.holds(segment.ack):
            return False
        if here is None:
            return False
        if segment.flags & SYN:
            return here.opens(segment.seq)
        return here.holds(segment.seq, segment.size + bool(segment.flags & FIN))

    def count(self, segment: Segment) -> None:
        """What carries something is counted; a bare acknowledgement is not, as with live connections."""
        if not (segment.size or segment.flags & (SYN | FIN)):
            return
        again = self.again = self.again or Again()
        again.count(segment)
        here = self.sides[segment.side]
        if segment.flags & (SYN | ACK) == SYN:
            again.open(segment.time_ns - self.flow.first_time_ns)
        elif here is not None and not again.opened and segment.size and (segment.seq + segment.size) & MASK == here.end:
            again.later_ns = segment.time_ns - here.last_ns


class Copies:
    """Remembers connections that are over, limits.CLOSED_FLOWS of them, and counts what was captured twice."""

    def __init__(self) -> None:
        self.past: dict[int, list[Past]] = {}
        #: Their pairs, the oldest first.
        self._order: deque[int] = deque()
        self._packets = self._size = self._connections = self._first_packet = 0
        self._most: tuple[int, str] = (0, "")

    def remember(self, pair: int, past: Past) -> None:
        known = self.past.setdefault(pair, [])
        known.append(past)
        self._order.append(pair)
        if len(known) > limits.CLOSED_FLOWS_PER_PAIR:
            self._forget(known.pop(0))
        if len(self._order) > limits.CLOSED_FLOWS:
            oldest = self._order.popleft()
            if known := self.past.get(oldest, []):
                self._forget(known.pop(0))
            if not known:
                self.past.pop(oldest, None)

    def has(self, pair: int, segment: Segment) -> bool:
        """Whether a connection of these ends that is over carried the segment: then it is counted, and no news."""
        for past in self.past.get(pair, ()):
            if past.holds(segment):
                past.count(segment)
                return True
        return False

    def ended(self, pair: int) -> Flow | None:
        """The last connection of these ends, if it ended: then only a SYN opens another."""
        known = self.past.get(pair)
        return known[-1].flow if known and known[-1].over else None

    def add(self, again: Again | None, flow: Flow) -> None:
        """Counts a connection of which no more will come."""
        if again is None or not again.is_copy(flow.stream_bytes):
            return
        self._connections += 1
        self._packets += again.packets
        self._size += sum(again.sizes)
        self._first_packet = min(self._first_packet or again.first_packet, again.first_packet)
        later = "" if again.later_ns is None else f" {again.later_ns / 1e9:.6f} s later"
        self._most = max(self._most, (again.packets, f"{flow.ends.first} - {flow.ends.second}{later}"))

    def close(self, packet: int, time_ns: int) -> Iterator[Weird]:
        """One for all, with the connection of which most came again."""
        for known in self.past.values():
            for past in known:
                self._forget(past)
        self.past.clear()
        if self._packets:
            text = f"{self._connections} connection{'s' if self._connections > 1 else ''}; {self._most[1]}"
            yield Weird("DUPLICATE_PACKETS", "reassembly", packet, time_ns, text, None, None, self._first_packet, self._size, self._packets)

    def _forget(self, past: Past) -> None:
        self.add(past.again, past.flow)
