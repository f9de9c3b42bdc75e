"""Bytes of an unfinished record, kept until the next read brings the rest."""

from __future__ import annotations


class Carry:
    """Joins what is left over with what comes, once, when the record can be whole: small reads cost no repeated copying.

    `position` is where the joined bytes begin in the stream.
    """

    def __init__(self, need: int) -> None:
        self.position = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._need = need

    def __len__(self) -> int:
        return self._size

    def join(self, data: bytes) -> bytes | None:
        """All bytes not yet consumed, or None while fewer than needed are there."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._need:
            return None
        joined = b"".join(self._pieces) if len(self._pieces) > 1 else data
        self._pieces, self._size = [], 0
        return joined

    def keep(self, joined: bytes, consumed: int, need: int) -> None:
        """Puts back what was not consumed; `need` bytes from there make the next attempt worth it."""
        self.position += consumed
        rest = joined[consumed:]
        self._pieces, self._size, self._need = [rest], len(rest), need
