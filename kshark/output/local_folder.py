"""Output folders: only on this machine, since files appear by renaming, which object stores cannot do."""

from __future__ import annotations

import re
from pathlib import Path

from kshark.errors import UsageError


def local_folder(folder: str | Path, option: str = "-o") -> Path:
    """Return the folder's path. Raises kshark.UsageError for anything else. `option` names the folder."""
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(folder)):
        raise UsageError(
            f"{folder} is not a folder of this machine; kshark writes only to local folders; name a folder with "
            f"{option}"
        )
    if str(folder) == "-":
        raise UsageError(
            "the output has several files and cannot be written to standard output (-); name a folder with "
            f"{option} DIR"
        )
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with {option}")
    return path
