"""Recognise connections that were captured twice, by their ends and sequence numbers: a connection never repeats its
bytes.

Reasons: both ends of a link were captured, a port is mirrored twice, or files were merged although their clocks differ.
In an open connection the bytes are already here, as with a retransmission; of an ended connection the numbers are
remembered (kshark.reassembly.past). Addresses rewritten on the way (NAT) make two connections; nothing shows that they
are one.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kshark.model import Moment, Weird
from kshark.reassembly.directions import MASK, WINDOW, Direction, Segment, ahead

#: A SYN whose number is at most this much before the first byte seen opened the same connection: another connection's
#: number is never so near by chance.
EARLIER: Final = 1 << 24
#: Shorter than the time after which a SYN is retransmitted (RFC 6298, section 2: one second).
AT_ONCE_NS: Final = 200_000_000
#: The number of repeated packets needed before their share of the bytes decides.
_TELLING: Final = 8


class Again(Struct):
    """The packets that a connection carried again, with the bytes of each side; `later_ns` is the delay, if known."""

    packets: int = 0
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    first_packet: int = 0
    later_ns: int | None = None
    #: True if its SYN came again too soon for a retransmission.
    opened: bool = False

    def count(self, segment: Segment) -> None:
        self.first_packet = self.first_packet or segment.packet
        self.packets += 1
        self.sizes[segment.side] += segment.size

    def open(self, later_ns: int) -> None:
        self.opened, self.later_ns = True, later_ns

    def is_copy(self, sizes: list[int]) -> bool:
        """True if a connection of that size was captured twice: half of the bytes of both sides are never
        retransmitted.
        """
        telling = self.packets > 1 if self.opened else self.packets >= _TELLING and all(sizes)
        return telling and any(sizes) and all(2 * again >= size for again, size in zip(self.sizes, sizes, strict=True))


class Copies(Struct, frozen=True):
    """Totals of all connections captured twice.

    `most` are the packets and ends of the connection with the most copies. Copies of several parts of a capture add up.
    """

    connections: int = 0
    packets: int = 0
    size: int = 0
    first_packet: int = 0
    most: tuple[int, str] = (0, "")

    def __add__(self, other: Copies) -> Copies:
        first = min(filter(None, (self.first_packet, other.first_packet)), default=0)
        sums = (self.connections + other.connections, self.packets + other.packets, self.size + other.size)
        return Copies(*sums, first, max(self.most, other.most))

    def weirds(self, end: Moment) -> list[Weird]:
        """Return one Weird for all copies, at the capture's end; an empty list without copies."""
        if not self.packets:
            return []
        text = f"{self.connections} connection{'s' if self.connections > 1 else ''}; {self.most[1]}"
        at, own = (end.packet, end.time_ns), (self.first_packet, self.size, self.packets)
        return [Weird("DUPLICATE_PACKETS", "reassembly", *at, text, None, None, *own)]


class SequenceRange(Struct):
    """Sequence numbers of one side that were seen, or must have been sent: `size` of them from `first` on."""

    isn: int | None
    first: int
    size: int

    @classmethod
    def of(cls, side: Direction) -> SequenceRange | None:
        """Return the numbers of a side; None if nothing is known.

        Of more than a window only the last numbers count. Of a connection older than the capture, earlier ones count
        too.
        """
        due = side.base if side.next is None else side.next
        if due is None:
            return None
        before = EARLIER if side.isn is None else (due - side.position - side.isn) & MASK
        sent_after = int(side.finished)
        for number in (side.acked, side.reached):
            if number is not None:
                sent_after = max(sent_after, ahead(number, due))
        size = min(side.position + before, WINDOW) + sent_after
        return cls(side.isn, (due + sent_after - size) & MASK, size)

    def holds(self, number: int, size: int = 0) -> bool:
        return (number - self.first & MASK) + size <= self.size

    def opens(self, seq: int) -> bool:
        """True if a SYN with this number is the one of this side."""
        return seq == self.isn if self.isn is not None else self.holds(seq, 1)
