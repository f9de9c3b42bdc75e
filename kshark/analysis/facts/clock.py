"""How far the times of a capture's packets can be trusted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """`disorder_ns`: packets of different connections that lie within this time have no order, whatever the file
    says."""

    disorder_ns: int = 0

    def is_before(self, one_ns: int, two_ns: int) -> bool:
        """Whether a packet of one connection surely came before one of another."""
        return two_ns - one_ns > self.disorder_ns if self.disorder_ns else two_ns >= one_ns
