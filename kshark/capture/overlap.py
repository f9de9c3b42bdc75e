"""Measure how long captures overlap in time: their clocks may differ by up to that time, as far as the capture
shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kshark.limits import CLOCKS_NS
from kshark.link.disorder import Growth, overlap
from kshark.model import Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


class Overlap:
    """One stretch of overlapping captures from `since_ns` on; rotated files overlap for a packet or two at most.

    Reported each time it grows, up to limits.CLOCKS_NS.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._growth = Growth()

    def reports(self, numbers: Int64s, keys_ns: Int64s) -> Iterator[Weird]:
        """Yield the weirds for the numbers and times of the next packets of all captures, in order."""
        for row, most_ns in self._growth.reports(np.minimum(keys_ns - self._since_ns, CLOCKS_NS)):
            yield overlap(int(numbers[row]), int(keys_ns[row]), min(most_ns, CLOCKS_NS))
