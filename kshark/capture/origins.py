"""Where packets come from: the interfaces of capture files and the options of packets, kept for copies of packets.

Source: IETF draft-ietf-opsawg-pcapng, sections 4.2 (interfaces) and 4.3 (options of packets).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from kshark.capture.interfaces import options
from kshark.limits import INTERFACES

if TYPE_CHECKING:
    from kshark.model import Int64s, PacketBatch

#: Code and value, integers in little-endian order.
Option = tuple[int, bytes]

COMMENT: Final = 1
#: Options of sections (hardware, operating system, application) and of interfaces that a copy keeps. It has its own
#: resolution and offset of times.
SECTION_OPTIONS: Final = (1, 2, 3, 4)
INTERFACE_OPTIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15)
#: The link type of an interface whose description cannot be read.
NO_LINK_TYPE: Final = 0xFFFF
#: Options whose value is one integer: flags, drop count, packet id and queue of a packet; the speed of an interface.
_INTEGERS: Final = {2: 4, 4: 8, 5: 8, 6: 4}
_SPEED: Final = 8
#: The interface of a packet, and above it the number of its options; 0: it has none.
_INTERFACE_BITS: Final = 32


class Description(Struct, frozen=True):
    """An interface of a capture file: its position in its section, its link type (LINKTYPE_), and its options."""

    position: int
    link_type: int
    snap_length: int
    options: tuple[Option, ...] = ()


class Origins:
    """Interfaces, sections and options of packets, as readers find them. A batch's `origin` column refers to them.

    The options of a packet are held until they are taken, so that only those of the packets being read are held. Equal
    interfaces at one position of several sections or files are one.
    """

    def __init__(self) -> None:
        self.interfaces: list[Description] = []
        #: Options of all sections so far.
        self.section: dict[Option, None] = {}
        #: Packets dropped, by interface.
        self.dropped: Counter[int] = Counter()
        self._known: dict[Description, int] = {}
        self._options: dict[int, tuple[Option, ...]] = {}
        self._number = 0

    def interface(self, description: Description) -> int:
        """Return the number of an interface. Beyond the limit, interfaces of one link type share a number."""
        if description not in self._known and len(self.interfaces) >= INTERFACES:
            description = Description(0, description.link_type, 0)
        number = self._known.setdefault(description, len(self.interfaces))
        if number == len(self.interfaces):
            self.interfaces.append(description)
        return number

    def add_section(self, found: Iterable[Option]) -> None:
        """Add the options of a section."""
        if len(self.section) < INTERFACES:
            self.section.update((option, None) for option in found if option[0] in SECTION_OPTIONS)

    def hold(self, interface: int, found: tuple[Option, ...]) -> int:
        """Hold the options of a packet, and return its origin."""
        self._number += 1
        self._options[self._number] = found
        return self._number << _INTERFACE_BITS | interface

    def take(self, batch: PacketBatch) -> list[tuple[int, tuple[Option, ...]]]:
        """Return interface and options of each packet, and hold the options no longer."""
        assert batch.origin is not None
        pop, mask = self._options.pop, (1 << _INTERFACE_BITS) - 1
        return [
            (origin & mask, pop(origin >> _INTERFACE_BITS, ()) if origin >> _INTERFACE_BITS else ())
            for origin in batch.origin.tolist()
        ]


def description_of(position: int, link_type: int, block: tuple[bytes, int, int, str], snap_length: int) -> Description:
    """Return the interface of an Interface Description Block, whose options are `block`: see `options`."""
    return Description(position, link_type, snap_length, tuple(_little(block, {_SPEED: 8}, INTERFACE_OPTIONS)))


def packet_options(block: bytes, begin: int, end: int, order: str) -> tuple[Option, ...]:
    """Return the options of a packet block."""
    return tuple(_little((block, begin, end, order), _INTEGERS))


def same_origin(origin: int, count: int) -> Int64s:
    """Return the column of packets with one origin."""
    return np.full(count, origin, np.int64)


def _little(
    block: tuple[bytes, int, int, str], integers: dict[int, int], kept: tuple[int, ...] | None = None
) -> Iterator[Option]:
    """Yield the kept options with integers in little-endian order."""
    for code, value in options(*block):
        if kept is None or code in kept:
            yield code, value[::-1] if block[3] == ">" and integers.get(code) == len(value) else value
