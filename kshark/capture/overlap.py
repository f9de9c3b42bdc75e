"""How long captures lie beside each other in time: as long as that, their clocks may differ, as far as anybody can see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kshark.limits import CLOCKS_NS
from kshark.link.disorder import overlap
from kshark.model import Weird

if TYPE_CHECKING:
    from kshark.model import Int64s


class Overlap:
    """One stretch of captures that lie beside each other from `since_ns` on; rotated files do for no longer than a packet or two.

    Told each time it grows, at the packet that shows it, and then rounded up to a power of two, up to limits.CLOCKS_NS.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._told_ns = 1

    def told(self, numbers: Int64s, keys_ns: Int64s) -> Iterator[Weird]:
        """Numbers and times of the next packets of all captures, in order."""
        while self._told_ns <= CLOCKS_NS and int(keys_ns[-1]) - self._since_ns >= self._told_ns:
            row = int(np.searchsorted(keys_ns, self._since_ns + self._told_ns))
            time_ns = int(keys_ns[row])
            self._told_ns = 1 << (time_ns - self._since_ns).bit_length()
            yield overlap(int(numbers[row]), time_ns, min(self._told_ns, CLOCKS_NS))
