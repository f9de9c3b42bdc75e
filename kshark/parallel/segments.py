"""Split segments into shares by their endpoints, and pack them into bytes: one piece per share and batch.

All segments between the same two endpoints go to the same share, so that a reused port, a late segment and a copy reach
their connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kshark.link.columns import KEY_WORDS
from kshark.link.ends import EndsTable
from kshark.model import Segments

if TYPE_CHECKING:
    from kshark.link.columns import Words
    from kshark.model import Int64s

#: Columns of a piece with a value for each segment, in packing order; sequence numbers have 32 bits.
_COLUMNS: Final = (
    ("packet", "<i8"), ("time_ns", "<i8"), ("seq", "<u4"), ("ack", "<u4"), ("flags", "u1"), ("length", "<u4"),
)  # fmt: skip
#: Columns that most pieces omit: the default clock is the time, of `missing` 0, and of `window` one that is not zero.
_RARE: Final = (("clock_ns", "<i8"), ("missing", "<u4"), ("window", "<u2"))
#: Multipliers that mix bits, the same in every process (Steele, Lea and Flood, 2014: SplitMix64).
_MIX: Final = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_SHIFTS: Final = np.array([30, 27, 31, 3, 16], np.uint64)
_PORT: Final = np.uint64(0xFFFF)


class Piece(NamedTuple):
    """Segments of one batch and share: their number, their columns, and their concatenated payload."""

    segments: int
    columns: bytes
    payload: bytes


def split_into_shares(segments: Segments, ends: EndsTable, shares: int) -> Iterator[tuple[int, Piece]]:
    """Yield the number of a share and its piece of the batch, for each share with segments."""
    paths, of = np.unique(segments.path, return_inverse=True)
    keys = ends.keys(paths)
    share = _share(keys, shares)[of]
    order = np.argsort(share, kind="stable")
    edges = np.searchsorted(share[order], np.arange(shares + 1))
    for number in np.flatnonzero(edges[1:] > edges[:-1]).tolist():
        yield number, _pack(segments, order[edges[number] : edges[number + 1]], keys, of)


def _share(keys: Words, shares: int) -> Int64s:
    """Return the share of each pair of endpoints, the same for both directions."""
    ports = keys[4] & _PORT, keys[4] >> _SHIFTS[4] & _PORT
    with np.errstate(over="ignore"):
        ends = (
            _mixed(keys[at] + (_mixed(keys[at + 1] + port) << _SHIFTS[3]))
            for at, port in zip((0, 2), ports, strict=True)
        )
        number: Int64s = (_mixed(next(ends) + next(ends)) % np.uint64(shares)).astype(np.int64)
    return number


def _mixed(words: Words) -> Words:
    words = (words ^ words >> _SHIFTS[0]) * _MIX[0]
    words = (words ^ words >> _SHIFTS[1]) * _MIX[1]
    mixed: Words = words ^ words >> _SHIFTS[2]
    return mixed


def _pack(segments: Segments, rows: Int64s, keys: Words, of: Int64s) -> Piece:
    """Pack rows of the batch; the keys are in the order of their first row."""
    used, first, position = np.unique(of[rows], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    given = {name: getattr(segments, name)[rows] for name, _ in _COLUMNS + _RARE}
    rare = {
        "clock_ns": bool((given["clock_ns"] != given["time_ns"]).any()),
        "missing": bool(given["missing"].any()),
        "window": not given["window"].all(),
    }
    parts = [
        np.array([len(used), *rare.values()], "<u4").tobytes(),
        keys[:, used[order]].astype("<u8").tobytes(),
        rank[position].astype("<u4").tobytes(),
        *(given[name].astype(form).tobytes() for name, form in _COLUMNS + _RARE if rare.get(name, True)),
    ]
    loaded = np.flatnonzero(given["length"])
    start = segments.offset[rows[loaded]]
    stop = start + given["length"][loaded]
    buffer = segments.buffer
    payload = b"".join([buffer[a:z] for a, z in zip(start.tolist(), stop.tolist(), strict=True)])
    return Piece(len(rows), b"".join(parts), payload)


def unpack(pieces: Sequence[Piece], ends: EndsTable) -> Segments:
    """Return the segments of several pieces in their order; `ends` numbers the endpoint pairs of this share."""
    parts = [_columns(piece, ends) for piece in pieces]
    given = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    signed = {name: column.astype(np.int64) for name, column in given.items() if name != "flags"}
    length = signed["length"]
    payload = b"".join([piece.payload for piece in pieces]) if len(pieces) > 1 else pieces[0].payload
    return Segments(buffer=payload, ends=ends, flags=given["flags"], offset=np.cumsum(length) - length, **signed)


def _columns(piece: Piece, ends: EndsTable) -> dict[str, Any]:
    """Return the columns of a piece by name."""
    count, columns, _ = piece
    at = 0

    def read(form: str, size: int) -> Any:
        nonlocal at
        column = np.frombuffer(columns, form, size, at)
        at += column.nbytes
        return column

    used, with_clock, with_missing, with_window = read("<u4", 4).tolist()
    paths = ends.paths(read("<u8", KEY_WORDS * used).reshape(KEY_WORDS, used).astype(np.uint64))
    given = {"path": paths[read("<u4", count)]} | {name: read(form, count) for name, form in _COLUMNS}
    given["clock_ns"] = read("<i8", count) if with_clock else given["time_ns"]
    given["missing"] = read("<u4", count) if with_missing else np.zeros(count, "<u4")
    given["window"] = read("<u2", count) if with_window else np.ones(count, "<u2")
    return given
