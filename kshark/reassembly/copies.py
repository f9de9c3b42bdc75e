"""How a connection that was captured twice is told: by its ends and its sequence numbers, for what it has carried it
does not carry again.

Both ends of a link were captured, a port is mirrored twice, files were merged although their clocks differ. Of a live
connection the bytes are here already, as with a retransmission; of one that is over the numbers are remembered
(kshark.reassembly.past). Addresses that were rewritten on the way (NAT) make two connections: nothing tells that they
are one."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark.model import Moment, Weird
from kshark.reassembly.directions import MASK, WINDOW, Direction, Segment, ahead

#: A SYN whose number lies so little before the first byte seen opened the same connection: nobody else's is so near by
#: chance.
EARLIER: Final = 1 << 24
#: Sooner than anybody sends a SYN again (RFC 6298, section 2: a second).
AT_ONCE_NS: Final = 200_000_000
#: Packets that come again before their share of the bytes tells anything.
_TELLING: Final = 8


class Again(Struct):
    """What a connection carried once more: packets, and bytes of each side. `later_ns` is by how much, where that can
    be told."""

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
        """Whether the connection, of so many bytes, was captured twice: nobody says half of it again, least of all both
        sides."""
        telling = self.packets > 1 if self.opened else self.packets >= _TELLING and all(sizes)
        return telling and any(sizes) and all(2 * again >= size for again, size in zip(self.sizes, sizes, strict=True))


class Copies(NamedTuple):
    """All that was captured twice: connections, packets, bytes, the first packet, and the packets and ends of the
    connection of which most came again. Those of several parts of a capture add up."""

    connections: int = 0
    packets: int = 0
    size: int = 0
    first_packet: int = 0
    most: tuple[int, str] = (0, "")

    def __add__(self, other: Copies) -> Copies:  # type: ignore[override]
        first = min(filter(None, (self.first_packet, other.first_packet)), default=0)
        sums = (self.connections + other.connections, self.packets + other.packets, self.size + other.size)
        return Copies(*sums, first, max(self.most, other.most))

    def told(self, end: Moment) -> list[Weird]:
        """One for all of them, at the capture's end; none where there are none."""
        if not self.packets:
            return []
        text = f"{self.connections} connection{'s' if self.connections > 1 else ''}; {self.most[1]}"
        return [
            Weird("DUPLICATE_PACKETS", "reassembly", *end, text, None, None, self.first_packet, self.size, self.packets)
        ]


class Range(Struct):
    """Sequence numbers of one side that were seen, or are known to have been sent: `size` of them from `first` on."""

    isn: int | None
    first: int
    size: int

    @classmethod
    def of(cls, side: Direction) -> Range | None:
        """None where nothing is known. Of more than a window the last; of a connection older than the capture also what
        came before."""
        due = side.base if side.next is None else side.next
        if due is None:
            return None
        before = EARLIER if side.isn is None else (due - side.place - side.isn) & MASK
        behind = int(side.finished)
        for number in (side.acked, side.reached):
            if number is not None:
                behind = max(behind, ahead(number, due))
        size = min(side.place + before, WINDOW) + behind
        return cls(side.isn, (due + behind - size) & MASK, size)

    def holds(self, number: int, size: int = 0) -> bool:
        return (number - self.first & MASK) + size <= self.size

    def opens(self, seq: int) -> bool:
        """Whether a SYN with this number is the one of this side."""
        return seq == self.isn if self.isn is not None else self.holds(seq, 1)
