"""Folders in which a running capture makes files after it gave up its rights."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from kshark.errors import UsageError


def need_writable(folder: Path, option: str) -> None:
    """Raise UsageError if this process, with the rights that it has now, cannot make files in a folder."""
    if not _is_folder(folder):
        raise UsageError(f"{folder} is not a folder; make it first, or name another one with {option}")
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        user = _user()
        raise UsageError(
            f"{option}: user {user}, as whom kshark goes on, cannot make files in {folder}; "
            f"chown {user} {folder}, or name another user with -Z USER"
        )


def _is_folder(path: Path) -> bool:
    """True unless it is certain that there is no such folder."""
    try:
        return path.is_dir()
    except PermissionError:
        return True


def _user() -> str:
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
