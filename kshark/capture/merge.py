"""Merge several captures into one, in order of time.

As in mergecap, the next packet comes from the capture whose next packet is earliest, and the order within a capture
stays. Captures that follow each other (rotated files) pass batch by batch, and are opened only when their time comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kshark.capture.batches import chosen, frames_of, joined
from kshark.capture.numbering import Numbering
from kshark.capture.origins import Origins
from kshark.capture.overlap import Overlap
from kshark.capture.source import open_capture
from kshark.capture.stop import Stop
from kshark.errors import UnreadableInput
from kshark.limits import BATCH_BYTES
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: Called for a file that cannot be read, or not to its end.
LeftOut = Callable[[UnreadableInput], None]

NEVER: Final = (1 << 63) - 1
#: The size of a read when very many captures overlap.
SMALLEST_READ: Final = 1 << 14


class Part(Struct, frozen=True):
    """Rows of a lane's batch that are next: their sort keys, and the distance of each packet number from the previous
    one.
    """

    lane: Lane
    batch: PacketBatch
    keys: Int64s
    steps: Int64s


class Lane:
    """One capture in the merge, or its first `most` bytes. A regular file is closed again until its first packet is
    due.

    `left_out` is called when reading fails, and the lane ends; without it the error is raised. `stop` ends a pipe.
    `keys`: by row of the batch the greatest time so far; it orders rows of different captures even if a capture's times
    jump back.
    """

    def __init__(
        self,
        path: str | Path,
        index: int,
        most: int | None = None,
        *,
        left_out: LeftOut | None = None,
        stop: Stop | None = None,
        origins: Origins | None = None,
    ) -> None:
        self.index = index
        self.starts_ns = -NEVER
        self.batch: PacketBatch | None = None
        self.keys: Int64s = np.empty(0, np.int64)
        self.delivered = 0
        self._path = path
        self._most = most
        self._left_out = left_out
        self._origins = origins
        self._capture = open_capture(path, most, stop, origins)
        self._frame_before = 0
        self._frames: Int64s = np.empty(0, np.int64)
        self._numbers: Int64s = np.empty(0, np.int64)
        self._items = self._first_looked_at()

    @property
    def bytes_read(self) -> int:
        return self._capture.bytes_read

    @property
    def is_log(self) -> bool:
        """True if it is a request log."""
        return self._capture.is_log

    def advance(self, read_bytes: int) -> Iterator[Weird]:
        """Load the capture's next batch, None at its end; yield the weirds before it."""
        self._capture.read_bytes = read_bytes
        self.batch = None
        for item in self._items:
            if isinstance(item, PacketBatch):
                before = self.keys[-1] if len(self.keys) else -NEVER
                self.batch, self.delivered = item, 0
                self.keys = np.maximum(np.maximum.accumulate(item.time_ns), before)
                self._frame_before = int(self._frames[-1]) if len(self._frames) else 0
                self._frames, self._numbers = item.number, np.zeros(len(item.number), np.int64)
                return
            yield self._placed(item)

    def next_key(self) -> tuple[int, int]:
        """Return the sort key of the next row; at equal times the capture named first comes first."""
        return int(self.keys[self.delivered]), self.index

    def last_key(self) -> tuple[int, int]:
        return int(self.keys[-1]), self.index

    def part_until(self, bound: tuple[int, int]) -> Part | None:
        """Return the rows that come before `bound`."""
        assert self.batch is not None
        start, end = (
            self.delivered,
            int(np.searchsorted(self.keys, bound[0], "right" if self.index <= bound[1] else "left")),
        )
        if end <= start:
            return None
        rows = slice(start, end)
        steps = np.diff(self.batch.number[rows], prepend=self._frames[start - 1] if start else self._frame_before)
        batch = chosen(self.batch, rows)
        batch.secrets = b"" if start else self.batch.secrets
        return Part(self, batch, self.keys[rows], steps)

    def give(self, numbers: Int64s) -> None:
        """Note the numbers under which the next rows were delivered."""
        self._numbers[self.delivered : self.delivered + len(numbers)] = numbers
        self.delivered += len(numbers)

    def _first_looked_at(self) -> Iterator[PacketBatch | Weird]:
        seen: list[PacketBatch | Weird] = []
        items = iter(self._capture)
        for item in items:
            seen.append(item)
            if isinstance(item, PacketBatch):
                self.starts_ns = int(item.time_ns[0])
                break
        if not self._capture.regular:
            return chain(seen, items)
        self._capture.close()
        return self._again()

    def _again(self) -> Iterator[PacketBatch | Weird]:
        try:
            self._capture = open_capture(self._path, self._most, None, self._origins)
            yield from self._capture
        except UnreadableInput as error:
            if self._left_out is None:
                raise
            self._left_out(error)

    def _placed(self, weird: Weird) -> Weird:
        """Return the weird with the packet's number in the merge and the capture's name."""
        at = int(np.searchsorted(self._frames, weird.packet, "right")) - 1
        number = int(self._numbers[at]) if at >= 0 else 0
        return replace(weird, packet=number, detail=f"{self._path}: {weird.detail}")


