"""Batches of packets as a running capture gives them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kshark.capture import open_captures
from kshark.capture.batches import chosen
from kshark.live import Status
from kshark.model import PacketBatch

SECOND = 1_000_000_000
#: 2026-11-28 17:00:00 UTC.
BEGIN = 1_795_885_200 * SECOND


def packets(*times_s: float, length: int = 100, first: int = 1) -> PacketBatch:
    """Return packets of one length at these seconds after BEGIN; each is filled with its number."""
    many = len(times_s)
    number = np.arange(first, first + many)
    return PacketBatch(
        b"".join(bytes([it & 0xFF]) * length for it in number.tolist()),
        number,
        np.array([BEGIN + round(time * SECOND) for time in times_s], np.int64),
        np.ones(many, np.int64),
        np.arange(many) * length,
        np.full(many, length, np.int64),
        np.full(many, length, np.int64),
    )


def status(seconds: float, dropped: int = 0, delay_s: float = 0.0) -> Status:
    now = BEGIN + round(seconds * SECOND)
    return Status(("eth0",), BEGIN, now, dropped=dropped, delay_ns=round(delay_s * SECOND))


def live_batches(path: Path, most: int = 50) -> Iterator[PacketBatch]:
    """Yield the packets of a capture in small batches."""
    for item in open_captures([path]):
        if isinstance(item, PacketBatch):
            for begin in range(0, len(item.number), most):
                yield chosen(item, slice(begin, begin + most))
