"""Counts and latencies in blocks: parts of a capture with equally many packets.

A block is found by the packet's number, so that steps of the clock do not matter. Blocks show whether something
happens all the time or once: kshark.diff.chance needs that."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from kshark import limits
from kshark.analysis.results.histograms import Histograms

#: Most blocks of a capture; with more packets each gets twice as wide. At least half of them are in use.
BLOCKS: Final = 64

#: Of each block: the number of occurrences, and how many there could have been.
Series = list[tuple[int, int]]


class BlockCounts:
    """Counts by key and block, in any order of the packets.

    Beyond limits.STATISTICS_ROWS no further keys are counted; `left_out` is the number of occurrences without one.
    """

    def __init__(self) -> None:
        self._counts: dict[Hashable, list[int]] = {}
        self._shift = 0
        self.left_out = 0

    def add(self, key: Hashable, packet: int, count: int = 1) -> None:
        block = packet >> self._shift
        while block >= BLOCKS:
            self._counts = {key: _joined(counts) for key, counts in self._counts.items()}
            self._shift += 1
            block = packet >> self._shift
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= limits.STATISTICS_ROWS:
                self.left_out += count
                return
            counts = self._counts[key] = [0] * BLOCKS
        counts[block] += count

    def total(self, *keys: Hashable) -> int:
        """Return the occurrences of these keys together."""
        return sum(sum(self._counts.get(key, ())) for key in keys)

    def keys(self, kind: str) -> list[tuple[Hashable, ...]]:
        """Return the keys that are tuples with this beginning, without it."""
        return [key[1:] for key in self._counts if isinstance(key, tuple) and key[0] == kind]

    def series(self, keys: Iterable[Hashable], of: Iterable[Hashable]) -> Series:
        """Return the occurrences of `keys`, and those of `of`, by block; blocks without any of the latter are left
        out, unless they have some of the former."""
        pairs = zip(self._sum(keys), self._sum(of), strict=True)
        return [(count, total) for count, total in pairs if count or total]

    def _sum(self, keys: Iterable[Hashable]) -> list[int]:
        rows = [self._counts[key] for key in keys if key in self._counts]
        return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * BLOCKS


def _joined(counts: list[int]) -> list[int]:
    return [counts[at] + counts[at + 1] for at in range(0, BLOCKS, 2)] + [0] * (BLOCKS // 2)


class BlockLatencies:
    """Durations in ns by API key and block."""

    def __init__(self) -> None:
        #: A row for each API and block: the API's number times BLOCKS, plus the block.
        self._histograms = Histograms()
        self._numbers: dict[int, int] = {}
        self._shift = 0

    def add(self, api_key: int, packet: int, ns: int) -> None:
        block = packet >> self._shift
        while block >= BLOCKS:
            self._widen()
            block = packet >> self._shift
        number = self._numbers.setdefault(api_key, len(self._numbers))
        self._histograms.add(number * BLOCKS + block, ns)

    def _widen(self) -> None:
        wider = Histograms()
        rows = [row - row % BLOCKS + row % BLOCKS // 2 for row in range(len(self._numbers) * BLOCKS)]
        if rows:
            wider.update(self._histograms, rows)
        self._histograms = wider
        self._shift += 1

    def percentiles(self, *percents: float) -> dict[int, tuple[int, list[int]]]:
        """Return the number of durations of each API, and its percentiles in ns."""
        whole = Histograms()
        rows = [row // BLOCKS for row in range(len(self._numbers) * BLOCKS)]
        if not rows:
            return {}
        whole.update(self._histograms, rows)
        measured = whole.percentiles(percents, self._numbers.values())
        return {api_key: measured[number] for api_key, number in self._numbers.items() if number in measured}

    def longer_than(self, api_key: int, ns: int) -> Series:
        """Return how many durations of an API are longer, and how many there are, by block."""
        first = self._numbers[api_key] * BLOCKS
        return self._histograms.longer_than(ns, range(first, first + BLOCKS))
