"""Numbers for groups, members and partitions in tasks that read columns themselves (kshark_spark.slices).

Numbers of groups and members equal those of kshark_spark.screen.keys. This is Spark's xxhash64 (XXH64 with the previous
hash as seed); here it hashes only the distinct names, not every row.
"""

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
    """Return the number of the names of each row. The columns have the same dictionary in all chunks."""
    codes, values = coded(*names)
    return values[codes]


def coded(*names: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
    """Return an index for each row into an array of distinct numbers, and that array."""
    codes, combinations = distinct(*names)
    return codes, np.array([xxhash64(*words) for words in combinations], np.int64)


def distinct(*columns: pa.ChunkedArray) -> tuple[Int64s, list[tuple[Any, ...]]]:
    """Return an index for each row into a list of distinct combinations of these columns, and that list."""
    codes, combinations = np.zeros(len(columns[0]), np.int64), [tuple[Any, ...]()]
    for column in columns:
        array = column.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        own = [*array.dictionary.to_pylist(), None]
        encoded = pa.array(codes * len(own) + cells(array.indices, len(own) - 1)).dictionary_encode()
        codes = cells(encoded.indices, 0)
        combinations = [
            (*combinations[code // len(own)], own[code % len(own)]) for code in encoded.dictionary.to_pylist()
        ]
    return codes, combinations


def cells(column: pa.Array | pa.ChunkedArray, null: int) -> Int64s:
    """Return a column of numbers or booleans as integers; nulls become `null`."""
    return np.asarray(column.cast(pa.int64()).fill_null(null).to_numpy(zero_copy_only=False), np.int64)


def mixed(*columns: Int64s) -> Int64s:
    """Mix several numbers of each row to one number."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes ^= column.view(np.uint64)
        for shift, factor in ((30, _P1), (27, _P2)):
            hashes ^= hashes >> np.uint64(shift)
            hashes *= np.uint64(factor)
        hashes ^= hashes >> np.uint64(31)
    return hashes.view(np.int64)


@lru_cache(1 << 16)
def xxhash64(*words: str | None) -> int:
    """Hash words as Spark SQL's function xxhash64 does."""
    digest = _SEED
    for word in words:
        if word is not None:
            digest = _xxh64(word.encode(), digest)
    return digest - (1 << 64) if digest >> 63 else digest


def _xxh64(data: bytes, seed: int) -> int:
    at, length = 0, len(data)
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= length:
            lanes = [_round(lane, _word(data, at + 8 * number, 8)) for number, lane in enumerate(lanes)]
            at += 32
        digest = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            digest = (digest ^ _round(0, lane)) * _P1 + _P4 & _BITS
    else:
        digest = seed + _P5
    digest = digest + length & _BITS
    for size, mix in _TAIL:
        while at + size <= length:
            digest = mix(digest, _word(data, at, size))
            at += size
    for shift, factor in ((33, _P2), (29, _P3)):
        digest = (digest ^ digest >> shift) * factor & _BITS
    return digest ^ digest >> 32


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(number: int, by: int) -> int:
    number &= _BITS
    return (number << by | number >> 64 - by) & _BITS


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _BITS


_TAIL: Final[tuple[tuple[int, Callable[[int, int], int]], ...]] = (
    (8, lambda digest, word: _rotated(digest ^ _round(0, word), 27) * _P1 + _P4 & _BITS),
    (4, lambda digest, word: _rotated(digest ^ word * _P1 & _BITS, 23) * _P2 + _P3 & _BITS),
    (1, lambda digest, word: _rotated(digest ^ word * _P5 & _BITS, 11) * _P1 & _BITS),
)
