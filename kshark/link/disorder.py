"""Measure how far a capture's times run backwards: interfaces, queues or processors wrote it, each at its own pace.

Packets of one connection are ordered by their sequence numbers; packets of different connections that lie within this
time of each other have no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.model import PacketBatch, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


#: The codes that report it.
DISORDERS: Final = frozenset({"TIME_DISORDER", "ACKED_UNSEEN", "CAPTURES_OVERLAP"})


def disorder(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Packet times run backwards, from this packet on by up to `most_ns`, which only grows."""
    return Weird("TIME_DISORDER", "link", packet, time_ns, _by(most_ns))


def acked_unseen(flow: int, side: Side, packet: int, time_ns: int, since: int, most_ns: int) -> Weird:
    """Bytes of this packet were acknowledged by an earlier one, `since`, up to `most_ns` before."""
    return Weird("ACKED_UNSEEN", "reassembly", packet, time_ns, _by(most_ns), flow, side, since)


def overlap(packet: int, time_ns: int, most_ns: int) -> Weird:
    """Captures overlap in time up to this packet: their clocks may differ by up to `most_ns`."""
    return Weird("CAPTURES_OVERLAP", "capture", packet, time_ns, _by(most_ns))


def _by(most_ns: int) -> str:
    return f"by up to {most_ns / 1e9:.9f} s"


def disorder_ns(weird: Weird) -> int | None:
    """Return the time of such a weird, None for others: packets of different connections within that time have no
    order.
    """
    return int(weird.detail.split()[-2].replace(".", "")) if weird.code in DISORDERS else None


class Growth:
    """Report each growth of a value, at its row and rounded up to a power of two, so that reports are rare."""

    def __init__(self) -> None:
        self._reported_ns = 1

    def reports(self, far_ns: Int64s) -> Iterator[tuple[int, int]]:
        """Yield the rows whose value exceeds all earlier reports, with the new reported value."""
        while len(rows := np.flatnonzero(far_ns >= self._reported_ns)):
            row = int(rows[0])
            self._reported_ns = 1 << int(far_ns[row]).bit_length()
            yield row, self._reported_ns


class Disorder:
    """The greatest step back of packet times; reported each time that it grows."""

    def __init__(self) -> None:
        self._growth = Growth()

    def reports(self, batch: PacketBatch, clock: Int64s) -> Iterator[Weird]:
        """Yield the weirds of a batch. `clock` is the greatest time up to each packet."""
        for row, most_ns in self._growth.reports(clock - batch.time_ns):
            yield disorder(int(batch.number[row]), int(batch.time_ns[row]), most_ns)
