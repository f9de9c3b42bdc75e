"""Offset ranges of a partition, each with a value."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Ranged(NamedTuple, Generic[Value]):
    """The offsets from `first` to `last`, both included."""

    first: int
    last: int
    value: Value

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class OffsetRanges(Generic[Value]):
    """Disjoint ranges in the order of their offsets. Other offsets have no value.

    Neighbours with the identical value are one range. A range costs about 120 bytes plus the value; a lookup takes
    logarithmic time. Ranges with `first` above `last` hold no offset and change nothing.
    """

    __slots__ = ("_firsts", "_gapless", "_lasts", "_values")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[Value] = []
        #: Result of the last `is_gapless`: all offsets from the first up to the second, which is excluded, had a value.
        self._gapless: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Ranged[Value]]:
        return map(_ranged, zip(self._firsts, self._lasts, self._values, strict=True))

    @property
    def first(self) -> int | None:
        """The lowest offset that has a value."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The highest offset that has a value."""
        return self._lasts[-1] if self._lasts else None

    def at(self, offset: int) -> Value | None:
        """Return the value of an offset, or None."""
        index = bisect_left(self._lasts, offset)
        return self._values[index] if index < len(self._firsts) and self._firsts[index] <= offset else None

    def is_whole(self, first: int, last: int, value: Value) -> bool:
        """True if one range with this identical value contains all offsets between two."""
        at = bisect_left(self._lasts, first)
        return (
            at < len(self._lasts)
            and self._values[at] is value
            and self._firsts[at] <= first
            and last <= self._lasts[at]
        )

    def passed(self, offset: int, test: Callable[[Value], bool]) -> int:
        """Return the first offset, from this one on, that has no value or a value that fails the test."""
        firsts, lasts, values = self._firsts, self._lasts, self._values
        at, count = bisect_left(lasts, offset), len(lasts)
        while at < count and firsts[at] <= offset and test(values[at]):
            offset = lasts[at] + 1
            at += 1
        return offset

    def range_from(self, offset: int) -> Ranged[Value] | None:
        """Return the whole range that contains an offset, or else the next one."""
        index = bisect_left(self._lasts, offset)
        return (
            Ranged(self._firsts[index], self._lasts[index], self._values[index]) if index < len(self._firsts) else None
        )

    def ranges_from(self, offset: int, most: int) -> list[Ranged[Value]]:
        """Return at most `most` ranges from an offset on. The first one is cut at this offset."""
        at = bisect_left(self._lasts, offset)
        return self.over(offset, self._lasts[min(at + most, len(self._lasts)) - 1]) if at < len(self._lasts) else []

    def count_from(self, offset: int) -> int:
        """Return the number of ranges that contain an offset or are above it."""
        return len(self._lasts) - bisect_left(self._lasts, offset)

    def over(self, first: int, last: int) -> list[Ranged[Value]]:
        """Return the ranges between two offsets, cut at these offsets."""
        firsts, lasts, values = self._firsts, self._lasts, self._values
        if not lasts or first > lasts[-1]:
            return []  # usual: after all ranges
        at, count = bisect_left(lasts, first), len(lasts)
        if firsts[at] <= first <= last <= lasts[at]:
            return [_ranged((first, last, values[at]))]  # usual: all in one range
        ranges: list[Ranged[Value]] = []
        while at < count and (begin := firsts[at]) <= last and first <= last:
            end = lasts[at]
            ranges.append(_ranged((first if begin < first else begin, last if end > last else end, values[at])))
            at += 1
        return ranges

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges between two offsets that have no value."""
        firsts, lasts = self._firsts, self._lasts
        missing, begin = [], first
        at, count = bisect_left(lasts, first), len(lasts)
        while begin <= last:
            end = firsts[at] - 1 if at < count and firsts[at] <= last else last
            if begin <= end:
                missing.append((begin, end))
            begin = lasts[at] + 1 if at < count else last + 1
            at += 1
        return missing

    def is_gapless(self) -> bool:
        """True if all offsets between the lowest and the highest have a value.

        Checks only offsets added since the last call.
        """
        if not self._firsts:
            return True
        lowest = self._firsts[0]
        first, gap = self._gapless or (lowest, lowest)
        if lowest < first and (missing := self.gaps(lowest, first - 1)):
            gap = missing[0][0]
        gap = self.passed(max(gap, lowest), _any)
        self._gapless = lowest, gap
        return gap > self._lasts[-1]

    def put(self, first: int, last: int, value: Value) -> None:
        """Give a value to all offsets between two."""
        if first > last:
            return
        firsts, lasts, values = self._firsts, self._lasts, self._values
        if lasts and first <= lasts[-1]:
            low, high = self._cut(first, last)
            if low + 1 != high or firsts[low] != first or lasts[low] != last:
                firsts[low:high], lasts[low:high], values[low:high] = [first], [last], [value]
            self._set(low, value)
        elif lasts and first == lasts[-1] + 1 and values[-1] is value:
            lasts[-1] = last
        else:  # usual: after all ranges
            firsts.append(first)
            lasts.append(last)
            values.append(value)

    def improve(self, first: int, last: int, value: Value, rank: Callable[[Value], Any]) -> None:
        """Give a value to the offsets between two that have no value, or one with a lower rank."""
        if not self._lasts or first > self._lasts[-1]:
            self.put(first, last, value)
            return
        low, high = self._cut(first, last)
        least, begin = rank(value), first
        pieces: list[tuple[int, int, Value]] = []
        for piece in zip(self._firsts[low:high], self._lasts[low:high], self._values[low:high], strict=True):
            if begin < piece[0]:
                pieces.append((begin, piece[0] - 1, value))
            pieces.append((piece[0], piece[1], value) if rank(piece[2]) < least else piece)
            begin = piece[1] + 1
        if begin <= last:
            pieces.append((begin, last, value))
        if pieces:
            self._firsts[low:high], self._lasts[low:high], self._values[low:high] = zip(*pieces, strict=True)
            self._join(low, low + len(pieces))

    def change(self, first: int, last: int, change: Callable[[Value, int, int], Value]) -> tuple[int, bool]:
        """Replace the values of the ranges between two offsets, in their order.

        `change` receives the value and both ends of each range. Return the number of offsets that had a value, and True
        if a value changed.
        """
        firsts, lasts, values = self._firsts, self._lasts, self._values
        low = bisect_left(lasts, first)
        if low < len(lasts) and firsts[low] <= first <= last <= lasts[low]:  # usual: all in one range
            before = values[low]
            value = change(before, first, last)
            if value is before:
                return last - first + 1, False
            if firsts[low] != first:
                low, _ = self._cut(first, last)
            elif lasts[low] != last:  # the head of a range
                firsts[low] = last + 1
                firsts.insert(low, first)
                lasts.insert(low, last)
                values.insert(low, before)
            self._set(low, value)
            return last - first + 1, True
        low, high = self._cut(first, last)
        size, changed = 0, False
        for at in range(low, high):
            size += lasts[at] - firsts[at] + 1
            before = values[at]
            values[at] = value = change(before, firsts[at], lasts[at])
            changed = changed or value is not before
        self._join(low, high)
        return size, changed

    def drop(self, first: int, last: int) -> None:
        """Remove the values of the offsets between two."""
        if not self._lasts or first > self._lasts[-1] or last < self._firsts[0]:
            return
        low, high = self._cut(first, last)
        del self._firsts[low:high], self._lasts[low:high], self._values[low:high]
        self._gapless = None

    def keep(self, most: int) -> None:
        """Remove the lowest ranges, so that at most `most` remain."""
        if (many := len(self._firsts) - most) > 0:
            self.forget(many)

    def forget(self, many: int) -> int:
        """Remove the lowest `many` ranges, at least one. Return the highest offset in them."""
        highest = self._lasts[many - 1]
        del self._firsts[:many], self._lasts[:many], self._values[:many]
        if self._gapless is not None:
            first, gap = self._gapless
            self._gapless = max(first, highest + 1), gap
        return highest

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def _cut(self, first: int, last: int) -> tuple[int, int]:
        """Cut ranges that cross two offsets. Return the indexes of the ranges between them."""
        firsts, lasts, values = self._firsts, self._lasts, self._values
        low, count = bisect_left(lasts, first), len(lasts)
        if first > last or low == count or firsts[low] > last:
            return low, low
        if firsts[low] < first:
            firsts.insert(low + 1, first)
            lasts.insert(low, first - 1)
            values.insert(low, values[low])
            low, count = low + 1, count + 1
        high = low + 1 if lasts[low] >= last else bisect_left(firsts, last + 1, low)
        if lasts[high - 1] > last:
            firsts.insert(high, last + 1)
            lasts.insert(high - 1, last)
            values.insert(high, values[high - 1])
        return low, high

    def _set(self, at: int, value: Value) -> None:
        """Replace the value of the range at an index."""
        values = self._values
        values[at] = value
        if (at and values[at - 1] is value) or (at + 1 < len(values) and values[at + 1] is value):
            self._join(at, at + 1)

    def _join(self, low: int, high: int) -> None:
        """Join neighbours in and around these indexes that have the identical value."""
        firsts, lasts, values = self._firsts, self._lasts, self._values
        for at in range(high if high < len(values) else high - 1, low - 1 if low else low, -1):
            if values[at - 1] is values[at] and lasts[at - 1] + 1 == firsts[at]:
                lasts[at - 1] = lasts[at]
                del firsts[at], lasts[at], values[at]


def _any(value: object) -> bool:
    return True


#: Creates the NamedTuple in C, in half the time of its own constructor, which is a Python function.
_ranged: Final[Callable[[tuple[int, int, Any]], Ranged[Any]]] = partial(tuple.__new__, Ranged)
