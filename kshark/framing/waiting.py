"""Waiting of one connection in the time line, and its position there if it waited too long.

Bytes that are not understood wait, and so do bytes after a hole that may still be filled; answers wait for their
requests. Other connections are held for that for limits.HELD_NS of packet time. An item that becomes known after that
stands at the packet at which it became known, a packet of its own connection. So the order does not depend on the size
of batches, nor on the other connections that are read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from kshark import limits
from kshark.framing.clock import Clock
from kshark.model import Late

NEVER: Final = 1 << 62


class Waits:
    """The waiting state of one connection. Packets are those of its bytes and events; side None means both sides."""

    __slots__ = ("_known", "_news", "hole", "late", "since")

    def __init__(self) -> None:
        self._news: list[tuple[int, int]] | None = None
        #: The first packet after a hole that is not decided yet.
        self.hole = NEVER
        #: By side: items of this packet and later ones wait.
        self.since = (NEVER, NEVER)
        #: Other connections do not wait for this one any more.
        self.late = False
        #: By side, pairs: items from the first packet on became known at the second. Both rise from pair to pair. None:
        #: nothing became known late.
        self._known: tuple[list[tuple[int, int]], list[tuple[int, int]]] | None = None

    @property
    def waits(self) -> bool:
        return self.since != (NEVER, NEVER)

    def position(self, packet: int, side: int | None = None) -> int:
        """Return the position of an item in the time line: its packet, or the packet at which it became known late."""
        if self._known is None:
            return packet
        if side is None:
            return max(self.position(packet, 0), self.position(packet, 1))
        pairs = self._known[side]
        at = bisect_right(pairs, (packet, NEVER))
        return max(packet, pairs[at - 1][1]) if at else packet

    def known_at(self, packet: int, side: int | None) -> int:
        """Return the item's position; NEVER if it still waits."""
        since = min(self.since) if side is None else self.since[side]
        return NEVER if packet >= since or packet >= self.hole else self.position(packet, side)

    def wait(self, since: tuple[int, int], packet: int, clock: Clock) -> None:
        """Let the items of the packets `since` (by side) and later ones wait. Items that waited before become known at
        `packet`.
        """
        self.late = self.late or (self.waits and self._waited(packet, clock) > limits.HELD_NS)
        for side in (0, 1) if self.late else ():
            if self.since[side] < since[side]:
                self._know((side,), self.since[side], packet)
        self.since = since
        self.late = self.late and self.waits

    def know(self, late: Late) -> None:
        """Record that items of both directions became known late."""
        self._know((0, 1), late.since, late.packet)

    def _know(self, sides: tuple[int, ...], since: int, packet: int) -> None:
        if self._known is None:
            self._known = [], []
        for side in sides:
            _add(self._known[side], since, packet)
        self._news = self._news or []
        self._news.append((since, packet))

    def news(self) -> list[tuple[int, int]]:
        """Return the pairs added since the last call: first packet concerned, packet at which it became known."""
        news, self._news = self._news, None
        return news or []

    def let_go(self) -> None:
        """Stop waiting: there is no memory left."""
        self.late, self.since = self.waits, (NEVER, NEVER)

    def forget(self, horizon: int) -> bool:
        """Drop finished pairs; True if nothing is left."""
        if self._known is not None:
            finished = min(horizon, self.hole, *self.since)
            for pairs in self._known:
                pairs[:] = [pair for pair in pairs if pair[1] > finished]
            if not (self._known[0] or self._known[1]):
                self._known = None
        return not self.waits and self._known is None and self.hole == NEVER

    def held_from(self, packet: int | None, clock: Clock) -> int:
        """Return the packet from which on other connections are held; NEVER for none.

        `packet`: everything of this connection before it is decided; None: everything until now.
        """
        held = self._held()
        if self.late or held == NEVER:
            return NEVER
        now_ns = clock.now_ns if packet is None else clock.at(packet)
        return NEVER if now_ns - clock.at(held) > limits.HELD_NS else held

    def _held(self) -> int:
        first, second = self.since
        return min(
            NEVER if first == NEVER else self.position(first, 0), NEVER if second == NEVER else self.position(second, 1)
        )

    def _waited(self, packet: int, clock: Clock) -> int:
        """Return the nanoseconds waited so far."""
        held = self._held()
        return 0 if held == NEVER else clock.at(packet) - clock.at(held)


def _add(pairs: list[tuple[int, int]], since: int, packet: int) -> None:
    """Add one pair.

    A pair is redundant if another one with the same first packet exists, or if an earlier pair became known later.
    """
    at = bisect_left(pairs, (since, packet))
    if (at < len(pairs) and pairs[at][0] == since) or (at and pairs[at - 1][1] >= packet):
        return
    low = at - 1 if at and pairs[at - 1][0] == since else at
    while at < len(pairs) and pairs[at][1] <= packet:
        at += 1
    pairs[low:at] = [(since, packet)]
