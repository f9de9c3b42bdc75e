"""Bytes of an unfinished record, kept until the next read completes it."""

from __future__ import annotations


class Carry:
    """Joins leftover bytes with new ones only when the record can be whole: small reads cost no repeated copying.

    `position` is the stream position of the joined bytes.
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
        """Bytes that the unfinished record still needs, as far as known; 0: no record is unfinished."""
        return self._need - self._size if self._size else 0

    def join(self, data: bytes) -> bytes | None:
        """Return all bytes not consumed yet; None while fewer bytes than needed are here."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._need:
            return None
        joined = b"".join(self._pieces) if len(self._pieces) > 1 else data
        self._pieces, self._size = [], 0
        return joined

    def take(self) -> bytes:
        """Return the kept bytes, however few they are."""
        self._need = 0
        return self.join(b"") or b""

    def keep(self, joined: bytes, consumed: int, need: int) -> None:
        """Keep the bytes that were not consumed; the next attempt comes when `need` bytes are here."""
        self.position += consumed
        rest = joined[consumed:]
        self._pieces, self._size, self._need = [rest], len(rest), need
