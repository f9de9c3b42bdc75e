"""The last packets of a capture, in files of a private folder."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from kshark.capture.pcapng_writer import PcapngWriter
from kshark.live.files.interfaces import Interfaces
from kshark.live.files.output import FileOutput
from kshark.model import PacketBatch

#: The time and the bytes held are so many files: more is held by at most one of them.
_FILES: Final = 16


class Segment(NamedTuple):
    """A complete file: its first packet, the time of its first and last packet, and its bytes."""

    path: Path
    first: int
    since_ns: int
    until_ns: int
    size: int


class Held(NamedTuple):
    """The packets held: their files, the number of the first packet, the time of the first and last one."""

    paths: list[Path]
    first: int
    since_ns: int
    until_ns: int


class Segments:
    """Packets of at least `held_ns`, as long as they take at most `held_bytes`.

    Packets are numbered without gaps from file to file. Raises OSError if they cannot be written.
    """

    def __init__(self, folder: Path, interfaces: Interfaces, held_ns: int, held_bytes: int) -> None:
        self._folder = folder
        self._interfaces = interfaces
        self._held_ns = held_ns
        self._held_bytes = held_bytes
        self._complete: deque[Segment] = deque()
        self._number = 0
        self._dropped = 0
        self._writer: PcapngWriter | None = None
        self._file: FileOutput | None = None
        self._current = Segment(folder, 0, 0, 0, 0)
        self.size = 0

    def add(self, batch: PacketBatch) -> None:
        """Add packets, and remove those that need not be held any more."""
        if not len(batch.number):
            return
        since_ns, until_ns = int(batch.time_ns.min()), int(batch.time_ns.max())
        current = self._current
        if self._writer is not None and (
            until_ns - current.since_ns > self._held_ns // _FILES or current.size > self._held_bytes // _FILES
        ):
            self.end()
        blocks = self._begin(int(batch.number[0]), since_ns) if self._writer is None else b""
        assert self._writer is not None
        blocks += self._writer.packets(batch, self._interfaces.of(batch))
        self._make_room(len(blocks), until_ns)
        self._put(blocks, until_ns)

    def lost(self, packets: int) -> None:
        """Mark that the capture lacks packets here."""
        if self._writer is not None and self._writer.has_interfaces:
            self._dropped += packets
            self._put(self._writer.statistics({0: self._dropped}), 0)

    def end(self) -> None:
        """Complete the current file."""
        if self._file is not None:
            self._file.close()
            self._complete.append(self._current)
        self._file = self._writer = None

    @property
    def held(self) -> Held | None:
        """The packets in complete files; None if there are none."""
        if not self._complete:
            return None
        first, last = self._complete[0], self._complete[-1]
        return Held([segment.path for segment in self._complete], first.first, first.since_ns, last.until_ns)

    @property
    def span_ns(self) -> int:
        """The time between the first packet held and the last one."""
        first = self._complete[0] if self._complete else self._current
        return self._current.until_ns - first.since_ns

    def _begin(self, first: int, since_ns: int) -> bytes:
        self._number += 1
        path = self._folder / f"{self._number:08}.pcapng"
        self._writer = PcapngWriter(self._interfaces.origins)
        self._file = FileOutput(path)
        self._dropped = 0
        self._current = Segment(path, first, since_ns, since_ns, 0)
        return self._writer.begin()

    def _put(self, blocks: bytes, until_ns: int) -> None:
        assert self._file is not None
        self._file.write(blocks)
        current = self._current
        self._current = current._replace(until_ns=max(current.until_ns, until_ns), size=current.size + len(blocks))
        self.size += len(blocks)

    def _make_room(self, more: int, now_ns: int) -> None:
        while self._complete and (
            self.size + more > self._held_bytes or self._complete[0].until_ns < now_ns - self._held_ns
        ):
            oldest = self._complete.popleft()
            oldest.path.unlink(missing_ok=True)
            self.size -= oldest.size
