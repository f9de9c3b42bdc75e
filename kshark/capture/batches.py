"""Rows of packet batches: choose some, join several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kshark.model import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s


def frames_of(batch: PacketBatch) -> Int64s:
    """Return the numbers of the packets in their file."""
    return batch.number if batch.frame is None else batch.frame


def chosen(batch: PacketBatch, rows: NDArray[np.bool_] | Int64s | slice) -> PacketBatch:
    """Return some rows of a batch, over the same buffer and without its secrets."""
    return PacketBatch(
        batch.buffer,
        batch.number[rows],
        batch.time_ns[rows],
        batch.link_type[rows],
        batch.offset[rows],
        batch.length[rows],
        batch.wire_length[rows],
        frame=None if batch.frame is None else batch.frame[rows],
        origin=None if batch.origin is None else batch.origin[rows],
    )


def joined(batches: Sequence[PacketBatch]) -> PacketBatch:
    """Join several batches in one buffer; a single one keeps its own."""
    if len(batches) == 1:
        return batches[0]
    begins = [int(batch.offset.min()) for batch in batches]
    pieces = [
        batch.buffer[begin : int((batch.offset + batch.length).max())]
        for batch, begin in zip(batches, begins, strict=True)
    ]
    moved = np.cumsum([0] + [len(piece) for piece in pieces[:-1]]) - begins
    origins = [batch.origin for batch in batches if batch.origin is not None]
    in_file_order = all(batch.frame is None for batch in batches)
    return PacketBatch(
        buffer=b"".join(pieces),
        number=np.concatenate([batch.number for batch in batches]),
        time_ns=np.concatenate([batch.time_ns for batch in batches]),
        link_type=np.concatenate([batch.link_type for batch in batches]),
        offset=np.concatenate([batch.offset + by for batch, by in zip(batches, moved.tolist(), strict=True)]),
        length=np.concatenate([batch.length for batch in batches]),
        wire_length=np.concatenate([batch.wire_length for batch in batches]),
        secrets=b"".join(batch.secrets for batch in batches),
        frame=None if in_file_order else np.concatenate([frames_of(batch) for batch in batches]),
        origin=np.concatenate(origins) if len(origins) == len(batches) else None,
    )
