"""Map endpoint keys of segments to path numbers: the pair of ends, and the direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kshark.endpoints import endpoint
from kshark.limits import PAIRS
from kshark.link.columns import KEY_WORDS
from kshark.model import Ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.link.columns import Words
    from kshark.model import Int64s

FORGOTTEN: Final = Ends("", "")
#: Odd constants that spread the key's words (Knuth, The Art of Computer Programming, 6.4), different in every process:
#: packets cannot be crafted to share a slot.
_SPREAD: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64
) ^ np.uint64((hash("kshark.link.ends") & 0xFFFFFFFFFFFF) << 1)
#: Slots to begin with.
_SLOTS: Final = 4096
#: Columns with a row for each pair.
_BY_ROW: Final = ("_key", "_number", "_seen")
_PORT: Final = np.uint64(0xFFFF)
_16: Final = np.uint64(16)
_32: Final = np.uint64(32)


class EndsTable:
    """Numbers directed four-tuples: path >> 1 is the pair, path & 1 the side that sent; `table[pair]` are its ends.

    A hash table in columns (open addressing, both directions of a pair in one slot): a lookup of a batch is a few array
    operations, and a pair takes some 80 bytes however many there are. When twice `limit` are held, those not seen for
    longest are forgotten; they get a new number when they return."""

    def __init__(self, limit: int = PAIRS) -> None:
        self.forgotten = 0
        self._limit = limit
        #: Pairs held and ever seen. By row, in the order of their numbers: key, number, and last use (in columns
        #: counted).
        self._count = self._numbers = self._columns = 0
        self._key: Words = np.empty((2 * limit, KEY_WORDS), np.uint64)  # unused rows take no memory
        self._number: Int64s = np.empty(2 * limit, np.int64)
        self._seen: Int64s = np.empty(2 * limit, np.int64)
        self._rebuild(_SLOTS)

    def __len__(self) -> int:
        """Pairs seen, including forgotten ones."""
        return self._numbers

    def __getitem__(self, pair: int) -> Ends:
        """Return the ends of a pair; FORGOTTEN if it is forgotten."""
        row = self._count - self._numbers + pair  # correct for the pairs added since the last forgetting
        if row < 0 or self._number[row] != pair:
            row = int(self._number[: self._count].searchsorted(pair))
            if row == self._count or self._number[row] != pair:
                return FORGOTTEN
        words = self._key[row].tobytes()
        return Ends(_endpoint(words[:16], words[32:34], words[36]), _endpoint(words[16:32], words[34:36], words[36]))

    def paths(self, key: Words) -> Int64s:
        """Return the path of each column of `key`; new pairs are numbered in the order of their first column."""
        parts: list[Int64s] = []
        rows_and_sides = self._find(key)
        while len(missing := np.flatnonzero(rows_and_sides < 0)):
            firsts = missing[np.sort(np.unique(_hash(key[:, missing]), return_index=True)[1])]
            room = 2 * self._limit - self._count
            if len(firsts) > room:
                full = int(firsts[room])
                if full:
                    parts.append(self.paths(key[:, :full]))
                    key = key[:, full:]
                self._forget()
                rows_and_sides = self._find(key)
            else:
                self._add(key[:, firsts])
                rows_and_sides[missing] = self._find(key[:, missing])
        self._seen[rows_and_sides >> 1] = self._columns + np.arange(len(rows_and_sides))
        self._columns += len(rows_and_sides)
        parts.append(self._number[rows_and_sides >> 1] << 1 | rows_and_sides & 1)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Return only the used rows; the slots are rebuilt, since another process has other hashes."""
        rows = {name: getattr(self, name)[: self._count] for name in _BY_ROW}
        return {**{name: value for name, value in vars(self).items() if name not in ("_slots", "_shift")}, **rows}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["_limit"])  # type: ignore[misc]
        for name, value in state.items():
            if name in _BY_ROW:
                getattr(self, name)[: len(value)] = value
            else:
                setattr(self, name, value)
        self._rebuild(max(_SLOTS, 1 << (2 * self._count).bit_length()))

    def _find(self, key: Words) -> Int64s:
        """Return row << 1 | side of each column, -1 if it is unknown. It looks into the slots of `_insert`."""
        slot = (_hash(key) >> self._shift).astype(np.int64)
        result: Int64s = np.full(len(slot), -1, np.int64)
        open_columns: Int64s | slice = slice(None)
        probes = 0
        while True:
            probes += 1
            row = self._slots[slot].astype(np.int64)
            rows = self._key[row]
            same = _equal(rows, key)
            back = ~same & _equal(rows, _reversed(key))
            hit = (same | back) & (row >= 0)
            result[open_columns] = np.where(hit, row << 1 | back, -1)
            collided = np.flatnonzero(~hit & (row >= 0))
            if not len(collided):
                return result
            open_columns = collided if isinstance(open_columns, slice) else open_columns[collided]
            key, slot = key[:, collided], (slot[collided] + probes) & (len(self._slots) - 1)

    def _add(self, key: Words) -> None:
        rows = np.arange(self._count, self._count + key.shape[1])
        self._key[rows] = key.T
        self._number[rows] = self._numbers + np.arange(len(rows))
        if 2 * (self._count + len(rows)) > len(self._slots):
            self._rebuild(max(2 * len(self._slots), 1 << (4 * len(rows)).bit_length()))
        self._count, self._numbers = self._count + len(rows), self._numbers + len(rows)
        self._insert(rows)

    def _insert(self, rows: Int64s) -> None:
        """Put each row into the first free slot of 0, 1, 3, 6 ... after its own: of a power of two, these are all."""
        slot = (_hash(self._key[rows].T) >> self._shift).astype(np.int64)
        probes = 0
        while len(rows):
            probes += 1
            free = np.flatnonzero(self._slots[slot] < 0)
            used = free[np.unique(slot[free], return_index=True)[1]]
            self._slots[slot[used]] = rows[used]
            left = np.ones(len(rows), bool)
            left[used] = False
            rows, slot = rows[left], (slot[left] + probes) & (len(self._slots) - 1)

    def _rebuild(self, slots: int) -> None:
        """Make that many slots, a power of two and at least twice the rows."""
        self._shift = np.uint64(65 - slots.bit_length())
        self._slots: NDArray[np.int32] = np.full(slots, -1, np.int32)
        self._insert(np.arange(self._count))

    def _forget(self) -> None:
        """Keep only the `limit` pairs seen last."""
        kept = np.sort(np.argsort(self._seen[: self._count])[self._count - self._limit :])
        self.forgotten += self._count - len(kept)
        self._count = len(kept)
        self._key[: len(kept)] = self._key[kept]
        self._number[: len(kept)], self._seen[: len(kept)] = self._number[kept], self._seen[kept]
        self._rebuild(len(self._slots))


