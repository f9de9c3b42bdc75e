"""The terminal of the process: its modes while the screen is shown, writing that never waits, and its restoration."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from types import FrameType
from typing import Any, Final

from kshark.live.screen.painter import ENTER, LEAVE

#: At the end, a terminal that does not read gets the last bytes within this time, or not at all.
_PATIENCE_S: Final = 1.0
_READ_BYTES: Final = 4_096


class Terminal:
    """The terminal on two file descriptors: keys without waiting for Enter, the alternate screen without a cursor.

    `enter` and `leave` may be called repeatedly. `changed` is called after a change of its size, and when the process
    continues after a stop. Only the main thread may call `watch` and `unwatch`, which install signal handlers.
    """

    def __init__(self, keys: int, output: int, changed: Callable[[], None]) -> None:
        self.keys = keys
        # Opened again, because O_NONBLOCK would also concern the shell, which has the same open file.
        self._output = os.open(os.ttyname(output), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        #: Guards what is written: signal handlers write too.
        self.lock: Final = RLock()
        self._changed = changed
        self._modes: list[Any] | None = None
        self._left = b""
        self._is_closed = False
        #: True while SIGTSTP is handled: a SIGCONT may come in the middle of it.
        self._is_stopping = False
        self._handlers: dict[int, Any] = {}

    def enter(self) -> None:
        """Show the alternate screen."""
        if self._modes is None:
            self._modes = termios.tcgetattr(self.keys)
        modes = termios.tcgetattr(self.keys)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 0, 0
        termios.tcsetattr(self.keys, termios.TCSANOW, modes)
        self._left = ENTER
        self.flush()

    def leave(self) -> None:
        """Restore the terminal: its modes, its screen and its cursor."""
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        with suppress(OSError, termios.error):  # the terminal may have gone
            # Without flow control a terminal that was stopped with Ctrl-S continues.
            unstopped = [*modes]
            unstopped[0] &= ~termios.IXON
            termios.tcsetattr(self.keys, termios.TCSANOW, unstopped)
            self._left += LEAVE
            until = time.monotonic() + _PATIENCE_S
            while not self.flush() and (rest := until - time.monotonic()) > 0:
                select.select([], [self._output], [], rest)
        with suppress(OSError, termios.error):
            termios.tcsetattr(self.keys, termios.TCSANOW, modes)

    def close(self) -> None:
        """Restore the terminal, and close what was opened."""
        self._is_closed = True
        self.leave()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def size(self) -> tuple[int, int]:
        """Return the number of columns and lines."""
        with suppress(OSError):
            size = os.get_terminal_size(self._output)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def read(self) -> bytes:
        """Return the bytes of pressed keys."""
        with suppress(OSError):
            return os.read(self.keys, _READ_BYTES)
        return b""

    def write(self, data: bytes) -> None:
        """Write what the terminal takes now; `flush` writes the rest."""
        self._left += data
        self.flush()

    def flush(self) -> bool:
        """Write more of the rest; True if nothing is left, or if the terminal has gone."""
        try:
            while self._left:
                self._left = self._left[os.write(self._output, self._left) :]
        except BlockingIOError:
            return False
        except OSError:
            self._left = b""
        return True

    # -- signals

    def watch(self) -> None:
        """Install handlers: a new size, a stop by Ctrl-Z, and the continuation after it."""
        handlers = {signal.SIGWINCH: self._resized, signal.SIGTSTP: self._stopped, signal.SIGCONT: self._continued}
        self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def unwatch(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._changed()

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        """Restore the terminal, stop, and show the screen again when the process continues."""
        self._is_stopping = True
        with self.lock:
            self.leave()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self._is_stopping = False
        self._continued(number, frame)

    def _continued(self, number: int, frame: FrameType | None) -> None:
        # a handler may come late: after that of SIGINT, which has a lower number
        if self._is_closed or self._is_stopping:
            return
        with self.lock, suppress(OSError, termios.error):  # the end of a terminal is a SIGCONT too
            self.enter()
        self._changed()
