"""One export at a time into a folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kshark.errors import UsageError


class FolderLock:
    """Held from its making to `release`, or to the end of the process, whatever ends it. Raises kshark.UsageError where
    another has it."""

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
            os.close(self._file)  # the other one released it, and took the file away, since it was opened

    def _is_there(self) -> bool:
        return self._path.exists() and os.path.samestat(os.fstat(self._file), os.stat(self._path))

    def release(self) -> None:
        self._path.unlink()
        os.close(self._file)
