"""What a path says: a file of this machine, or one of a store that kshark.capture.stores knows, by its scheme (`s3://bucket/a.pcap`).

Nothing in a path is escaped, but in `file://`. Behind a store's path may stand its settings: `?endpoint_override=http://host:9000&region=x`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kshark.errors import UsageError

STANDARD_INPUT: Final = "-"
#: Schemes of files that are not this machine's.
REMOTE: Final = ("s3", "s3a", "gs", "hdfs", "abfs", "abfss")

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://")
_SECRET: Final = re.compile(r"[^/]*://[^/@]*:[^/]*@")
_SETTINGS: Final = re.compile(r"\?(\w+=[^&]*(?:&\w+=[^&]*)*)$")


def named(path: str | Path) -> str | Path:
    """The path by which a file is opened: `file://` is taken away.

    Raises UsageError for a scheme that is not known, and for a password in a path: tables, reports and messages would
    repeat it."""
    found = _SCHEME.match(str(path))
    if found is None:
        return path
    if _SECRET.match(str(path)):
        raise UsageError(
            "a password in a path would end in tables and reports; set it in the environment (AWS_SECRET_ACCESS_KEY)"
        )
    if found[1] in REMOTE:
        return str(path)
    local = urlsplit(str(path))
    if found[1] != "file" or local.netloc not in ("", "localhost"):
        raise UsageError(
            f"{path} cannot be opened; give a local path, or one that begins with "
            f"{', '.join(f'{one}://' for one in REMOTE)}"
        )
    return unquote(local.path)


def is_remote(path: str | Path) -> bool:
    """Whether it is a store's."""
    return _SCHEME.match(str(path)) is not None


def parted(path: str) -> tuple[str, str]:
    """The path without its settings, and these."""
    found = _SETTINGS.search(path) if is_remote(path) else None
    return (path, "") if found is None else (path[: found.start()], found[1])


def inside(folder: str, name: str) -> str:
    """A file of a folder."""
    path, settings = parted(folder)
    return f"{path.rstrip('/')}/{name}{f'?{settings}' if settings else ''}"


def absolute(path: str) -> str:
    """The same file, whatever folder somebody else is in."""
    return path if is_remote(path) else os.path.abspath(path)


def told(path: str | Path) -> str:
    """A path as text: bytes of its name that are no UTF-8 are escaped."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
