"""How far the capture's own times run backwards: several interfaces, queues or processors wrote it, each at its own
pace.

Packets of one connection have an order, their sequence numbers; packets of different connections that lie within this
time of each other have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.model import PacketBatch, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


#: Codes of what says so.
DISORDERS: Final = frozenset({"TIME_DISORDER", "ACKED_UNSEEN", "CAPTURES_OVERLAP"})


def disorder(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Packet times run backwards, from this packet on by up to `most_ns`, which only grows."""
    return Weird("TIME_DISORDER", "link", packet, time_ns, _by(most_ns))


def acked_unseen(flow: int, side: Side, packet: int, time_ns: int, since: int, most_ns: int) -> Weird:
    """What comes with this packet was acknowledged by an earlier one, `since`, up to `most_ns` before."""
    return Weird("ACKED_UNSEEN", "reassembly", packet, time_ns, _by(most_ns), flow, side, since)


def overlap(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Captures lie beside each other in time up to this packet: their clocks may differ by up to `most_ns`."""
    return Weird("CAPTURES_OVERLAP", "capture", packet, time_ns, _by(most_ns))


def _by(most_ns: int) -> str:
    return f"by up to {most_ns / 1e9:.9f} s"


def disorder_ns(weird: Weird) -> int | None:
    """What such a weird said, None for others: packets of different connections that lie so close to each other have no
    order."""
    return int(weird.detail.split()[-2].replace(".", "")) if weird.code in DISORDERS else None


class Growth:
    """Tells each time that something grows, at the row that shows it, and then rounded up to a power of two: that is
    seldom."""

    def __init__(self) -> None:
        self._told_ns = 1

    def told(self, far_ns: Int64s) -> Iterator[tuple[int, int]]:
        """Rows of the next ones that are greater than all before, and what is told there."""
        while len(rows := np.flatnonzero(far_ns >= self._told_ns)):
            row = int(rows[0])
            self._told_ns = 1 << int(far_ns[row]).bit_length()
            yield row, self._told_ns


class Disorder:
    """How far times run backwards, each time that grows."""

    def __init__(self) -> None:
        self._growth = Growth()

    def told(self, batch: PacketBatch, clock: Int64s) -> Iterator[Weird]:
        """`clock` is the greatest time up to each packet."""
        for row, most_ns in self._growth.told(clock - batch.time_ns):
            yield disorder(int(batch.number[row]), int(batch.time_ns[row]), most_ns)
