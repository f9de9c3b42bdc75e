"""A buffer into which batches are decompressed one after another, and which is then read as one piece.

Nothing is joined, and little is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kshark import limits
from kshark.records import zstd
from kshark.records.compression import decompress_into
from kshark.records.faults import RoomExceeded

#: If more bytes than this were used, the memory returns to the system instead of being reused.
KEPT_BYTES: Final = 8 << 20


class Arena:
    """Room for limits.PENDING_RECORD_BYTES and one batch of limits.DECOMPRESSED_BYTES.

    The system allocates memory only for the part that is used.
    """

    def __init__(self) -> None:
        self.used = 0
        self._touched = 0

    @cached_property
    def _room(self) -> memoryview:
        return np.empty(limits.PENDING_RECORD_BYTES + limits.DECOMPRESSED_BYTES, np.uint8).data

    def add(self, codec: int, data: memoryview, most: int) -> int:
        """Decompress to the end of the used part, at most `most` bytes; return the number of bytes.

        Raises DecompressionFailed or RoomExceeded.
        """
        stop = self.used + min(most, limits.DECOMPRESSED_BYTES)
        try:
            size = decompress_into(codec, data, self._room[self.used : stop])
        except RoomExceeded:
            self._touched = stop
            raise
        self.used += size
        self._touched = max(self._touched, self.used)
        return size

    def add_all(self, frames: Sequence[memoryview]) -> list[tuple[int, int]] | None:
        """Decompress small zstd frames together; return the bounds of each.

        Return None if they have to be added one by one.
        """
        room = self._room[self.used : self.used + len(frames) * 2 * zstd.BLOCK_BYTES]
        bounds = zstd.decompress_all(frames, room)
        if bounds is None:
            self._touched = max(self._touched, self.used + len(room))
            return None
        bounds = [(self.used + start, self.used + stop) for start, stop in bounds]
        self.used = bounds[-1][1]
        self._touched = max(self._touched, self.used)
        return bounds

    def take(self, start: int = 0, *, before: bytes = b"") -> bytes:
        """Remove and return the bytes from `start` on, after `before`."""
        content = b"".join((before, self._room[start : self.used])) if start < self.used else before
        self.used = start
        if self._touched > KEPT_BYTES and not start:
            del self._room
            self._touched = 0
        return content
