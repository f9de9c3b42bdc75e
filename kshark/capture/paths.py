"""Paths of local files, or of files in a store that kshark.capture.stores knows, by their scheme
(`s3://bucket/a.pcap`).

Only `file://` paths are escaped. Settings of the store may follow its path:
`?endpoint_override=http://host:9000&region=x`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kshark.errors import UsageError

STANDARD_INPUT: Final = "-"
#: Schemes of files that are not local.
REMOTE: Final = ("s3", "s3a", "gs", "hdfs", "abfs", "abfss")

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://")
_SECRET: Final = re.compile(r"[^/]*://[^/@]*:[^/]*@")
_SETTINGS: Final = re.compile(r"\?(\w+=[^&]*(?:&\w+=[^&]*)*)$")


def named(path: str | Path) -> str | Path:
    """Return the path by which a file is opened, without `file://`.

    Raises UsageError for an unknown scheme, and for a password in a path: tables, reports and messages would repeat it.
    """
    scheme = _SCHEME.match(str(path))
    if scheme is None:
        return path
    if _SECRET.match(str(path)):
        raise UsageError(
            "a password in a path would end in tables and reports; set it in the environment (AWS_SECRET_ACCESS_KEY)"
        )
    if scheme[1] in REMOTE:
        return str(path)
    local = urlsplit(str(path))
    if scheme[1] != "file" or local.netloc not in ("", "localhost"):
        raise UsageError(
            f"{path} cannot be opened; give a local path, or one that begins with "
            f"{', '.join(f'{one}://' for one in REMOTE)}"
        )
    return unquote(local.path)


def is_remote(path: str | Path) -> bool:
    """True if the path belongs to a store."""
    return _SCHEME.match(str(path)) is not None


def parted(path: str) -> tuple[str, str]:
    """Return the path without its settings, and the settings."""
    settings = _SETTINGS.search(path) if is_remote(path) else None
    return (path, "") if settings is None else (path[: settings.start()], settings[1])


def inside(folder: str, name: str) -> str:
    """Return the path of a file in a folder."""
    path, settings = parted(folder)
    return f"{path.rstrip('/')}/{name}{f'?{settings}' if settings else ''}"


def absolute(path: str) -> str:
    """Return the path of the same file for a process in any folder."""
    return path if is_remote(path) else os.path.abspath(path)


def printable(path: str | Path) -> str:
    """Return a path as text: bytes of its name that are not UTF-8 are escaped."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
