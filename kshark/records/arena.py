"""A buffer into which batches are decompressed one after another, and which is then taken as one piece: nothing is
joined, little copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kshark import limits
from kshark.records import zstd
from kshark.records.compression import decompress_into
from kshark.records.faults import RoomExceeded

#: If more bytes than this were used, the memory is given back to the system instead of being reused.
KEPT_BYTES: Final = 8 << 20


class Arena:
    """Room for limits.PENDING_RECORD_BYTES and one batch of limits.DECOMPRESSED_BYTES; only what is used becomes real
    memory."""

    def __init__(self) -> None:
        self.used = 0
        self._touched = 0

    @cached_property
    def _room(self) -> memoryview:
        return np.empty(limits.PENDING_RECORD_BYTES + limits.DECOMPRESSED_BYTES, np.uint8).data

    def add(self, codec: int, data: memoryview, most: int) -> int:
        """Decompresses to the end of what is there, at most `most` bytes; returns how many. Raises DecompressionFailed
        or RoomExceeded."""
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
        """Decompresses small zstd frames together; returns where each lies, None if they have to be added one by
        one."""
        room = self._room[self.used : self.used + len(frames) * 2 * zstd.BLOCK_BYTES]
        places = zstd.decompress_all(frames, room)
        if places is None:
            self._touched = max(self._touched, self.used + len(room))
            return None
        places = [(self.used + start, self.used + stop) for start, stop in places]
        self.used = places[-1][1]
        self._touched = max(self._touched, self.used)
        return places

    def take(self, start: int = 0) -> bytes:
        """Removes and returns the bytes from `start` on."""
        taken = bytes(self._room[start : self.used]) if start < self.used else b""
        self.used = start
        if self._touched > KEPT_BYTES and not start:
            del self._room
            self._touched = 0
        return taken