def merge(lanes: Sequence[Lane], numbering: Numbering, before: int = 0) -> Iterator[PacketBatch | Weird]:
    """Yield all captures' packets, numbered in the order of the merge; `before` packets came earlier."""
    waiting = deque(sorted(lanes, key=lambda lane: (lane.starts_ns, lane.index)))
    active: list[Lane] = []
    overlap: Overlap | None = None
    number = before
    while waiting or active:
        due = min((lane.next_key() for lane in active), default=(NEVER, len(lanes)))
        if waiting and (waiting[0].starts_ns, waiting[0].index) < due:
            arriving = [waiting.popleft()]
            overlap = overlap or (Overlap(arriving[0].starts_ns) if active else None)
            active += arriving
        else:
            bound = min(lane.last_key() for lane in active)
            if waiting:
                bound = min(bound, (waiting[0].starts_ns, waiting[0].index))
            was_forgotten = numbering.forgotten
            batch, keys = _take(active, bound, number, numbering)
            number = int(batch.number[-1])
            if overlap is not None:
                yield from overlap.reports(batch.number, keys)
            yield batch
            if numbering.forgotten and not was_forgotten:
                yield numbering.weird(batch)
            arriving = [lane for lane in active if lane.delivered == len(lane.keys)]
        for lane in arriving:
            yield from lane.advance(max(SMALLEST_READ, BATCH_BYTES // len(active)))
        active = sorted((lane for lane in active if lane.batch is not None), key=lambda lane: lane.index)
        overlap = overlap if len(active) > 1 else None


def _take(
    active: Sequence[Lane], bound: tuple[int, int], number: int, numbering: Numbering
) -> tuple[PacketBatch, Int64s]:
    """Return the rows of all lanes before `bound` as one batch with the numbers after `number`, and their sort keys."""
    parts = [part for lane in active if (part := lane.part_until(bound)) is not None]
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable") if len(parts) > 1 else slice(None)
    frame = np.concatenate([frames_of(part.batch) for part in parts])[order]
    file = np.concatenate([np.full(len(part.keys), part.lane.index) for part in parts])[order]
    numbers = number + np.cumsum(np.concatenate([part.steps for part in parts])[order])
    numbering.add(numbers, file, frame)
    back = np.empty(len(keys), np.int64)
    back[order] = numbers
    for part, given in zip(parts, np.split(back, np.cumsum([len(part.keys) for part in parts])[:-1]), strict=True):
        part.lane.give(given)
    every = joined([part.batch for part in parts])
    columns = {
        name: getattr(every, name)[order] for name in ("time_ns", "link_type", "offset", "length", "wire_length")
    }
    origin = None if every.origin is None else every.origin[order]
    return PacketBatch(every.buffer, numbers, **columns, secrets=every.secrets, origin=origin), keys[order]
