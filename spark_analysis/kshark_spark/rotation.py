"""Find complete and new files of captures that are rotated into a folder (tcpdump -C, -G, -W; dumpcap -b).

A file is complete if a newer file of its series exists, whose name differs in digits only, or if it has not changed for
some time. A file with a known name and other bytes is a new file, because ring buffers overwrite their oldest file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from glob import glob, has_magic
from os import stat_result
from pathlib import Path
from stat import S_ISREG
from typing import Final

import msgspec
from msgspec.structs import replace

from kshark.capture.files import open_file
from kshark.capture.source import open_capture
from kshark.errors import Changed, UnreadableInput, UsageError

#: Bytes at the start of a file that identify it: they contain its first packets with their times.
_BEGIN_BYTES: Final = 4096
_DIGITS: Final = re.compile(r"(\d+)")


class File(msgspec.Struct, frozen=True):
    """A file as it was when the stream accepted it.

    `size`: bytes to read. `begin`: checksum of the first bytes. `late`: bytes appended after it was accepted.
    """

    path: str
    size: int
    mtime_ns: int
    begin: int
    late: int = 0

    def check(self) -> None:
        """Raise UnreadableInput if the file is missing or was replaced."""
        if _begin(self.path, self.size) != self.begin:
            raise Changed(f"{self.path}: overwritten before it was read")


def arrived(paths: Iterable[str], accepted: Mapping[str, File], now_ns: int, settled_ns: int) -> Iterator[File]:
    """Yield the files that are complete and new, in order of name, and accepted files that have grown, each once.

    `paths`: folders, or patterns such as `DIR/*.pcap`. `accepted`: files accepted before, by path. Files that are not
    captures are left out.
    """
    listed = dict(_listed(paths))
    newest = {
        _series(path): path for path in sorted(listed, key=lambda path: (listed[path].st_mtime_ns, _natural(path)))
    }
    for path, stat in sorted(listed.items()):
        before = accepted.get(path)
        try:
            if before is not None and _is_still(before, path, stat):
                if stat.st_size > before.size and not before.late:
                    yield replace(before, late=stat.st_size - before.size)
            elif newest[_series(path)] != path or now_ns - stat.st_mtime_ns >= settled_ns:
                open_capture(path).close()
                yield File(path, stat.st_size, stat.st_mtime_ns, _begin(path, stat.st_size))
        except (OSError, UnreadableInput):
            continue  # not a capture, or deleted


def _is_still(before: File, path: str, stat: stat_result) -> bool:
    """True if the path is still the accepted file, not another one of that name."""
    if stat.st_size == before.size and stat.st_mtime_ns == before.mtime_ns:
        return True
    return stat.st_size >= before.size and _begin(path, before.size) == before.begin


def _listed(paths: Iterable[str]) -> Iterator[tuple[str, stat_result]]:
    for path in paths:
        if not Path(path).is_dir() and not has_magic(path):
            raise UsageError(f"{path}: not a folder; a stream reads the captures of a folder or a pattern (DIR/*.pcap)")
        for file in Path(path).rglob("*") if Path(path).is_dir() else map(Path, glob(path)):
            try:
                stat = file.stat()
            except OSError:  # deleted since it was listed
                continue
            if S_ISREG(stat.st_mode) and not file.name.startswith("."):
                yield str(file), stat


def _series(path: str) -> str:
    """Return the path without digits; tcpdump's first file has no number."""
    return _DIGITS.sub("", path)


def _natural(path: str) -> list[int]:
    """Return the sort key of names that differ in digits only: 9 comes before 10."""
    return [int(digits) for digits in _DIGITS.findall(path)]


def _begin(path: str, size: int) -> int:
    with open_file(path) as file:
        return zlib.crc32(file.read(min(size, _BEGIN_BYTES)))
