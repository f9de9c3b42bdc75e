"""The end of a capture that comes through a pipe, said by its reader: who waits for more bytes waits no longer."""

from __future__ import annotations

import io
import os
import select
import time
from typing import BinaryIO, Final

#: After the end was said so long for whoever writes the pipe: the same key has stopped him, and he hands over what he
#: still has.
_LAST_WORDS_MS: Final = 500
#: Who goes on writing is not heard any longer than this.
_PATIENCE_S: Final = 2.0


class Stop:
    """`set` may be called by a signal's handler."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        #: When no more is read, by time.monotonic; None until the end is said.
        self._until: float | None = None

    def set(self) -> None:
        if self._until is None:
            self._until = time.monotonic() + _PATIENCE_S
            os.write(self._write, b"\0")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def comes_first(self, file: BinaryIO | io.RawIOBase) -> bool:
        """Waits until the pipe has bytes, or its end, and gives False; True where the capture has ended instead."""
        if self._until is None:
            waiting = select.poll()
            waiting.register(file, select.POLLIN)
            waiting.register(self._read, select.POLLIN)
            waiting.poll()
        if self._until is None:
            return False
        last = select.poll()
        last.register(file, select.POLLIN)
        left_ms = min(_LAST_WORDS_MS, int(1000 * (self._until - time.monotonic())))
        return left_ms <= 0 or not last.poll(left_ms)
