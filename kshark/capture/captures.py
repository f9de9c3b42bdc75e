"""What a user names on the command line (files, folders, standard input) as captures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kshark.capture import files
from kshark.capture.merge import Lane, merge
from kshark.capture.numbering import Numbering
from kshark.capture.paths import STANDARD_INPUT, named
from kshark.capture.source import Capture, open_capture
from kshark.errors import NoCapture, UnreadableInput, UsageError
from kshark.model import PacketBatch, Weird


class Captures:
    """Files read as one capture: iterate once for PacketBatches, numbered from 1 in order of time, and Weirds.

    `names` are the files, `numbering` knows which file a packet came from, `bytes_read` and `bytes_total` how far reading has come
    (None: not known, since one of them is a pipe).
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.names = [str(path) for path in paths]
        self.numbering = Numbering(self.names)
        self.bytes_total = _total(paths)
        self._sources: list[Capture] | list[Lane]
        if len(paths) == 1:
            self._sources = [open_capture(paths[0])]
        else:
            self._sources = [Lane(path, index) for index, path in enumerate(paths)]

    @property
    def bytes_read(self) -> int:
        return sum(source.bytes_read for source in self._sources)

    def __iter__(self) -> Iterator[PacketBatch | Weird]:
        match self._sources:
            case [Capture() as single]:
                for item in single:
                    if isinstance(item, PacketBatch):
                        self.numbering.add(item.number, np.zeros(len(item.number), np.int64), item.number)
                    yield item
            case lanes:
                yield from merge([lane for lane in lanes if isinstance(lane, Lane)], self.numbering)


def open_captures(paths: Sequence[str | Path]) -> Captures:
    """All captures that the paths name, as one: `-` is standard input, a folder stands for every capture below it.

    Raises UnreadableInput for a path that is no capture, and for a folder that holds none.
    """
    return Captures(expand(paths))


def each_capture(paths: Sequence[str | Path]) -> Iterator[Captures]:
    """The same captures, each on its own, one after the other."""
    for path in expand(paths):
        yield Captures([path])


def expand(paths: Sequence[str | Path]) -> list[str | Path]:
    """The paths as they are opened, each folder replaced by the captures below it in order of name; its other files are left out."""
    if not paths:
        raise UsageError("no capture is named; give a file, a folder, or - for standard input")
    if [str(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) is named twice")
    found: list[str | Path] = []
    for path in map(named, paths):
        if str(path) != STANDARD_INPUT and files.is_folder(path):
            found += _below(path)
        else:
            found.append(path)
    return found


def need_captures(paths: Sequence[str | Path]) -> None:
    """Raises UnreadableInput for the first file that is no capture; pipes, which can be read only once, are left alone."""
    files.of_each(lambda path: open_capture(path).close(), [path for path in paths if not files.is_pipe(path)])


def _below(folder: str | Path) -> list[str | Path]:
    held = files.below(folder)
    captures = [path for path, is_one in zip(held, files.of_each(_is_capture, held), strict=True) if is_one]
    if not captures:
        raise UnreadableInput(f"{folder}: no capture (pcap or pcapng) in this folder")
    return captures


def _is_capture(path: str | Path) -> bool:
    try:
        open_capture(path).close()
    except NoCapture:
        return False
    return True


def _total(paths: Sequence[str | Path]) -> int | None:
    return None if any(map(files.is_pipe, paths)) else sum(files.of_each(files.size_of, paths))
