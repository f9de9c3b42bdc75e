"""Resolve the captures that a user names on the command line: files, folders, standard input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from kshark.capture import files
from kshark.capture.batches import frames_of
from kshark.capture.log_lines import LogLines
from kshark.capture.merge import Lane, LeftOut, merge
from kshark.capture.numbering import Locate, Numbering, add_places
from kshark.capture.origins import Origins
from kshark.capture.paths import STANDARD_INPUT, named, printable
from kshark.capture.source import Capture, open_capture
from kshark.capture.stop import Stop
from kshark.errors import NoCapture, UnreadableInput, UsageError, Vanished
from kshark.model import Finding, PacketBatch, Weird
from kshark.units import safe


class Captures:
    """Files read as one capture: iterate once for PacketBatches, numbered from 1 in order of time, and Weirds.

    `names` are the files, `numbering` maps packets to files. `locate` does, if numbers do not show it: several files,
    or one that was not in order of time. `bytes_read` and `bytes_total` are the progress (None: unknown, since one of
    them is a pipe). `left_out` is called for each of several files that cannot be read, or not to its end, and the
    others are read; without it the error is raised. `stop` ends pipes. `origins`: batches have the origins of packets.
    `chained`: the files are parts of one capture, one after the other whatever their times are.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        left_out: LeftOut | None = None,
        stop: Stop | None = None,
        origins: Origins | None = None,
        chained: bool = False,
    ) -> None:
        self.names = [printable(path) for path in paths]
        self.numbering = Numbering(self.names)
        self.bytes_total = _total(paths)
        self._sources: list[Capture] | list[Lane]
        self._is_chained = chained
        if len(paths) == 1 or chained:
            self._sources = [open_capture(path, stop=stop, origins=origins) for path in paths]
        else:
            self._sources = [*_lanes(paths, left_out, stop, origins)]
        #: The names of those that are request logs.
        self.logs = self._logs()

    def _logs(self) -> frozenset[str]:
        """Return the names of request logs. Raises UsageError if others are captures of packets."""
        sources: list[Capture | Lane] = [*self._sources]
        logs = [
            self.names[source.index if isinstance(source, Lane) else at]
            for at, source in enumerate(sources)
            if source.is_log
        ]
        if logs and len(logs) < len(sources):
            raise UsageError(
                f"{safe(logs[0])} is a request log, and others are captures of packets; read them apart, since "
                f"the same messages would count twice"
            )
        return frozenset(logs)

    @property
    def bytes_read(self) -> int:
        return sum(source.bytes_read for source in self._sources)

    @property
    def locate(self) -> Locate | None:
        return self.numbering.locate if len(self.names) > 1 or self.numbering.is_sorted else None

    @cached_property
    def log_lines(self) -> LogLines | None:
        """The lines of request logs; None if the capture has packets."""
        return LogLines(self.numbering.locate, self.names) if self.logs else None

    def place(self, findings: Iterable[Finding]) -> None:
        """Set the file and frame of each finding's witnesses, if packet numbers do not show them; name lines of logs.

        Call it after the reading.
        """
        locate, log_lines = self.locate, self.log_lines
        if locate is None:
            return
        for finding in findings:
            add_places([finding], locate, self.logs)
            if log_lines is not None:
                log_lines.named(finding)

    def __iter__(self) -> Iterator[PacketBatch | Weird]:
        if self._is_chained:
            yield from self._chain()
            return
        match self._sources:
            case [Capture() as single]:
                for item in single:
                    was_forgotten = self.numbering.forgotten
                    if isinstance(item, PacketBatch):
                        self.numbering.add(item.number, np.zeros(len(item.number), np.int64), frames_of(item))
                    yield item
                    if isinstance(item, PacketBatch) and self.numbering.forgotten and not was_forgotten:
                        yield self.numbering.weird(item)
            case lanes:
                yield from merge([lane for lane in lanes if isinstance(lane, Lane)], self.numbering)

    def _chain(self) -> Iterator[PacketBatch | Weird]:
        """Yield the packets of each file after those of the one before."""
        before = 0
        for source in self._sources:
            assert isinstance(source, Capture)
            last = 0
            for item in source:
                if isinstance(item, PacketBatch):
                    last = int(item.number[-1])
                    yield replace(item, number=item.number + before, frame=None)
                else:
                    yield renumbered(item, before)
            before += last


