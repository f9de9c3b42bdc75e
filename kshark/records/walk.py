"""Find the end of each record of many batches.

Each length leads to the next, batch by batch, or one step in all batches at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kshark.records.loop import VARINT, BrokenRecord
from kshark.records.loop import signed as signed_at
from kshark.records.rows import LOST, Bools, Int64s, UInt8s, signed

#: At least this many batches are walked side by side (6 to 13 us a step); fewer one by one (65 ns a record), unless
#: they are short: each one costs 2 us by itself, a sixth of a step.
SIDE_BY_SIDE: Final = 96
STEP_COST: Final = 6


def record_ends(buffer: bytes, data: UInt8s, starts: Int64s, stops: Int64s, counts: Int64s) -> tuple[Int64s, Bools]:
    """Return the ends of all records in order of the batches, and which batches end with their last record.

    Each batch has at least one record. `data` is `buffer`. The ends in a batch that does not end with its last record
    are meaningless: its lengths were only added up.
    """
    after = np.cumsum(counts)
    ends = np.empty(int(after[-1]), np.int64)
    order = np.argsort(-counts, kind="stable")  # batches that still have records stay in front
    slots = (after - counts)[order]
    position = starts[order]
    falling = -counts[order]
    most, step = -int(falling[0]), 0
    while (walking := int(np.searchsorted(falling, -step))) >= min(SIDE_BY_SIDE, 1 + STEP_COST * (most - step)):
        size, at = signed(data, position[:walking], VARINT)
        position[:walking] = ends[slots[:walking] + step] = at + size
        step += 1
    rest = (column[:walking].tolist() for column in (slots + step, -falling - step, position, stops[order]))
    for slot, count, begin, stop in zip(*rest, strict=True):
        ends[slot : slot + count] = _short_chain(buffer, begin, stop, count) or _chain(buffer, begin, count)
    return ends, ends[after - 1] == stops


def _short_chain(buffer: bytes, position: int, stop: int, count: int) -> list[int] | None:
    """Return the ends of `count` records whose lengths take one or two bytes; None if they do not lead to `stop`."""
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
    """Return the ends of `count` records; LOST for all if a length is damaged."""
    ends: list[int] = []
    try:
        for _ in range(count):
            size, at = signed_at(buffer, position, len(buffer), VARINT)
            position = at + size
            ends.append(position)
    except (IndexError, BrokenRecord):
        return [LOST] * count
    return ends
