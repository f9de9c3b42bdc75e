"""Encoded results that wait to be shown in the order of packets. Encoded they need a fifth of the memory of objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import groupby


class Packed:
    """A buffer of encoded results, each with its packet."""

    def __init__(self) -> None:
        self._packed = bytearray()
        self._ends = array("q")
        self._packets = array("q")

    def add(self, packet: int, encoded: bytes) -> None:
        self._packed += encoded
        self._ends.append(len(self._packed))
        self._packets.append(packet)

    def __len__(self) -> int:
        return len(self._packets)

    def since(self, skipped: int) -> Iterator[Iterator[bytearray]]:
        """Yield the results after the first `skipped` ones by packet, those of one packet in the order of adding."""
        packet = self._packets.__getitem__
        for _, same in groupby(sorted(range(skipped, len(self)), key=packet), packet):
            yield map(self._at, same)

    def _at(self, index: int) -> bytearray:
        return self._packed[self._ends[index - 1] if index else 0 : self._ends[index]]
