"""Things kept until they are told in the order of packets: encoded, which takes a fifth of what they take as
objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import groupby


class Packed:
    """What was added, one behind the other in one buffer; each stands at a packet."""

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

    def since(self, taken: int) -> Iterator[Iterator[bytearray]]:
        """What was added behind the first `taken`, packet by packet: all of one packet as they came."""
        packet = self._packets.__getitem__
        for _, same in groupby(sorted(range(taken, len(self)), key=packet), packet):
            yield map(self._at, same)

    def _at(self, place: int) -> bytearray:
        return self._packed[self._ends[place - 1] if place else 0 : self._ends[place]]
