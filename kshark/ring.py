"""A few numbers for each of very many keys, in some bytes each: used for forgotten connections."""

from __future__ import annotations

from struct import calcsize, pack_into, unpack_from


class Ring:
    """Integers by key. Keys that differ by a multiple of `size` share one row: the last one put stays.

    The first `put` reserves the memory; the system commits it as rows are used.
    """

    def __init__(self, layout: str, size: int) -> None:
        """`layout`: format of the values, as in the struct module. Keys are 0 and higher."""
        self._layout = f"<q{layout}"
        self._size = size
        #: Key + 1, then its values.
        self._rows = bytearray()

    def put(self, key: int, *values: int) -> None:
        row = calcsize(self._layout)
        self._rows = self._rows or bytearray(self._size * row)
        pack_into(self._layout, self._rows, key % self._size * row, key + 1, *values)

    def take(self, key: int) -> tuple[int, ...] | None:
        """Return the key's values and remove them; None if there are none."""
        if not self._rows:
            return None
        at = key % self._size * calcsize(self._layout)
        whose, *values = unpack_from(self._layout, self._rows, at)
        if whose != key + 1:
            return None
        pack_into("<q", self._rows, at, 0)
        return tuple(values)
