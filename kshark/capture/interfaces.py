"""The interfaces of a pcapng section: link type, snap length, unit and offset of timestamps, packets dropped."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

END_OF_OPTIONS = 0
IF_TSRESOL = 9
IF_TSOFFSET = 14
ISB_IFRECV = 4
ISB_IFDROP = 5
ISB_OSDROP = 7

NS = 1_000_000_000
LAST_NS = (1 << 63) - 1


class Interface(Struct):
    """An interface of a section. Its timestamps count `per_second` units a second; `offset_s` is added to them."""

    link_type: int
    snap_length: int
    per_second: int = 1_000_000
    offset_s: int = 0
    dropped: int = 0


def options(block: bytes, position: int, end: int, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each option; the list ends at an end marker, or at a length that leads outside."""
    header = struct.Struct(order + "HH")
    while position + 4 <= end:
        code, size = header.unpack_from(block, position)
        if code == END_OF_OPTIONS or position + 4 + size > end:
            return
        yield code, block[position + 4 : position + 4 + size]
        position += 4 + size + (-size & 3)


def described(block: bytes, position: int, end: int, order: str) -> Interface:
    """Parse the interface of an Interface Description Block, without the block's lengths. pcapng, section 4.2."""
    link_type, _, snap_length = struct.unpack_from(order + "HHI", block, position)
    interface = Interface(link_type, snap_length)
    for code, value in options(block, position + 8, end, order):
        if code == IF_TSRESOL and len(value) == 1:
            power = value[0] & 0x7F
            interface.per_second = 2**power if value[0] & 0x80 else 10**power
        elif code == IF_TSOFFSET and len(value) == 8:
            (interface.offset_s,) = struct.unpack(order + "q", value)
    return interface


def dropped(block: bytes, position: int, end: int, order: str) -> int:
    """Return the packets dropped so far, by an Interface Statistics Block's options. pcapng, section 4.6."""
    drops = (
        value
        for code, value in options(block, position, end, order)
        if code in (ISB_IFDROP, ISB_OSDROP) and len(value) == 8
    )
    return sum(int.from_bytes(value, "little" if order == "<" else "big") for value in drops)


def to_ns(ticks: NDArray[np.uint64], interface: Interface) -> Int64s:
    """Return timestamps as nanoseconds since 1970, clamped to 64 bits; exact for every unit, fast for the usual decimal
    ones.
    """
    unit, rest = divmod(NS, interface.per_second)
    if rest == 0 and interface.offset_s == 0 and int(ticks.max()) <= LAST_NS // unit:
        return ticks.astype(np.int64) * unit
    exact: list[Any] = [tick * NS // interface.per_second + interface.offset_s * NS for tick in ticks.tolist()]
    return np.array([min(max(ns, -LAST_NS), LAST_NS) for ns in exact], np.int64)
