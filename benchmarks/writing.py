"""Write packets as pcapng: the blocks of a whole batch at once, beside one after the other.

python -m benchmarks.writing
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from random import Random
from typing import Final

import numpy as np

from kshark.capture.pcapng_writer import packet_blocks
from kshark.model import PacketBatch

#: Packets of a batch, as a busy interface has them, and their possible lengths.
INPUTS: Final = (
    ("small, one length", 6_000, (100,)),
    ("small RPC", 6_000, (66, 100, 130, 180, 240)),
    ("any length to 1500", 700, tuple(range(60, 1_500))),
    ("large", 50, (32_000,)),
    ("a quiet interface", 5, (66, 100)),
)
_ROUNDS: Final = 5
_SECONDS: Final = 0.2
_HEAD: Final = struct.Struct("<IIIIIII")


def batch_of(packets: int, lengths: tuple[int, ...]) -> PacketBatch:
    """Return packets of these lengths, one after the other."""
    order = Random(1)
    length = np.array([order.choice(lengths) for _ in range(packets)], np.int64)
    number = np.arange(1, packets + 1)
    offset = np.cumsum(length) - length
    data = order.randbytes(int(length.sum()))
    return PacketBatch(data, number, number + 10**18, np.ones(packets, np.int64), offset, length, length)


def one_by_one(batch: PacketBatch, interface: int = 0) -> bytes:
    """Return the same blocks, packet by packet."""
    blocks: list[bytes] = []
    columns = (batch.time_ns, batch.offset, batch.length, batch.wire_length)
    for time_ns, offset, length, wire in zip(*(column.tolist() for column in columns), strict=True):
        size = 32 + length + (-length & 3)
        head = _HEAD.pack(6, size, interface, time_ns >> 32, time_ns & 0xFFFFFFFF, length, wire)
        blocks += (head, batch.buffer[offset : offset + length], bytes(-length & 3), struct.pack("<I", size))
    return b"".join(blocks)


def nanoseconds(write: Callable[[], bytes], packets: int) -> float:
    """Return the least CPU time of a packet over the rounds."""
    least = float("inf")
    for _ in range(_ROUNDS):
        turns, begin = 0, time.process_time_ns()
        while (spent := time.process_time_ns() - begin) < _SECONDS * 1e9:
            write()
            turns += 1
        least = min(least, spent / turns / packets)
    return least


def main() -> None:
    print(f"{'packets of a batch':24} {'batch':>8} {'one by one':>11}  ns a packet")
    for name, packets, lengths in INPUTS:
        batch, interfaces = batch_of(packets, lengths), np.zeros(packets, np.int64)
        assert packet_blocks(batch, interfaces) == one_by_one(batch)
        at_once = nanoseconds(lambda batch=batch, numbers=interfaces: packet_blocks(batch, numbers), packets)  # type: ignore[misc]
        single = nanoseconds(lambda batch=batch: one_by_one(batch), packets)  # type: ignore[misc]
        print(f"{name:24} {at_once:8.0f} {single:11.0f}")


if __name__ == "__main__":
    main()
