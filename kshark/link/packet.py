"""One packet while it is read: its bytes, the steps from header to header, and the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

from kshark.limits import HEADERS

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
ETHERNET: Final = 0x6558
PPP: Final = 0x880B
MPLS: Final = 0x8847
NSH: Final = 0x894F
#: An IP protocol number.
TCP: Final = 6
#: Not ethertypes: IP of either version, and an 802.2 header.
ANY_IP: Final = 0x10000
LLC: Final = 0x10001
#: Protocols by the number that VXLAN-GPE and NSH share; MPLS and PPP have none (RFC 8300, section 2.2).
NEXT_PROTOCOLS: Final = {1: IPV4, 2: IPV6, 3: ETHERNET, 4: NSH, 5: MPLS}


class Segment(NamedTuple):
    """A TCP segment.

    `key` is source address (16 bytes, IPv4 in the first four), target address, both ports, and the IP version as 4
    bytes. `offset` and `length` are the payload's in the buffer; `missing` are its bytes that were not captured, and
    `short` of those were not on the wire either.
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


class Other(Struct, frozen=True):
    """A packet without TCP. `kind` is `LAYER: content` or the layer alone; `code` shows if there may be TCP inside."""

    kind: str
    code: str = "NOT_TCP"


class Fault(Struct, frozen=True):
    """A packet that cannot be read: a code of the catalogue and the fault."""

    code: str
    detail: str


class Datagram(Struct, frozen=True):
    """The common values of the fragments of one IP packet; `addresses` are source and target, 16 bytes each."""

    version: int
    addresses: bytes
    identification: int
    protocol: int


class Fragment(Struct, frozen=True):
    """A piece of an IP packet: `size` bytes from position `at` of its payload.

    `length` of them are captured, from `offset` in the buffer.
    """

    datagram: Datagram
    at: int
    size: int
    more: bool
    offset: int
    length: int


class NextHeader(Struct, frozen=True):
    """The next header: an ethertype or one of the numbers above, and its position."""

    ethertype: int
    position: int


ReadResult = Segment | Other | Fault | Fragment


class Settled(Exception):
    """Reading ends in the middle of a header."""

    def __init__(self, result: Fault) -> None:
        self.result = result


class Packet:
    """The buffer, the end of the captured bytes, and the packet's end on the wire; each IP header may reduce both."""

    __slots__ = ("buffer", "end", "left", "wire_end")

    def __init__(self, buffer: bytes, end: int, wire_end: int) -> None:
        self.buffer = buffer
        self.end = end
        self.wire_end = wire_end
        self.left = HEADERS

    def need(self, position: int, size: int, what: str) -> None:
        """Check that a header is captured. Called once for each header, which limits nesting."""
        if position + size > self.end:
            raise Settled(Fault("PACKET_TOO_SHORT", f"{max(0, self.end - position)} bytes for {what} of {size}"))
        self.left -= 1
        if self.left < 0:
            raise Settled(Fault("HEADERS_LIMIT", f"{HEADERS} headers, then {what}"))

    def narrow(self, end: int) -> None:
        """Reduce the packet to the end that a header announces."""
        self.wire_end = min(self.wire_end, end)
        self.end = min(self.end, end)

    def starts(self, what: bytes | tuple[bytes, ...], position: int) -> bool:
        """True if the packet has one of these texts at that position; bytes after its end belong to the next packet."""
        return self.buffer.startswith(what, position, self.end)

    def uint16(self, position: int) -> int:
        return self.buffer[position] << 8 | self.buffer[position + 1]

    def uint32(self, position: int) -> int:
        return int.from_bytes(self.buffer[position : position + 4], "big")

    def ip_size(self, position: int) -> int | None:
        """Return the packet length in the IP header at that position; None if there is none."""
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
        """True if an IP header that fits into the packet stands at a position where other content may stand."""
        size = self.ip_size(position)
        return size is not None and size <= self.wire_end - position

    def is_ethernet(self, position: int) -> bool:
        """True if an Ethernet header with a well-known ethertype stands there."""
        if position + 14 > self.end:
            return False
        ethertype = self.uint16(position + 12)
        return self.is_ip(position + 14) if ethertype in (IPV4, IPV6) else ethertype in WELL_KNOWN


#: VLAN tags and ARP.
WELL_KNOWN: Final = frozenset((0x8100, 0x88A8, 0x0806))

#: Reads the header at a position.
Layer = Callable[[Packet, int], NextHeader | ReadResult]


def sealed(layer: str, what: str) -> Other:
    """Return the kind of a layer that is not read and may hold TCP."""
    return Other(f"{layer}: {what}", "ENVELOPE_UNREAD")