def _lanes(
    paths: Sequence[str | Path], left_out: LeftOut | None, stop: Stop | None, origins: Origins | None
) -> Iterator[Lane]:
    """Yield the lanes of the files that can be read. Raises UnreadableInput if none can."""
    wrong: list[UnreadableInput] = []
    for index, path in enumerate(paths):
        try:
            yield Lane(path, index, left_out=left_out, stop=stop, origins=origins)
        except UnreadableInput as error:
            wrong.append(error)
            if left_out is None or len(wrong) == len(paths):
                raise
            left_out(error)


def renumbered(weird: Weird, by: int) -> Weird:
    """Return a weird whose packets have numbers greater by `by`."""
    first = weird.first_packet
    return msgspec.structs.replace(weird, packet=weird.packet + by, first_packet=None if first is None else first + by)


def open_captures(paths: Sequence[str | Path]) -> Captures:
    """Open all captures that the paths name, as one: `-` is standard input, a folder stands for every capture below it.

    Raises UnreadableInput for a path that is not a capture, and for a folder without one.
    """
    return Captures(expand(paths))


def each_capture(paths: Sequence[str | Path]) -> Iterator[Captures]:
    """Yield the same captures, each on its own, one after the other."""
    for path in expand(paths):
        yield Captures([path])


def expand(paths: Sequence[str | Path], left_out: LeftOut | None = None) -> list[str | Path]:
    """Return the paths to open, with each folder replaced by the captures below it in order of name; other files are
    left out.

    `left_out` is called for captures in folders, and for named ones among several, that cannot be read; these are left
    out too. Raises UsageError without any path, UnreadableInput for a name that does not exist, and if nothing is left.
    """
    if not paths:
        raise UsageError("no capture is named; give a file, a folder, or - for standard input")
    if [str(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) is named twice")
    captures: list[str | Path] = []
    wrong = None
    for path in map(named, paths):
        if str(path) != STANDARD_INPUT and files.is_folder(path):
            captures += _below(path, left_out)
        elif left_out is None or len(paths) == 1 or files.is_pipe(path) or (wrong := _looked_at(path).wrong) is None:
            captures.append(path)
        elif isinstance(wrong, Vanished):
            raise wrong  # more likely mistyped
        else:
            left_out(wrong)
    if wrong is not None and not captures:
        raise wrong
    return captures


def need_captures(paths: Sequence[str | Path]) -> None:
    """Raise UnreadableInput for the first file that is not a capture; pipes are not checked, since they can be read
    only once.
    """
    files.of_each(lambda path: open_capture(path).close(), [path for path in paths if not files.is_pipe(path)])


def _below(folder: str | Path, left_out: LeftOut | None) -> list[str | Path]:
    """Return the captures below a folder. Request logs count only if none of them has packets: the log of a broker
    often stands beside a capture of the same messages.
    """
    contents = files.below(folder)
    captures: list[str | Path] = []
    logs: list[str | Path] = []
    for path, (wrong, is_log) in zip(contents, files.of_each(_looked_at, contents), strict=True):
        if wrong is None:
            (logs if is_log else captures).append(path)
        elif path == Path(folder):
            raise wrong
        elif left_out is not None and (not isinstance(wrong, NoCapture) or ".pcap" in str(path)):
            left_out(wrong)
        elif not isinstance(wrong, NoCapture):
            raise wrong
    if not captures and not logs:
        raise UnreadableInput(f"{folder}: no capture (pcap or pcapng) in this folder")
    return captures or logs


class _Looked(NamedTuple):
    """A file, by its first bytes: why it is not a readable capture, None if it is one; True if it is a request log."""

    wrong: UnreadableInput | None
    is_log: bool = False


def _looked_at(path: str | Path) -> _Looked:
    try:
        capture = open_capture(path)
        capture.close()
    except UnreadableInput as error:
        error.file = printable(path)
        return _Looked(error)
    return _Looked(None, capture.is_log)


def _total(paths: Sequence[str | Path]) -> int | None:
    return None if any(map(files.is_pipe, paths)) else sum(files.of_each(files.size_of, paths))
