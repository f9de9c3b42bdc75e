"""One packet being read: its bytes, the steps from header to header, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kshark.limits import HEADERS

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
ETHERNET: Final = 0x6558
PPP: Final = 0x880B
MPLS: Final = 0x8847
NSH: Final = 0x894F
#: An IP protocol number.
TCP: Final = 6
#: No ethertypes: IP whose version tells which, and an 802.2 header.
ANY_IP: Final = 0x10000
LLC: Final = 0x10001
#: By the number that MPLS and PPP have none for, and VXLAN-GPE and NSH share (RFC 8300, section 2.2).
NEXT_PROTOCOLS: Final = {1: IPV4, 2: IPV6, 3: ETHERNET, 4: NSH, 5: MPLS}


class Segment(NamedTuple):
    """A TCP segment. `key` is source address (16 bytes, IPv4 in the first four), target address, both ports, IP version
    as 4 bytes.

    `offset` and `length` are the payload's in the buffer, `missing` its bytes that were not captured, of which
    `short` were not on the wire either.
    """

    key: bytes
    seq: int
    ack: int
    flags: int
    window: int
    offset: int
    length: int
    missing: int
    short: int


class Other(NamedTuple):
    """A packet in which no TCP was found. `kind` is `LAYER: what` or the layer alone, `code` tells whether there may be
    some inside."""

    kind: str
    code: str = "NOT_TCP"


class Fault(NamedTuple):
    """A packet that cannot be read: a code of the catalogue and what is wrong."""

    code: str
    detail: str


class Datagram(NamedTuple):
    """What the fragments of one IP packet have in common; `addresses` are source and target, 16 bytes each."""

    version: int
    addresses: bytes
    identification: int
    protocol: int


class Fragment(NamedTuple):
    """A piece of an IP packet: `size` bytes from `at` of its payload, `length` of them captured from `offset` in the
    buffer."""

    datagram: Datagram
    at: int
    size: int
    more: bool
    offset: int
    length: int


class Step(NamedTuple):
    """What follows a header, as an ethertype or one of the numbers above, and where."""

    ethertype: int
    position: int


Found = Segment | Other | Fault | Fragment


class Settled(Exception):
    """Reading ends in the middle of a header."""

    def __init__(self, result: Fault) -> None:
        self.result = result


class Packet:
    """The buffer, where the captured bytes end, and where the packet ended on the wire; each IP header may bring both
    nearer."""

    __slots__ = ("buffer", "end", "left", "wire_end")

    def __init__(self, buffer: bytes, end: int, wire_end: int) -> None:
        self.buffer = buffer
        self.end = end
        self.wire_end = wire_end
        self.left = HEADERS

    def need(self, position: int, size: int, what: str) -> None:
        """Called once for each header, so that nesting has a bound."""
        if position + size > self.end:
            raise Settled(Fault("PACKET_TOO_SHORT", f"{max(0, self.end - position)} bytes for {what} of {size}"))
        self.left -= 1
        if self.left < 0:
            raise Settled(Fault("HEADERS_LIMIT", f"{HEADERS} headers, then {what}"))

    def narrow(self, end: int) -> None:
        """The header that was read says that the packet ends there."""
        self.wire_end = min(self.wire_end, end)
        self.end = min(self.end, end)

    def starts(self, what: bytes | tuple[bytes, ...], position: int) -> bool:
        """Whether that, or one of these, stands there; what lies behind the packet's end is the next one's."""
        return self.buffer.startswith(what, position, self.end)

    def uint16(self, position: int) -> int:
        return self.buffer[position] << 8 | self.buffer[position + 1]

    def uint32(self, position: int) -> int:
        return int.from_bytes(self.buffer[position : position + 4], "big")

    def ip_size(self, position: int) -> int | None:
        """What an IP header there says how long its packet is; None if there is none."""
        if position + 40 > self.end:
            return None
        match self.buffer[position] >> 4:
            case 4:
                total = self.uint16(position + 2)
                return total if self.buffer[position] & 15 >= 5 and total >= 20 else None
            case 6:
                return 40 + self.uint16(position + 4)
        return None

    def is_ip(self, position: int) -> bool:
        """Whether an IP header stands there that fits into the packet, where something else might."""
        size = self.ip_size(position)
        return size is not None and size <= self.wire_end - position

    def is_ethernet(self, position: int) -> bool:
        """Whether an Ethernet header with a well-known ethertype stands there."""
        if position + 14 > self.end:
            return False
        ethertype = self.uint16(position + 12)
        return self.is_ip(position + 14) if ethertype in (IPV4, IPV6) else ethertype in WELL_KNOWN


#: VLAN tags and ARP.
WELL_KNOWN: Final = frozenset((0x8100, 0x88A8, 0x0806))

#: Reads the header at a position.
Layer = Callable[[Packet, int], Step | Found]


def sealed(layer: str, what: str) -> Other:
    """Something that is not read and may hold TCP."""
    return Other(f"{layer}: {what}", "ENVELOPE_UNREAD")
