"""Some records of one buffer, field by field as columns. Source of the layout: Kafka class DefaultRecord.

Nothing is checked in between. A damaged length leads to an arbitrary position, and reads are clipped to the buffer. A
record is good if its last field ends where the record ends. Records that are not good are emptied before Python objects
are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kshark.records.loop import VARINT, VARLONG
from kshark.records.slices import slices

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
UInt8s = NDArray[np.uint8]

#: Most headers of a record that are read as columns.
MOST_HEADERS: Final = 64
#: A position beyond every buffer, for damaged records.
LOST: Final = 1 << 60
T = TypeVar("T")
ZIGZAG: Final = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(128)], np.int64)


def signed(data: UInt8s, position: Int64s, longest: int) -> tuple[Int64s, Int64s]:
    """Return the zigzag varints at the positions, and their ends; LOST for one that is longer than `longest` bytes."""
    byte = data.take(position, mode="clip")
    position = position + 1
    if byte.max() < 0x80:
        return ZIGZAG.take(byte), position
    value = byte.astype(np.int64)
    longer = np.flatnonzero(byte >= 0x80)
    value[longer] &= 0x7F
    shift = 7
    while longer.size:
        if shift == 7 * longest:
            position[longer] = LOST
            break
        byte = data.take(position[longer], mode="clip")
        value[longer] |= (byte & 0x7F).astype(np.int64) << shift
        position[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    if longest == VARINT:
        value &= 0xFFFFFFFF
        return (value >> 1) ^ -(value & 1), position
    # numpy treats the 64th bit as a sign: the shift copies it, so it must be masked.
    return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position


class Rows:
    """Records from `begin` (their length) to `end`, at least one; `fit` is true for the good ones."""

    def __init__(self, data: UInt8s, begin: Int64s, end: Int64s) -> None:
        size, at = signed(data, begin, VARINT)
        self.timestamp_delta, at_offset = signed(data, at + 1, VARLONG)
        self.offset_delta, at_key = signed(data, at_offset, VARINT)
        self.key = sized(data, at_key)
        self.value = sized(data, self.key.end)
        count, at_headers = signed(data, self.value.end, VARINT)
        self.headers: HeaderRows | None = HeaderRows(data, count, at_headers, end) if count.any() else None
        self.fit: Bools = (at + size == end) & ((self.headers.end if self.headers else at_headers) == end)
        if not self.fit.all():
            self.key.empty(~self.fit)
            self.value.empty(~self.fit)
            if self.headers:
                self.headers.empty(~self.fit)


class Pieces:
    """Byte strings of many records, or of their headers: each lies from `start` to `end`, or is `null`."""

    __slots__ = ("end", "null", "start")

    def __init__(self, start: Int64s, end: Int64s, null: Bools) -> None:
        self.start, self.end, self.null = start, end, null

    def empty(self, which: Bools) -> None:
        self.start[which] = 0
        self.end[which] = 0

    def contents(self, buffer: bytes) -> Sequence[bytes | None]:
        if self.null.all():
            return [None] * len(self.null)
        return _with_nulls(slices(buffer, self.start, self.end), self.null)

    def sizes(self) -> Sequence[int | None]:
        return _with_nulls((self.end - self.start).tolist(), self.null)


def _with_nulls(values: Sequence[T], null: Bools) -> Sequence[T | None]:
    if not null.any():
        return values
    out: list[T | None] = [*values]
    for i in np.flatnonzero(null).tolist():
        out[i] = None
    return out


def sized(data: UInt8s, position: Int64s) -> Pieces:
    """Return the byte strings after their lengths; any negative length is null, as in Kafka."""
    size, start = signed(data, position, VARINT)
    return Pieces(start, start + np.maximum(size, 0), size < 0)


class HeaderRows:
    """Headers of records: the first header of every record is read in one step, then every second one, and so on.

    Record i has `count[i]` headers, from `first[i]` on.
    """

    def __init__(self, data: UInt8s, count: Int64s, position: Int64s, end: Int64s) -> None:
        wrong = (count < 0) | (count > MOST_HEADERS)
        self.end = np.where(wrong, LOST, position)
        self.count = np.where(wrong, 0, count)
        self.first = np.cumsum(self.count) - self.count
        total = int(self.count.sum())
        self.key = Pieces(np.empty(total, np.int64), np.empty(total, np.int64), np.zeros(total, np.bool_))
        self.value = Pieces(np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.bool_))
        rows = np.flatnonzero(self.count)
        step = 0
        while rows.size:
            slot = self.first[rows] + step
            key = sized(data, self.end[rows])
            value = sized(data, np.where(key.null, LOST, key.end))
            self.key.start[slot], self.key.end[slot] = key.start, key.end
            self.value.start[slot], self.value.end[slot], self.value.null[slot] = value.start, value.end, value.null
            self.end[rows] = value.end
            step += 1
            rows = rows[self.count[rows] > step]

    def empty(self, which: Bools) -> None:
        slots = np.repeat(which, self.count)
        self.key.empty(slots)
        self.value.empty(slots)
