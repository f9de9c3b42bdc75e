"""End a capture that comes through a pipe or grows: the reader stops waiting for more bytes."""

from __future__ import annotations

import io
import os
import select
import time
from typing import BinaryIO, Final

#: After `set`, the time for the writer of the pipe to deliver its last bytes: the same key has stopped it.
_LAST_WORDS_MS: Final = 500
#: A writer that continues is read no longer than this.
_PATIENCE_S: Final = 2.0


class Stop:
    """Ends the reading of a pipe, or of a file that grows. `set` may be called by a signal handler."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        #: The end of reading, by time.monotonic; None until `set`.
        self._until: float | None = None

    @property
    def is_set(self) -> bool:
        """True after `set`."""
        return self._until is not None

    @property
    def is_over(self) -> bool:
        """True when the patience after `set` is at its end."""
        return self._until is not None and time.monotonic() >= self._until

    def wait(self, seconds: float) -> None:
        """Wait so long, or until `set`."""
        waiting = select.poll()
        waiting.register(self._read, select.POLLIN)
        waiting.poll(int(1000 * seconds))

    def set(self) -> None:
        if self._until is None:
            self._until = time.monotonic() + _PATIENCE_S
            os.write(self._write, b"\0")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def is_earlier(self, file: BinaryIO | io.RawIOBase) -> bool:
        """Wait until the pipe has bytes or ends, and return False; True if the capture has ended instead."""
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
