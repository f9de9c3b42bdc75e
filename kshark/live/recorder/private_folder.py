"""A folder for this process alone, which does not outlive it for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from kshark.errors import UsageError
from kshark.units import safe

_PREFIX: Final = "kshark-recorder-"
_LOCK: Final = "lock"
#: A folder without a lock may be one that another process is making.
_MAKING_SECONDS: Final = 60


class PrivateFolder:
    """A folder below TMPDIR that only its user can read. Folders that ended processes have left there are removed.

    Its lock shows that a process uses it, also that of a forked process. Raises UsageError if it cannot be made.
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        _remove_left(parent)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self.lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"the flight recorder cannot make files in {safe(str(parent))} ({error.strerror}); "
                "name another folder with TMPDIR=DIR"
            ) from None
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    @property
    def free(self) -> int:
        """Bytes that fit into it."""
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _remove_left(parent: Path) -> None:
    """Remove the folders of processes that have ended; only those of this user."""
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            about = path.lstat()
            if about.st_uid == os.geteuid() and path.is_dir() and not path.is_symlink() and _is_left(path, about):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # another process has just removed it


def _is_left(path: Path, about: os.stat_result) -> bool:
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - about.st_mtime > _MAKING_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
