"""Acquired and acknowledged ranges of share partitions as columns, and which partitions are plain.

In a plain partition, acquired ranges follow one another without gap or overlap. Each is acknowledged as the same range
or not at all, later, and by the member that acquired it. So few offsets are in flight that no fetch waits for them. A
task with a part of the rows joins ranges that match or follow one another (`joined`), so that few remain for the task
with all rows (`not_plain`). Other partitions are checked range by range (kshark_spark.screen.records).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Truths = NDArray[np.bool_]

#: Stands for a packet: the range was not acquired, or not acknowledged.
NONE: Final = -1
#: Limits for numbers that share 64 bits: offsets of a partition and packets, and the number of partitions. Larger
#: numbers are odd.
_BELOW: Final = 1 << 40
_PARTITIONS: Final = 1 << 22


class Pieces(NamedTuple):
    """Ranges of offsets of partitions by `key`; a row may join several plain ranges that follow one another.

    `member`: that of the first range. `acquired`: the earliest packet with an acquisition. `acknowledged`: the last
    packet with an acknowledgement. `least`, `most`: lock timeouts. In an `odd` partition, other columns are undefined.
    """

    group: Int64s
    key: Int64s
    member: Int64s
    first: Int64s
    last: Int64s
    acquired: Int64s
    acknowledged: Int64s
    least: Int64s
    most: Int64s
    odd: Truths

    @classmethod
    def of(cls, columns: Iterable[Any]) -> Pieces:
        return cls(*columns)

    def at(self, rows: Int64s | Truths) -> Pieces:
        return self.of(column[rows] for column in self)


def together(parts: Sequence[Pieces]) -> Pieces:
    return Pieces.of(np.concatenate(columns) for columns in zip(*parts, strict=True))


def step_of(window: int) -> int:
    """Return the step: pieces that begin within 2^step offsets are joined.

    `window`: number of offsets in flight that may delay a fetch.
    """
    return max(0, (window // 4).bit_length() - 1)


def joined(pieces: Pieces, step: int) -> Pieces:
    """Join pieces that match or follow one another; the result is sorted by partition and offset."""
    if not len(pieces.key):
        return pieces
    outside = (pieces.first < 0) | (pieces.last < pieces.first)
    rows = pieces._replace(odd=pieces.odd | outside).at(np.lexsort((pieces.first, pieces.key)))
    odd = rows.odd | _unmatched(rows)
    bad = np.isin(rows.key, np.unique(rows.key[odd])) if odd.any() else odd
    rows = _reduced(rows._replace(odd=bad), ~(_same(rows.key) & (bad | _same(rows.first))))
    whole = (rows.acquired != NONE) & (rows.acknowledged != NONE) & ~rows.odd
    follows = _same(rows.key) & _same(rows.first >> step) & whole
    follows[1:] &= whole[:-1] & (rows.first[1:] == rows.last[:-1] + 1)
    return _reduced(rows, ~follows)


def _unmatched(rows: Pieces) -> Truths:
    """Return rows with the same first offset that are not one acquisition and its later acknowledgement."""
    same = _same(rows.key) & _same(rows.first)
    odd = np.zeros(len(same), np.bool_)
    at = np.flatnonzero(same)
    former, latter = (
        [column[rows_] for column in (rows.acquired, rows.acknowledged, rows.last, rows.member)]
        for rows_ in (at - 1, at)
    )
    acquired, acknowledged = (
        (np.minimum(former[kind], latter[kind]), np.maximum(former[kind], latter[kind])) for kind in (0, 1)
    )
    once = (acquired[0] == NONE) & (acknowledged[0] == NONE) & (acquired[1] != NONE) & (acknowledged[1] > acquired[1])
    is_match = once & (former[2] == latter[2]) & (former[3] == latter[3])
    odd[at] = ~is_match | same[at - 1]
    return odd


def _same(column: Int64s) -> Truths:
    """Return, for each row, true if it equals the previous row."""
    same = np.zeros(len(column), np.bool_)
    same[1:] = column[1:] == column[:-1]
    return same


def _reduced(rows: Pieces, begins: Truths) -> Pieces:
    """Join each row that `begins` a piece with the following rows up to the next one."""
    at = np.flatnonzero(begins)
    ends = np.append(at[1:], len(begins)) - 1
    whole = np.where(
        rows.acquired == NONE, np.iinfo(np.int64).max, rows.acquired
    )  # a pair is two rows: acquisition and acknowledgement
    acquired = np.minimum.reduceat(whole, at)
    return Pieces(
        rows.group[at],
        rows.key[at],
        rows.member[at],
        rows.first[at],
        rows.last[ends],
        np.where(acquired == np.iinfo(np.int64).max, NONE, acquired),
        np.maximum.reduceat(rows.acknowledged, at),
        np.minimum.reduceat(rows.least, at),
        np.maximum.reduceat(rows.most, at),
        np.logical_or.reduceat(rows.odd, at),
    )


def not_plain(pieces: Pieces, window: int) -> tuple[Pieces, Truths]:
    """Return a row for each partition, and whether it is not plain; `pieces` are all pieces of each, `joined`."""
    if not len(pieces.key):
        return pieces, pieces.odd
    step = step_of(window)
    begins = ~_same(pieces.key)
    at = np.flatnonzero(begins)
    of = np.cumsum(begins) - 1
    apart = ~begins
    apart[1:] &= pieces.first[1:] != pieces.last[:-1] + 1
    beyond = np.maximum.reduce((pieces.first - pieces.first[at][of], pieces.acquired, pieces.acknowledged)) >= _BELOW
    odd = pieces.odd | (pieces.acquired == NONE) | apart | beyond
    left = np.where(pieces.acknowledged == NONE, pieces.first, np.iinfo(np.int64).max)
    partitions = _reduced(pieces._replace(odd=odd), begins)
    held_up = np.minimum.reduceat(left, at) <= partitions.last - window + 1
    odd = partitions.odd | held_up | (len(at) >= _PARTITIONS)
    rest = ~odd[of]
    late = _late(of[rest], pieces.first[rest] >> step, pieces.at(rest), (window // 2) >> step)
    odd[late] = True
    return partitions, odd


def _late(of: Int64s, steps: Int64s, pieces: Pieces, far: int) -> Int64s:
    """Return partitions with an acquisition before the acknowledgement of a piece that begins `far` steps earlier."""
    if not len(of):
        return of
    steps = steps - steps[np.flatnonzero(~_same(of))][np.cumsum(~_same(of)) - 1]
    # a value of another partition is out of range here
    latest = np.maximum.accumulate(of * _BELOW + pieces.acknowledged + 1)
    before = np.searchsorted(of * _BELOW + steps, of * _BELOW + steps - far, "right") - 1
    return np.unique(of[(before >= 0) & (latest[before] > of * _BELOW + pieces.acquired + 1)])
