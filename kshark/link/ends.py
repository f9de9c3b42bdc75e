"""Endpoint keys of segments to path numbers: who talks to whom, in which direction."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.limits import PAIRS
from kshark.link.columns import KEY_WORDS
from kshark.model import Ends

if TYPE_CHECKING:
    from kshark.link.columns import Words
    from kshark.model import Int64s

FORGOTTEN: Final = Ends("", "")
#: Slots of the quick table, as a power of two.
SLOTS: Final = 16
#: Odd constants that spread the key's words over the slots (Knuth, The Art of Computer Programming, 6.4).
SPREAD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63], np.uint64)


class EndsTable:
    """Numbers directed four-tuples: path >> 1 is the pair, an index into `ends`, path & 1 the side that sent.

    Nearly all segments find their path in a table of slots, checked in full as columns; the first one of a path, and what shares a slot, in
    a dict. Pairs not seen while `limit` new ones came are forgotten: their `ends` are emptied, and they get a new number when they return.
    """

    def __init__(self, limit: int = PAIRS) -> None:
        self.ends: list[Ends] = []
        self.forgotten = 0
        self._limit = limit
        self._generation = 0
        self._recent: dict[bytes, int] = {}
        self._older: dict[bytes, int] = {}
        self._known: Words = np.zeros((KEY_WORDS, 1 << SLOTS), np.uint64)
        self._path: Int64s = np.full(1 << SLOTS, -1, np.int64)

    def paths(self, key: Words) -> Int64s:
        """The path of each column of `key`; new pairs are numbered in the order of their first column."""
        spread = key[0] * SPREAD[0]
        for word, factor in zip(key[1:], SPREAD[1:], strict=True):
            spread ^= word * factor
        slot = (spread >> np.uint64(64 - SLOTS)).astype(np.int64)
        path: Int64s = self._path[slot]
        hit = path >= 0
        for known, word in zip(self._known, key, strict=True):
            hit &= known[slot] == word
        if not hit.all():
            missed = np.flatnonzero(~hit)
            path[missed] = self._look_up(key[:, missed], slot[missed])
        return path

    def _look_up(self, key: Words, slot: Int64s) -> Int64s:
        generation = self._generation
        keys = np.ascontiguousarray(key.T).tobytes()
        width = KEY_WORDS * 8
        path = np.array([self._find(keys[at : at + width]) for at in range(0, len(keys), width)], np.int64)
        if self._generation == generation:  # a slot may only hold what is in `_recent`
            self._known[:, slot] = key
            self._path[slot] = path
        return path

    def _find(self, key: bytes) -> int:
        path = self._recent.get(key)
        if path is not None:
            return path
        reverse = key[16:32] + key[:16] + key[34:36] + key[32:34] + key[36:]
        path = self._older.pop(key, None)
        if path is None:
            path = len(self.ends) << 1
            self.ends.append(Ends(_endpoint(key[:16], key[32:34], key[36]), _endpoint(key[16:32], key[34:36], key[36])))
        else:
            self._older.pop(reverse, None)
        self._recent[key] = path
        self._recent.setdefault(reverse, path ^ 1)
        if len(self._recent) >= 2 * self._limit:
            self._forget()
        return path

    def _forget(self) -> None:
        """What was not seen since the last time goes; what was since then will be looked up again before the next time."""
        gone = {path >> 1 for path in self._older.values()}
        for pair in gone:
            self.ends[pair] = FORGOTTEN
        self.forgotten += len(gone)
        self._older, self._recent = self._recent, {}
        self._path.fill(-1)
        self._generation += 1


def _endpoint(address: bytes, port: bytes, version: int) -> str:
    number = int.from_bytes(port, "big")
    if version == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{number}"
    text = IPv6Address(address)
    return f"[::ffff:{text.ipv4_mapped}]:{number}" if text.ipv4_mapped else f"[{text}]:{number}"
