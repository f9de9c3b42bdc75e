"""Numbers for groups, members and partitions where tasks read columns themselves (kshark_spark.slices).

Those of groups and members are as in kshark_spark.screen.keys. That is Spark's xxhash64 (XXH64 with the hash before
as seed), of bytes here: a few names are hashed, and not each row's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_SEED: Final = 42
_BITS: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def numbers(*names: pa.ChunkedArray) -> Int64s:
    """Of each row the number of these names together, columns of dictionaries that are the same in all chunks."""
    codes, known = coded(*names)
    return known[codes]


def coded(*names: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
    """The same as a place in an array for each row, and that array: each number is there once."""
    codes, known = distinct(*names)
    return codes, np.array([xxhash64(*words) for words in known], np.int64)


def distinct(*columns: pa.ChunkedArray) -> tuple[Int64s, list[tuple[Any, ...]]]:
    """What is together in these columns, each once, and of each row its place there."""
    codes, known = np.zeros(len(columns[0]), np.int64), [tuple[Any, ...]()]
    for column in columns:
        array = column.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        own = [*array.dictionary.to_pylist(), None]
        encoded = pa.array(codes * len(own) + cells(array.indices, len(own) - 1)).dictionary_encode()
        codes = cells(encoded.indices, 0)
        known = [(*known[one // len(own)], own[one % len(own)]) for one in encoded.dictionary.to_pylist()]
    return codes, known


def cells(column: pa.Array | pa.ChunkedArray, null: int) -> Int64s:
    """A column of numbers, or of truths, with this one where there is none."""
    return np.asarray(column.cast(pa.int64()).fill_null(null).to_numpy(zero_copy_only=False), np.int64)


def mixed(*columns: Int64s) -> Int64s:
    """One number of several."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found ^= column.view(np.uint64)
        for shift, factor in ((30, _P1), (27, _P2)):
            found ^= found >> np.uint64(shift)
            found *= np.uint64(factor)
        found ^= found >> np.uint64(31)
    return found.view(np.int64)


@lru_cache(1 << 16)
def xxhash64(*words: str | None) -> int:
    """As the function of that name in Spark's SQL."""
    found = _SEED
    for word in words:
        if word is not None:
            found = _xxh64(word.encode(), found)
    return found - (1 << 64) if found >> 63 else found


def _xxh64(data: bytes, seed: int) -> int:
    at, length = 0, len(data)
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= length:
            lanes = [_round(lane, _word(data, at + 8 * number, 8)) for number, lane in enumerate(lanes)]
            at += 32
        found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ _round(0, lane)) * _P1 + _P4 & _BITS
    else:
        found = seed + _P5
    found = found + length & _BITS
    for size, mix in _TAIL:
        while at + size <= length:
            found = mix(found, _word(data, at, size))
            at += size
    for shift, factor in ((33, _P2), (29, _P3)):
        found = (found ^ found >> shift) * factor & _BITS
    return found ^ found >> 32


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(number: int, by: int) -> int:
    number &= _BITS
    return (number << by | number >> 64 - by) & _BITS


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _BITS


_TAIL: Final[tuple[tuple[int, Callable[[int, int], int]], ...]] = (
    (8, lambda found, word: _rotated(found ^ _round(0, word), 27) * _P1 + _P4 & _BITS),
    (4, lambda found, word: _rotated(found ^ word * _P1 & _BITS, 23) * _P2 + _P3 & _BITS),
    (1, lambda found, word: _rotated(found ^ word * _P5 & _BITS, 11) * _P1 & _BITS),
)
