"""A lock: one export at a time into a folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kshark.errors import UsageError


class FolderLock:
    """Locked from its creation to `release`, or to the end of the process.

    Raises kshark.UsageError if another export holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".kshark.lock"
        while True:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._file)
                raise UsageError(
                    f"another export into {folder} has not ended; wait for it, or name another folder with -o"
                ) from None
            if self._is_there():
                return
            os.close(self._file)  # the other export released the lock and removed the file in the meantime

    def _is_there(self) -> bool:
        return self._path.exists() and os.path.samestat(os.fstat(self._file), os.stat(self._path))

    def release(self) -> None:
        self._path.unlink()
        os.close(self._file)
