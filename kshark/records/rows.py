"""Some records of one buffer, field by field as columns. Source of the layout: Kafka class DefaultRecord.

Nothing is checked on the way: a damaged length leads to some position, gathers are clipped to the buffer, and a record fits if its last
field ends where the record does. What does not fit is emptied before Python's objects are made from it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshark.records.loop import VARINT, VARLONG
from kshark.records.slices import slices

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
UInt8s = NDArray[np.uint8]

#: Headers of one record that are read as columns.
MOST_HEADERS: Final = 64
#: A position behind every buffer: where damage leads to.
LOST: Final = 1 << 60
ZIGZAG: Final = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(128)], np.int64)


def signed(data: UInt8s, position: Int64s, longest: int) -> tuple[Int64s, Int64s]:
    """The zigzag varints at the positions, and where they end: LOST where one is longer than `longest` bytes."""
    byte = data.take(position, mode="clip")
    position = position + 1
    if byte.max() < 0x80:
        return ZIGZAG.take(byte), position
    value = byte.astype(np.int64)
    more = np.flatnonzero(byte >= 0x80)
    value[more] &= 0x7F
    shift = 7
    while more.size:
        if shift == 7 * longest:
            position[more] = LOST
            break
        byte = data.take(position[more], mode="clip")
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        position[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    if longest == VARINT:
        value &= 0xFFFFFFFF
        return (value >> 1) ^ -(value & 1), position
    # The 64th bit is a sign to numpy: shifted in, it must be taken off again.
    return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position


class Rows:
    """Records from `begin` (their length) to `end`, at least one; `fit` tells which of them are what they say."""

    def __init__(self, data: UInt8s, begin: Int64s, end: Int64s) -> None:
        size, at = signed(data, begin, VARINT)
        self.timestamp_delta, at_offset = signed(data, at + 1, VARLONG)
        self.offset_delta, at_key = signed(data, at_offset, VARINT)
        self.key = Sized(data, at_key)
        self.value = Sized(data, self.key.end)
        count, at_headers = signed(data, self.value.end, VARINT)
        self.headers: HeaderRows | None = HeaderRows(data, count, at_headers, end) if count.any() else None
        self.fit: Bools = (at + size == end) & ((self.headers.end if self.headers else at_headers) == end)
        if not self.fit.all():
            self.key.empty(~self.fit)
            self.value.empty(~self.fit)
            if self.headers:
                self.headers.empty(~self.fit)


class Sized:
    """Bytes behind their length, of many records: `start` to `end`, `null` where the length is negative."""

    __slots__ = ("end", "null", "size", "start")

    def __init__(self, data: UInt8s, position: Int64s) -> None:
        self.size, self.start = signed(data, position, VARINT)
        self.null = self.size < 0
        self.end = self.start + np.maximum(self.size, 0)

    def empty(self, which: Bools) -> None:
        self.start[which] = 0
        self.end[which] = 0

    def contents(self, buffer: bytes) -> list[bytes | None]:
        if self.null.all():
            return [None] * len(self.null)
        out: list[bytes | None] = [*slices(buffer, self.start, self.end)]
        for i in np.flatnonzero(self.null).tolist():
            out[i] = None
        return out

    def sizes(self) -> list[int | None]:
        out: list[int | None] = self.size.tolist()
        for i in np.flatnonzero(self.null).tolist():
            out[i] = None
        return out


class HeaderRows:
    """The headers of records, all first ones in one step, then all second ones; `count` of record i begin at slot `first[i]`."""

    def __init__(self, data: UInt8s, count: Int64s, position: Int64s, end: Int64s) -> None:
        wrong = (count < 0) | (count > MOST_HEADERS)
        self.end = np.where(wrong, LOST, position)
        self.count = np.where(wrong, 0, count)
        self.first = np.cumsum(self.count) - self.count
        total = int(self.count.sum())
        self.key, self.key_end, self.value, self.value_end = np.empty((4, total), np.int64)
        rows = np.flatnonzero(self.count)
        step = 0
        while rows.size:
            slot = self.first[rows] + step
            key = Sized(data, self.end[rows])
            value = Sized(data, np.where(key.null, LOST, key.end))
            self.key[slot], self.key_end[slot] = key.start, key.end
            self.value[slot], self.value_end[slot] = value.start, np.where(value.null, -1, value.end)
            self.end[rows] = value.end
            step += 1
            rows = rows[self.count[rows] > step]

    def empty(self, which: Bools) -> None:
        slots = np.repeat(which, self.count)
        for column in (self.key, self.key_end, self.value, self.value_end):
            column[slots] = 0
