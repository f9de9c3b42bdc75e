"""Sort the packets of one capture by time: network cards with several queues, and merged interfaces, write them late.

Packets whose times run backwards by at most limits.SORTED_NS change places; those with equal times keep the order of
the file. A larger step back is a step of the clock: the order of the file is right there, and stays. The result does
not depend on the batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark import limits
from kshark.capture.batches import chosen, frames_of, joined
from kshark.link.disorder import Growth, latest_times, packets_sorted
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    pass

_NEVER: Final = 1 << 62


class TimeOrder:
    """Holds packets back until no later one may precede them. A capture in order passes as it is, batch by batch.

    `feed` and `flush` return PacketBatches and Weirds. Sorted packets have the file's numbers in the order of their
    times, and their own as `frame`.
    """

    def __init__(self) -> None:
        #: What is held back: batches in order of time, and weirds after them.
        self._held: deque[PacketBatch | Weird] = deque()
        self._packets = self._bytes = 0
        #: The greatest time since the last step of the clock.
        self._latest_ns = -_NEVER
        self._growth = Growth()

    @property
    def holds(self) -> bool:
        """True if something is held back."""
        return bool(self._held)

    def feed(self, item: PacketBatch | Weird) -> Iterator[PacketBatch | Weird]:
        """Yield what no later packet can precede."""
        if isinstance(item, Weird):
            self._held.append(item)
        elif int(item.time_ns[0]) >= self._latest_ns and bool((item.time_ns[1:] >= item.time_ns[:-1]).all()):
            self._latest_ns = int(item.time_ns[-1])
            self._hold(item)
        else:
            yield from self._sort(item)
        while self._held and self._is_free(self._held[0]):
            yield self._next()

    def flush(self, until_ns: int | None = None) -> Iterator[PacketBatch | Weird]:
        """Yield what is held back, or only what is held up to a time: the capture ends, or no earlier packet can come.

        A damaged file may have any time of 64 bits.
        """
        while self._held and (
            until_ns is None or isinstance(self._held[0], Weird) or int(self._held[0].time_ns[-1]) <= until_ns
        ):
            yield self._next()

    def _is_free(self, item: PacketBatch | Weird) -> bool:
        return (
            isinstance(item, Weird)
            or int(item.time_ns[-1]) <= self._latest_ns - limits.SORTED_NS
            or self._packets > limits.SORTED_PACKETS
            or self._bytes > limits.SORTED_BYTES
        )

    def _hold(self, batch: PacketBatch) -> None:
        self._held.append(batch)
        self._packets += len(batch.number)
        self._bytes += len(batch.buffer)

    def _next(self, *, last: bool = False) -> PacketBatch | Weird:
        """Return the first of what is held, or the last."""
        item = self._held.pop() if last else self._held.popleft()
        if isinstance(item, PacketBatch):
            self._packets -= len(item.number)
            self._bytes -= len(item.buffer)
        return item

    def _sort(self, batch: PacketBatch) -> Iterator[PacketBatch | Weird]:
        """Put the packets of a batch between those held; after a step of the clock nothing waits for earlier ones."""
        latest, steps = latest_times(batch.time_ns, self._latest_ns)
        for row, most_ns in self._growth.reports(latest - batch.time_ns):
            yield packets_sorted(int(batch.number[row]), int(batch.time_ns[row]), most_ns)
        self._latest_ns = int(latest[-1])
        first_ns = int(batch.time_ns[steps == 0].min(initial=_NEVER))
        later, weirds = self._later_than(first_ns)
        steps = np.concatenate([np.zeros(sum(len(part.number) for part in later), np.int64), steps])
        both = joined([*later, batch])
        order = np.lexsort((both.time_ns, steps))
        frame, number, steps = frames_of(both)[order], np.sort(both.number), steps[order]
        secrets, both = both.secrets, chosen(both, order)
        both.number, both.frame, both.secrets = number, frame, secrets
        if steps[-1]:
            yield from self.flush()
            cut = int(np.searchsorted(steps, steps[-1]))
        else:
            cut = int(np.searchsorted(both.time_ns, first_ns))
        for part in _cut(both, cut):
            self._hold(part)
        if steps[-1] and cut:
            yield self._next()
        self._held.extend(weirds)

    def _later_than(self, first_ns: int) -> tuple[list[PacketBatch], list[Weird]]:
        """Take the held batches with packets after that time, and the weirds after them."""
        later: list[PacketBatch] = []
        weirds: list[Weird] = []
        while self._held and (isinstance(self._held[-1], Weird) or int(self._held[-1].time_ns[-1]) > first_ns):
            item = self._next(last=True)
            if isinstance(item, Weird):
                weirds.insert(0, item)
            else:
                later.insert(0, item)
        return later, weirds


def _cut(batch: PacketBatch, row: int) -> list[PacketBatch]:
    """Return the two parts of a batch that are not empty; the first has its secrets."""
    if row in (0, len(batch.number)):
        return [batch]
    parts = [chosen(batch, slice(row)), chosen(batch, slice(row, None))]
    parts[0].secrets = batch.secrets
    return parts
