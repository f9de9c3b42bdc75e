"""Holes: bytes that the capture does not hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.model import Weird

#: Weirds about packets that the capturing host dropped.
DROPS: Final = frozenset({"PACKETS_DROPPED"})


class Hole(Struct, frozen=True):
    """Missing bytes between two packets.

    `reason`: a word of kshark.analysis.facts.judge.REASONS.
    """

    first_packet: int
    last_packet: int
    reason: str


class Holes(list[Hole]):
    """Holes in the order of their detection. When there are too many, fewer holes cover them."""

    __slots__ = ("reach",)

    def __init__(self, holes: Iterable[Hole] = ()) -> None:
        #: The highest last packet of all holes.
        self.reach = -1
        for hole in holes:
            self.add(hole)

    def add(self, hole: Hole) -> None:
        self.append(hole)
        if hole.last_packet > self.reach:
            self.reach = hole.last_packet
        if len(self) > limits.HOLES:
            old = self[: limits.HOLES // 2 + 1]  # many at once: to merge two each time would move all others each time
            self[: len(old)] = [
                Hole(min(hole.first_packet for hole in old), max(hole.last_packet for hole in old), "gap")
            ]

    def between(self, first: int, last: int) -> str | None:
        """Return why traffic between two packets may be missing, or None if it is complete."""
        if self.reach <= first:
            return None
        return next((hole.reason for hole in self if hole.first_packet < last and hole.last_packet > first), None)

    def join(self, others: Holes) -> None:
        for hole in others:
            self.add(hole)


class Drops:
    """Packets between which the capturing host dropped packets: they explain the bytes that are missing there."""

    __slots__ = ("_holes",)

    def __init__(self) -> None:
        self._holes = Holes()

    def note(self, weird: Weird) -> None:
        """Take a weird of the capture. Readers place it at the packet before or after the drop."""
        if weird.code in DROPS:
            first = weird.packet - 1 if weird.first_packet is None else weird.first_packet
            self._holes.add(Hole(first, weird.packet + 1, "capture_lost"))

    def reason(self, first: int, last: int) -> str:
        """Return why bytes between two packets are missing, both included."""
        return "gap" if self._holes.between(first - 1, last + 1) is None else "capture_lost"
