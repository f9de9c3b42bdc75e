"""The interfaces of a running capture, as pcapng files describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.capture.origins import Description, Option, Origins

if TYPE_CHECKING:
    from kshark.model import Int64s, PacketBatch

_IF_NAME: Final = 2
_IF_FILTER: Final = 11
#: The kind of filter in that option: text for libpcap.
_LIBPCAP: Final = b"\0"


class Interfaces:
    """Numbers of interfaces: one for each link type, with the names of all interfaces that may have it.

    `received` counts packets by number.
    """

    def __init__(self, names: Sequence[str], snap_length: int, capture_filter: str | None = None) -> None:
        self.origins = Origins()
        self.received: Counter[int] = Counter()
        options: list[Option] = [(_IF_NAME, ",".join(names).encode(errors="replace"))]
        if capture_filter:
            options.append((_IF_FILTER, _LIBPCAP + capture_filter.encode(errors="replace")))
        self._options = tuple(options)
        self._snap_length = snap_length
        self._numbers: dict[int, int] = {}

    def of(self, batch: PacketBatch) -> Int64s:
        """Return the interface of each packet, and count them."""
        types, rows = np.unique(batch.link_type, return_inverse=True)
        numbers = np.array([self._number(link_type) for link_type in types.tolist()], np.int64)
        for number, many in zip(numbers.tolist(), np.bincount(rows, minlength=len(types)).tolist(), strict=True):
            self.received[number] += many
        return numbers[rows]

    @property
    def numbers(self) -> range:
        """The numbers of the interfaces so far."""
        return range(len(self.origins.interfaces))

    def _number(self, link_type: int) -> int:
        if link_type not in self._numbers:
            description = Description(len(self._numbers), link_type, self._snap_length, self._options)
            self._numbers[link_type] = self.origins.interface(description)
        return self._numbers[link_type]
