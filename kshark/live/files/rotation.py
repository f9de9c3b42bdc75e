"""Decide which packets go into which file, and at which one the capture ends; without files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kshark.capture.pcapng_writer import block_sizes
from kshark.live.files.conditions import NO_CONDITIONS, Conditions

if TYPE_CHECKING:
    from kshark.model import Int64s, PacketBatch

_NEVER: Final = (1 << 63) - 1


class Part(NamedTuple):
    """Rows of a batch for one file. `opens`: it is a new file."""

    begin: int
    end: int
    opens: bool


class Rotation:
    """Divide batches among files. Times are the packets'.

    `ends`: conditions for the end of the capture, `full` for the end of a file. `since_ns` is the beginning of the
    capture. A file begins with its first packet, so that none is without packets; the first one is there already.
    `header`: bytes of a file before its packets.
    """

    def __init__(
        self, ends: Conditions = NO_CONDITIONS, full: Conditions = NO_CONDITIONS, since_ns: int = 0, header: int = 0
    ) -> None:
        self.is_complete = False
        #: Files so far.
        self.files = 1
        self._ends = ends
        self._full = full
        self._header = header
        self._is_single = full == NO_CONDITIONS
        #: With several files, `-a filesize` is the size of each.
        sizes = [size for size in (full.filesize, None if self._is_single else ends.filesize) if size is not None]
        self._most_bytes = min(sizes, default=_NEVER)
        self._last_ns = _NEVER if ends.duration_ns is None else since_ns + ends.duration_ns
        self._left = _NEVER if ends.packets is None else ends.packets
        self._single_left = ends.filesize if self._is_single and ends.filesize is not None else _NEVER
        self._begin(since_ns)

    def take(self, batch: PacketBatch) -> list[Part]:
        """Return the parts of a batch; rows after the last one are not part of the capture."""
        many = len(batch.number)
        if not many or self.is_complete:
            return []
        end = self._end(batch.time_ns, many)
        sizes = block_sizes(batch)
        if self._is_single:
            until = self._taken(sizes[:end])
            return [Part(0, until, opens=False)] if until else []
        parts: list[Part] = []
        row = 0
        while row < end:
            opens = self._is_full(int(batch.time_ns[row]))
            if opens and self.files == self._ends.files:
                self.is_complete = True
                break
            if opens:
                self.files += 1
                self._begin(int(batch.time_ns[row]))
            until = self._fill(batch.time_ns[row:end], sizes[row:end]) + row
            parts.append(Part(row, until, opens))
            row = until
        return parts

    def passed(self, now_ns: int) -> bool:
        """Take the time up to which all packets were given; return True if the current file has its last packet."""
        if now_ns >= self._last_ns:
            self.is_complete = True
        return self._packets > 0 and self._is_full(now_ns)

    def _end(self, times: Int64s, many: int) -> int:
        """Return the number of rows before the end of the capture by time or number."""
        late = np.flatnonzero(times >= self._last_ns)
        end = min(int(late[0]) if len(late) else many, self._left)
        self.is_complete = end < many or end == self._left
        self._left -= end
        return end

    def _taken(self, sizes: Int64s) -> int:
        """Return the number of rows until the only file has its size."""
        if self._single_left == _NEVER:
            return len(sizes)
        until = min(int(np.searchsorted(np.cumsum(sizes), self._single_left - self._bytes)) + 1, len(sizes))
        self._bytes += int(sizes[:until].sum())
        self.is_complete = self.is_complete or self._bytes >= self._single_left
        return until

    def _begin(self, time_ns: int) -> None:
        self._packets, self._bytes = 0, self._header
        duration, interval = self._full.duration_ns, self._full.interval_ns
        after = _NEVER if duration is None else time_ns + duration
        multiple = _NEVER if interval is None else (time_ns // interval + 1) * interval
        self._deadline_ns = min(after, multiple)

    def _is_full(self, time_ns: int) -> bool:
        most = self._full.packets
        return (
            time_ns >= self._deadline_ns
            or self._bytes >= self._most_bytes
            or (most is not None and self._packets >= most)
        )

    def _fill(self, times: Int64s, sizes: Int64s) -> int:
        """Return how many of these rows the current file takes; at least one, since it is not full."""
        most = len(times)
        if self._full.packets is not None:
            most = min(most, self._full.packets - self._packets)
        if self._most_bytes != _NEVER:
            most = min(most, int(np.searchsorted(np.cumsum(sizes), self._most_bytes - self._bytes)) + 1)
        late = np.flatnonzero(times[:most] >= self._deadline_ns)
        if len(late):
            most = int(late[0])
        self._packets += most
        self._bytes += int(sizes[:most].sum())
        return most
