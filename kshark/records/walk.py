"""Where each record of many batches ends: a chain of lengths, walked batch by batch, or one step in all batches side by side."""

from __future__ import annotations

from typing import Final

import numpy as np

from kshark.records.loop import VARINT, BrokenRecord
from kshark.records.loop import signed as one_signed
from kshark.records.rows import LOST, Bools, Int64s, UInt8s, signed

#: Batches that are walked side by side; with fewer, one after the other is faster.
SIDE_BY_SIDE: Final = 24


def record_ends(buffer: bytes, data: UInt8s, starts: Int64s, stops: Int64s, counts: Int64s) -> tuple[Int64s, Bools]:
    """The ends of all records in order of the batches (each has at least one), and which batches end with their last record.

    `data` is `buffer`; the ends of a batch that does not are anything.
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
        position[:walking] = ends[slots[:walking] + step] = np.where(size > 0, at + size, LOST)
        step += 1
    for i in range(walking):
        slot = int(slots[i]) + step
        count = -int(falling[i]) - step
        ends[slot : slot + count] = _chain(buffer, int(position[i]), count)
    return ends, ends[after - 1] == stops


def _chain(buffer: bytes, position: int, count: int) -> list[int]:
    """The ends of `count` records; less than the last one's stop, or LOST, where a length is damaged."""
    ends: list[int] = []
    add = ends.append
    try:
        for _ in range(count):
            byte = buffer[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            else:
                size, position = one_signed(buffer, position, len(buffer), VARINT)
                position += size
            add(position)
    except (IndexError, BrokenRecord):
        return [LOST] * count
    return ends
