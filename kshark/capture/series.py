"""Names of capture files that are written one after the other: by tcpdump -C, -W and -G, and by dumpcap -b.

| written by | names |
|---|---|
| `dumpcap -b` | `NAME_00001_20261128170000.pcapng`, `NAME_00002_20261128170500.pcapng` |
| `tcpdump -C` | `NAME`, `NAME1`, `NAME2` |
| `tcpdump -C -W 10` | `NAME0` to `NAME9`, then `NAME0` again |
| `tcpdump -G` | `trace-20261128170000.pcap`, where NAME is `trace-%Y%m%d%H%M%S.pcap` |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: A file of dumpcap: name, number, time, ending.
_DUMPCAP: Final = re.compile(r"(.+)_(\d{5,})_\d{14}((?:\.\w+)*)")
#: Digits of a time in a name: a date, a time of day, seconds since 1970.
_TIME: Final = re.compile(r"\d{6,}")
#: Parts of strftime(3) that are numbers, with their digits; other parts stand for any text.
_DIGITS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "y": 2, "j": 3, "s": 10}


class FileState(NamedTuple):
    """A file of a series. Another `inode`, or a smaller `size`, is another capture under the same name."""

    name: str
    inode: tuple[int, int]
    size: int
    modified_ns: int


#: The order in which files are written: times in the name, then numbers.
_Place = tuple[tuple[int, ...], tuple[int, ...]]


class Series:
    """The files that follow the one that a user names, or that are meant by that name.

    The name is that of the first file, the name that was given to tcpdump or dumpcap, or one with the parts of
    strftime. A number alone makes no series: node1.pcap and node2.pcap may be two hosts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = self.path.parent
        self._pattern = pattern_of(self.path.name)
        #: The files that were read, or that were there before, as they were then.
        self._known: dict[str, FileState] = {}
        self._current = ""

    def first(self) -> Path | None:
        """Return the file to begin with: the named one, or else the oldest of the series. None if there is none."""
        files = [*self._files()]
        named = [file for file in files if file.name == self.path.name]
        chosen = named or sorted(files, key=lambda file: (file.modified_ns, place_of(file.name)))
        if not chosen:
            return None
        self._current = chosen[0].name
        place = place_of(self._current)
        self._known = {
            file.name: file for file in files if file is chosen[0] or (named and place_of(file.name) < place)
        }
        return self._folder / self._current

    def next(self, size: int) -> Path | None:
        """Return the file that was begun after the current one, of which `size` bytes were read; None if there is none
        yet. It may have the same name: the file was replaced, or cut to nothing and begun again.
        """
        files = {file.name: file for file in self._files()}
        current, before = files.get(self._current), self._known[self._current]
        if current is not None and current.inode == before.inode and current.size >= size:
            self._known[self._current] = current
        elif current is not None:
            self._known[self._current] = before._replace(size=size)
        begun = [name for name, file in files.items() if self._is_begun(file)]
        if not begun:
            return None
        place = place_of(self._current)
        self._current = min(begun, key=lambda name: (place_of(name) <= place, place_of(name)))
        self._known[self._current] = files[self._current]
        return self._folder / self._current

    def _is_begun(self, file: FileState) -> bool:
        """True if the file is none of those known, or was written again after the writer had left it."""
        known = self._known.get(file.name)
        if known is None or file.inode != known.inode or file.size < known.size:
            return True
        return file.name != self._current and file.modified_ns > known.modified_ns

    def _files(self) -> Iterator[FileState]:
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if self._pattern.fullmatch(entry.name) and entry.is_file():
                        status = entry.stat()
                        inode = status.st_dev, status.st_ino
                        yield FileState(entry.name, inode, status.st_size, status.st_mtime_ns)
        except FileNotFoundError:  # the folder, or a file that was deleted meanwhile
            return


def missed(before: str, after: str) -> int:
    """Return how many files of dumpcap, which numbers them, were between two files: it has deleted them."""
    first, second = _DUMPCAP.fullmatch(before), _DUMPCAP.fullmatch(after)
    return 0 if first is None or second is None else max(0, int(second[2]) - int(first[2]) - 1)


def pattern_of(name: str) -> re.Pattern[str]:
    """Return the pattern of the names of a series."""
    if "%" in name:
        return re.compile(_of_strftime(name) + r"\d*")
    if written := _DUMPCAP.fullmatch(name):
        return re.compile(rf"{re.escape(written[1])}_\d{{5,}}_\d{{14}}{re.escape(written[3])}")
    if _TIME.search(name):
        parts = [re.escape(part) for part in _TIME.split(name)]
        times = [rf"\d{{{len(time)}}}" for time in _TIME.findall(name)]
        return re.compile("".join(text for pair in zip(parts, [*times, ""], strict=True) for text in pair) + r"\d*")
    stem, ending = os.path.splitext(name)
    return re.compile(rf"{re.escape(name)}\d*|{re.escape(stem)}_\d{{5,}}_\d{{14}}{re.escape(ending)}")


def place_of(name: str) -> _Place:
    """Return the place of a file in its series: the times in its name, then the numbers."""
    numbers = re.findall(r"\d+", name)
    times = tuple(int(digits) for digits in numbers if len(digits) >= 6)
    return times, tuple(int(digits) for digits in numbers if len(digits) < 6)


def _of_strftime(name: str) -> str:
    parts = re.split(r"%(.)", name)
    texts = [re.escape(part) if at % 2 == 0 else _of_part(part) for at, part in enumerate(parts)]
    return "".join(texts)


def _of_part(letter: str) -> str:
    return "%" if letter == "%" else rf"\d{{{_DIGITS[letter]}}}" if letter in _DIGITS else ".+?"
