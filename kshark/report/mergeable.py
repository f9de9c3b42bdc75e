"""Counts that can be made in parts: the sum of the parts does not depend on how events were divided.

Each class adds the counts of another object by `update`, like `collections.Counter`. Limits are applied by rules that
depend only on the whole, not on the order of events: which keys, which time, which packets, never "first come".
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from zlib import crc32

#: The shortest width of a bin in nanoseconds, about a millisecond; a width is this times a power of two.
SHORTEST_NS: Final = 1 << 20
#: The longest width; with it there is only one bin.
LONGEST_NS: Final = 1 << 60

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Mergeable(Protocol):
    """An object that can add the counts of another one."""

    def update(self, other: Self, /) -> None:
        """Add the other's counts."""


M = TypeVar("M", bound=Mergeable)


class Keyed(defaultdict[K, M]):
    """A separate mergeable object for each key."""

    def update(self, other: Any, /) -> None:
        for key, value in other.items():
            self[key].update(value)


class Counts(Counter[K]):
    """A count for each key, up to a limit; other keys are counted in `others`.

    Beyond the limit the keys with the smallest digests are kept, so that no key is preferred.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: The counts of keys that are not kept.
        self.others = 0
        super().__init__()

    def __reduce__(self) -> Any:
        return _counts, (self._limit, self.others, dict(self))

    def add(self, key: K, count: int = 1) -> None:
        self[key] += count
        if len(self) > 2 * self._limit:
            self.bound()

    def update(self, other: Any = (), /, **_: int) -> None:
        super().update(other)
        self.others += getattr(other, "others", 0)
        if len(self) > 2 * self._limit:
            self.bound()

    def bound(self) -> None:
        """Keep as many keys as the limit allows."""
        if len(self) > self._limit:
            kept = set(heapq.nsmallest(self._limit, self, key=digest))
            for key in [key for key in self if key not in kept]:
                self.others += self.pop(key)


def _counts(limit: int, others: int, counted: dict[Any, int]) -> Counts[Any]:
    made = Counts[Any](limit)
    made.others = others
    dict.update(made, counted)
    return made


def digest(key: Any) -> tuple[int, str]:
    """Return a number that is unrelated to the key's meaning, and the same in every process."""
    text = repr(key)
    return crc32(text.encode("utf-8", "backslashreplace")), text


class Firsts(Generic[K, V]):
    """The first values of each key by a sort key: as many of each key as fit a limit of all values together.

    Keys with few values keep all of them, and every key at least one. `quota` is the number of values that every other
    key keeps, None before the limit was reached. The quota of a part is never below the quota of the whole, so a part
    keeps all that is needed.
    """

    def __init__(self, limit: int, order: Callable[[V], Any]) -> None:
        self._limit, self._order = limit, order
        self._values: defaultdict[K, list[V]] = defaultdict(list)
        self._count = 0
        self._quota: int | None = None

    def add(self, key: K, value: V) -> None:
        self._values[key].append(value)
        self._count += 1
        if self._count > 2 * self._limit:
            self._bound()

    def update(self, other: Firsts[K, V], /) -> None:
        for key, values in other._values.items():
            self._values[key] += values
        self._count += other._count
        if other._quota is not None:
            self._lower(other._quota)
        if self._count > 2 * self._limit:
            self._bound()

    def __getitem__(self, key: K) -> list[V]:
        """Return the kept values of a key, in their order."""
        self._bound()
        return self._values.get(key, [])

    def _bound(self) -> None:
        counts = [len(values) for values in self._values.values()]
        if self._count > self._limit:
            self._lower(max(1, _quota(counts, self._limit)))
        for values in self._values.values():
            values.sort(key=self._order)
            if self._quota is not None:
                del values[self._quota :]
        self._count = sum(map(len, self._values.values()))

    def _lower(self, quota: int) -> None:
        self._quota = quota if self._quota is None else min(self._quota, quota)


def _quota(counts: Iterable[int], limit: int) -> int:
    """Return the largest number q for which the sum of min(count, q) is within the limit.

    >>> _quota([1, 5, 9], 9)
    4
    """
    left = limit
    ordered = sorted(counts)
    for number, count in enumerate(ordered):
        share = left // (len(ordered) - number)
        if count > share:
            return share
        left -= count
    return ordered[-1] if ordered else 0


class Bins:
    """Counts by time and name; all bins have one width, as narrow as the limit of cells allows."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.width_ns = SHORTEST_NS
        #: By the start of the bin, a multiple of the width, and the name.
        self.cells: Counter[tuple[int, Any]] = Counter()

    def add(self, time_ns: int, name: Any, count: int = 1) -> None:
        self.cells[time_ns - time_ns % self.width_ns, name] += count
        self._bound()

    def update(self, other: Bins, /) -> None:
        self._widen(other.width_ns)
        for (begin_ns, name), count in other.cells.items():
            self.cells[begin_ns - begin_ns % self.width_ns, name] += count
        self._bound()

    def _bound(self) -> None:
        while len(self.cells) > self._limit and self.width_ns < LONGEST_NS:
            self._widen(2 * self.width_ns)

    def _widen(self, width_ns: int) -> None:
        if width_ns > self.width_ns:
            cells, self.cells, self.width_ns = self.cells, Counter(), width_ns
            for (begin_ns, name), count in cells.items():
                self.cells[begin_ns - begin_ns % width_ns, name] += count


class Sample(Generic[K, V]):
    """A sample of values: all while there is room, then those of every second packet, every fourth, and so on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: Values of one in 2**thinned packets are kept.
        self.thinned = 0
        self._values: list[tuple[int, K, V]] = []

    def add(self, packet: int, key: K, value: V) -> None:
        if not self._takes(packet):
            return
        self._values.append((packet, key, value))
        self._bound()

    def update(self, other: Sample[K, V], /) -> None:
        self.thinned = max(self.thinned, other.thinned)
        self._values = [entry for entry in (*self._values, *other._values) if self._takes(entry[0])]
        self._bound()

    def of(self, keys: set[K]) -> dict[K, list[V]]:
        """Return the kept values of these keys, in the order of their packets."""
        values: dict[K, list[V]] = {key: [] for key in keys}
        for _, key, value in sorted(self._values, key=lambda entry: entry[0]):
            if key in values:
                values[key].append(value)
        return values

    def _takes(self, packet: int) -> bool:
        # a multiplicative hash: requests come at regular packet distances, so plain `packet % n` would be biased
        return (packet * 2_654_435_761 >> 11) % (1 << self.thinned) == 0

    def _bound(self) -> None:
        while len(self._values) > self._limit and self.thinned < 32:
            self.thinned += 1
            self._values = [entry for entry in self._values if self._takes(entry[0])]
