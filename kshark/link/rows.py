"""Packets of a batch that are at the same layer, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

    Bytes = NDArray[np.uint8]


class Rows(NamedTuple):
    """By row of the batch: start of the next header, its ethertype, end of the captured bytes, end of the packet."""

    row: Int64s
    start: Int64s
    ethertype: NDArray[Any]
    end: Int64s
    wire_end: Int64s

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return the chosen rows."""
        return self if chosen.all() else Rows(*(column[chosen] for column in self))


def uint16(view: Bytes, position: Int64s) -> NDArray[Any]:
    """Return the big-endian value at each position."""
    return view[position].astype(np.uint16) << 8 | view[position + 1]
