"""Holes: bytes that the capture does not hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kshark import limits


class Hole(NamedTuple):
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
