"""Where blocks of a pcapng file go: a file, or a pipe whose reader may be slow."""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections import deque
from pathlib import Path
from typing import Final, Protocol

#: Bytes that wait for the reader of a pipe.
PIPE_BYTES: Final = 64 << 20
#: Seconds in which a reader takes the rest when the capture ends.
_LAST_SECONDS: Final = 3.0
STANDARD_OUTPUT: Final = "-"
_SIZES: Final = struct.Struct("<II")
#: Captures hold data of others: only their owner may read them, as with dumpcap.
_MODE: Final = 0o600
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Output(Protocol):
    """Takes whole blocks."""

    def write(self, blocks: bytes) -> bool:
        """Write blocks; False if there is no room and none of them was written. Raises OSError."""

    def close(self) -> None:
        """Write the rest. Raises OSError."""

    def give_to(self, user: int, group: int) -> None:
        """Make another user the owner."""


class FileOutput:
    """A file, which has whole blocks whenever the process ends: nothing waits in a buffer.

    It appears with its first blocks, since an empty file is no capture, and replaces one of that name. If the disk is
    full, it ends with the last block that fits.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden: Path | None = None
        if not path.exists() or path.is_file():
            self._hidden = path.with_name(f".{path.name}.unfinished")
        try:
            self._file = os.open(self._hidden or path, _FLAGS, _MODE)
        except PermissionError:  # in a folder of others, a file may be written and not made
            self._hidden = None
            self._file = os.open(path, _FLAGS & ~os.O_CREAT)
        self._size = 0

    def write(self, blocks: bytes) -> bool:
        rest = memoryview(blocks)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            written = len(blocks) - len(rest)
            os.ftruncate(self._file, self._size + _whole(blocks[:written]))
            raise
        finally:
            self._appear()
        self._size += len(blocks)
        return True

    def close(self) -> None:
        os.close(self._file)

    def _appear(self) -> None:
        if self._hidden is not None:
            os.replace(self._hidden, self._path)
            self._hidden = None

    def give_to(self, user: int, group: int) -> None:
        os.fchown(self._file, user, group)


class PipeOutput:
    """Standard output or a named pipe: a thread writes, so that a reader that does not read stops nothing.

    Beyond PIPE_BYTES, blocks are refused.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._is_closed = False
        self._error: OSError | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kshark -w", daemon=True)
        self._thread.start()

    def write(self, blocks: bytes) -> bool:
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._bytes + len(blocks) > PIPE_BYTES:
                return False
            self._waiting.append(blocks)
            self._bytes += len(blocks)
            self._changed.notify()
        return True

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_LAST_SECONDS)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise TimeoutError(f"its reader did not read for {_LAST_SECONDS:.0f} s")

    def give_to(self, user: int, group: int) -> None:
        """Change nothing: the file belongs to who made the pipe."""

    def _run(self) -> None:
        try:
            file = os.dup(1) if self._path == STANDARD_OUTPUT else os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            while (blocks := self._next()) is not None:
                rest = memoryview(blocks)
                while rest:
                    rest = rest[os.write(file, rest) :]
                with self._changed:
                    self._bytes -= len(blocks)
            os.close(file)
        except OSError as error:
            with self._changed:
                self._error = error
                self._waiting.clear()

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None


def open_output(path: str) -> Output:
    """Open a file or pipe for writing. Raises OSError."""
    return PipeOutput(path) if is_pipe(path) else FileOutput(Path(path))


def is_pipe(path: str) -> bool:
    """True for standard output and for a named pipe."""
    if path == STANDARD_OUTPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _whole(blocks: bytes) -> int:
    """Return the bytes of the whole blocks at the beginning."""
    position = 0
    while position + _SIZES.size <= len(blocks):
        following = position + int(_SIZES.unpack_from(blocks, position)[1])
        if following > len(blocks):
            break
        position = following
    return position
