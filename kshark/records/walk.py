"""Where each record of many batches ends: each length leads to the next, batch by batch, or one step in all batches at
once."""

from __future__ import annotations

from typing import Final

import numpy as np

from kshark.records.loop import VARINT, BrokenRecord
from kshark.records.loop import signed as one_signed
from kshark.records.rows import LOST, Bools, Int64s, UInt8s, signed

#: From so many batches on they are walked side by side (6 us a step); fewer are faster one by one (65 ns a record).
SIDE_BY_SIDE: Final = 96


def record_ends(buffer: bytes, data: UInt8s, starts: Int64s, stops: Int64s, counts: Int64s) -> tuple[Int64s, Bools]:
    """The ends of all records in order of the batches (each has at least one), and which batches end with their last
    record.

    `data` is `buffer`. The ends in a batch that does not are meaningless: its lengths were only added up.
    """
    after = np.cumsum(counts)
    ends = np.empty(int(after[-1]), np.int64)
    order = np.argsort(-counts, kind="stable")  # those still walking stay in front
    slots = (after - counts)[order]
    position = starts[order]
    falling = -counts[order]
    step = 0
    while (walking := int(np.searchsorted(falling, -step))) >= SIDE_BY_SIDE:
        size, at = signed(data, position[:walking], VARINT)
        position[:walking] = ends[slots[:walking] + step] = at + size
        step += 1
    for i in range(walking):
        slot = int(slots[i]) + step
        count = -int(falling[i]) - step
        stop = int(stops[order[i]])
        ends[slot : slot + count] = _short_chain(buffer, int(position[i]), stop, count) or _chain(
            buffer, int(position[i]), count
        )
    return ends, ends[after - 1] == stops


def _short_chain(buffer: bytes, position: int, stop: int, count: int) -> list[int] | None:
    """The ends of `count` records whose lengths take one or two bytes; None if they do not lead to `stop`."""
    try:
        ends = [
            position := position
            + (
                1 + (byte >> 1)
                if (byte := buffer[position]) < 0x80
                else 2 + (byte >> 1 & 0x3F | buffer[position + 1] << 6)
            )
            for _ in range(count)
        ]
    except IndexError:
        return None
    return ends if position == stop else None


def _chain(buffer: bytes, position: int, count: int) -> list[int]:
    """The ends of `count` records; LOST from a damaged length on."""
    ends: list[int] = []
    try:
        for _ in range(count):
            size, at = one_signed(buffer, position, len(buffer), VARINT)
            position = at + size
            ends.append(position)
    except (IndexError, BrokenRecord):
        return [LOST] * count
    return ends
