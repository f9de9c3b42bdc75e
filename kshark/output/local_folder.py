"""Folders that are written to: this machine's only, since what is written appears by renaming, which object stores
cannot."""

from __future__ import annotations

import re
from pathlib import Path

from kshark.errors import UsageError


def local_folder(folder: str | Path) -> Path:
    """The folder's path. Raises kshark.UsageError for what is none."""
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(folder)):
        raise UsageError(
            f"{folder} is no folder of this machine, and nothing is written elsewhere; name a folder with -o"
        )
    if str(folder) == "-":
        raise UsageError(
            "what is written are several files, which cannot go to standard output (-); name a folder with -o DIR"
        )
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with -o")
    return path
