"""Bytes of an unfinished record, kept until the next read completes it."""

from __future__ import annotations


class Carry:
    """Joins leftover bytes with new ones only when the record can be whole: small reads cost no repeated copying.

    `position` is where the joined bytes begin in the stream.
    """

    def __init__(self, need: int, position: int = 0) -> None:
        self.position = position
        self._pieces: list[bytes] = []
        self._size = 0
        self._need = need

    def __len__(self) -> int:
        return self._size

    @property
    def missing(self) -> int:
        """Bytes that the unfinished record lacks, as far as it can be told yet; 0: no record is unfinished."""
        return self._need - self._size if self._size else 0

    def join(self, data: bytes) -> bytes | None:
        """All bytes not consumed yet; None while fewer than needed are here."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._need:
            return None
        joined = b"".join(self._pieces) if len(self._pieces) > 1 else data
        self._pieces, self._size = [], 0
        return joined

    def keep(self, joined: bytes, consumed: int, need: int) -> None:
        """Keeps what was not consumed; the next attempt is made when `need` bytes are here."""
        self.position += consumed
        rest = joined[consumed:]
        self._pieces, self._size, self._need = [rest], len(rest), need