def _hash(key: Words) -> Words:
    """Return the same hash for both directions."""
    ports = key[4]
    source = key[0] * _SPREAD[0] ^ key[1] * _SPREAD[1] ^ (ports & _PORT) * _SPREAD[2]
    target = key[2] * _SPREAD[0] ^ key[3] * _SPREAD[1] ^ (ports >> _16 & _PORT) * _SPREAD[2]
    both = source * target ^ (source + target)
    hashed: Words = (both ^ both >> _32) * _SPREAD[3]
    return hashed


def _reversed(key: Words) -> tuple[Words, ...]:
    ports = key[4]
    return key[2], key[3], key[0], key[1], ports >> _32 << _32 | (ports & _PORT) << _16 | ports >> _16 & _PORT


def _equal(rows: Words, words: Iterable[Words]) -> NDArray[np.bool_]:
    """True for the rows that hold these words. Comparing word by word is three times as fast as rows of five."""
    equal: NDArray[np.bool_] = np.ones(len(rows), bool)
    for column, word in zip(rows.T, words, strict=True):
        equal &= column == word
    return equal


def _endpoint(address: bytes, port: bytes, version: int) -> str:
    number = int.from_bytes(port, "big")
    if version == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{number}"
    text = IPv6Address(address)
    return endpoint(f"::ffff:{text.ipv4_mapped}" if text.ipv4_mapped else str(text), number)
