"""Where batches are decompressed to, one behind the other, until all of it is taken as one piece: nothing is joined, little is copied."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from kshark import limits
from kshark.records.compression import decompress_into

#: Memory of which more than this was touched is given back, not used again.
KEPT_BYTES: Final = 8 << 20


class Arena:
    """Room for limits.PENDING_RECORD_BYTES and one batch of limits.DECOMPRESSED_BYTES; only what is used of it becomes real memory."""

    def __init__(self) -> None:
        self.used = 0

    @cached_property
    def _room(self) -> memoryview:
        return np.empty(limits.PENDING_RECORD_BYTES + limits.DECOMPRESSED_BYTES, np.uint8).data

    def add(self, codec: int, data: memoryview, most: int) -> int:
        """Decompresses behind what is there, at most `most` bytes; how many they were. Raises DecompressionFailed or RoomExceeded."""
        most = min(most, limits.DECOMPRESSED_BYTES)
        size = decompress_into(codec, data, self._room[self.used : self.used + most])
        self.used += size
        return size

    def take(self, start: int = 0) -> bytes:
        """What was added from `start` on; it is no longer there then."""
        if start == self.used:
            return b""
        taken = bytes(self._room[start : self.used])
        if self.used > KEPT_BYTES and not start:
            del self._room
        self.used = start
        return taken
