"""What was handed out of share partitions and what was taken back, as columns: which partitions are plain.

Plain are those whose handed out ranges follow one another without hole or overlap, each acknowledged by the same range
or not at all, by the member that it was handed to and afterwards; and of which so few offsets are in flight that no
fetch waits for them. Whoever has a part of the rows can put those together that match, and those that follow one
another (`joined`), so that few are left for who has all (`not_plain`). All others are looked at one range after the
other (kshark_spark.screen.records)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Truths = NDArray[np.bool_]

#: In the place of a packet: the range was not handed out, or not taken.
NONE: Final = -1
#: Offsets of a partition, and packets, are numbers below it; there are fewer partitions than numbers that fit besides.
#: What is not, is odd.
_BELOW: Final = 1 << 40
_PARTITIONS: Final = 1 << 22


class Pieces(NamedTuple):
    """Ranges of offsets, or several that are plain and follow one another, of partitions by `key`; `member` is that of
    the first.

    `handed` is the earliest packet with which one was handed out, `taken` the latest with which one was acknowledged;
    `least` and `most` are the lock timeouts. Of an `odd` partition all else may be anything."""

    group: Int64s
    key: Int64s
    member: Int64s
    first: Int64s
    last: Int64s
    handed: Int64s
    taken: Int64s
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
    """Pieces that begin within 2^step offsets become one; `window`: so many offsets in flight may keep a fetch
    waiting."""
    return max(0, (window // 4).bit_length() - 1)


def joined(pieces: Pieces, step: int) -> Pieces:
    """The same of fewer pieces, sorted by partition and offset."""
    if not len(pieces.key):
        return pieces
    outside = (pieces.first < 0) | (pieces.last < pieces.first)
    rows = pieces._replace(odd=pieces.odd | outside).at(np.lexsort((pieces.first, pieces.key)))
    odd = rows.odd | _unmatched(rows)
    bad = np.isin(rows.key, np.unique(rows.key[odd])) if odd.any() else odd
    rows = _reduced(rows._replace(odd=bad), ~(_same(rows.key) & (bad | _same(rows.first))))
    whole = (rows.handed != NONE) & (rows.taken != NONE) & ~rows.odd
    follows = _same(rows.key) & _same(rows.first >> step) & whole
    follows[1:] &= whole[:-1] & (rows.first[1:] == rows.last[:-1] + 1)
    return _reduced(rows, ~follows)


def _unmatched(rows: Pieces) -> Truths:
    """Of several rows with one beginning those that are not once handed out and later taken by who has them."""
    same = _same(rows.key) & _same(rows.first)
    odd = np.zeros(len(same), np.bool_)
    at = np.flatnonzero(same)
    one, two = (
        [column[rows_] for column in (rows.handed, rows.taken, rows.last, rows.member)] for rows_ in (at - 1, at)
    )
    handed, taken = ((np.minimum(one[kind], two[kind]), np.maximum(one[kind], two[kind])) for kind in (0, 1))
    once = (handed[0] == NONE) & (taken[0] == NONE) & (handed[1] != NONE) & (taken[1] > handed[1])
    is_match = once & (one[2] == two[2]) & (one[3] == two[3])
    odd[at] = ~is_match | same[at - 1]
    return odd


def _same(column: Int64s) -> Truths:
    """Whether a row has what the one before has."""
    same = np.zeros(len(column), np.bool_)
    same[1:] = column[1:] == column[:-1]
    return same


def _reduced(rows: Pieces, begins: Truths) -> Pieces:
    """Rows put together with all behind them until another one begins."""
    at = np.flatnonzero(begins)
    ends = np.append(at[1:], len(begins)) - 1
    whole = np.where(
        rows.handed == NONE, np.iinfo(np.int64).max, rows.handed
    )  # a pair is two rows, of which one was handed out
    handed = np.minimum.reduceat(whole, at)
    return Pieces(
        rows.group[at],
        rows.key[at],
        rows.member[at],
        rows.first[at],
        rows.last[ends],
        np.where(handed == np.iinfo(np.int64).max, NONE, handed),
        np.maximum.reduceat(rows.taken, at),
        np.minimum.reduceat(rows.least, at),
        np.maximum.reduceat(rows.most, at),
        np.logical_or.reduceat(rows.odd, at),
    )


def not_plain(pieces: Pieces, window: int) -> tuple[Pieces, Truths]:
    """A row for each partition, and whether it is not plain; `pieces` are all there are of each, `joined`."""
    if not len(pieces.key):
        return pieces, pieces.odd
    step = step_of(window)
    begins = ~_same(pieces.key)
    at = np.flatnonzero(begins)
    of = np.cumsum(begins) - 1
    apart = ~begins
    apart[1:] &= pieces.first[1:] != pieces.last[:-1] + 1
    beyond = np.maximum.reduce((pieces.first - pieces.first[at][of], pieces.handed, pieces.taken)) >= _BELOW
    odd = pieces.odd | (pieces.handed == NONE) | apart | beyond
    left = np.where(pieces.taken == NONE, pieces.first, np.iinfo(np.int64).max)
    partitions = _reduced(pieces._replace(odd=odd), begins)
    held_up = np.minimum.reduceat(left, at) <= partitions.last - window + 1
    found = partitions.odd | held_up | (len(at) >= _PARTITIONS)
    rest = ~found[of]
    late = _late(of[rest], pieces.first[rest] >> step, pieces.at(rest), (window // 2) >> step)
    found[late] = True
    return partitions, found


def _late(of: Int64s, steps: Int64s, pieces: Pieces, far: int) -> Int64s:
    """The partitions in which something was handed out before all was taken that begins so many steps before."""
    if not len(of):
        return of
    steps = steps - steps[np.flatnonzero(~_same(of))][np.cumsum(~_same(of)) - 1]
    latest = np.maximum.accumulate(of * _BELOW + pieces.taken + 1)  # what is of another partition is none of this one
    before = np.searchsorted(of * _BELOW + steps, of * _BELOW + steps - far, "right") - 1
    return np.unique(of[(before >= 0) & (latest[before] > of * _BELOW + pieces.handed + 1)])
