"""What of one connection waits in the time line until more of it is known, and where it stands if that took too long.

Bytes that are not understood wait, and what follows a hole that may still be filled; answers wait for their requests.
Other connections are held for that for limits.HELD_NS of packet time. What is known after that stands where it was
known, at a packet of its own connection, so that the order is the same however many packets come at once, and whichever
other connections are read beside."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from kshark import limits
from kshark.framing.clock import Clock
from kshark.model import Late

NEVER: Final = 1 << 62


class Waits:
    """Of one connection. Packets are those of its bytes and events; what is asked for a `side` of None belongs to
    both."""

    __slots__ = ("_known", "_news", "hole", "late", "since")

    def __init__(self) -> None:
        self._news: list[tuple[int, int]] | None = None
        #: The first packet behind a hole that is not decided yet.
        self.hole = NEVER
        #: By side: what came with this packet and later ones waits.
        self.since = (NEVER, NEVER)
        #: Others do not wait for this connection any more.
        self.late = False
        #: By side: what came from one packet on and before another one was known with that one; both rise from one such
        #: pair to the next. None: nothing was known late.
        self._known: tuple[list[tuple[int, int]], list[tuple[int, int]]] | None = None

    @property
    def waits(self) -> bool:
        return self.since != (NEVER, NEVER)

    def place(self, packet: int, side: int | None = None) -> int:
        """Where in the time line that stands which came with a packet: with it, or with the one with which it was known
        late."""
        if self._known is None:
            return packet
        if side is None:
            return max(self.place(packet, 0), self.place(packet, 1))
        known = self._known[side]
        at = bisect_right(known, (packet, NEVER))
        return max(packet, known[at - 1][1]) if at else packet

    def known(self, packet: int, side: int | None) -> int:
        """Its place; NEVER where it waits still."""
        since = min(self.since) if side is None else self.since[side]
        return NEVER if packet >= since or packet >= self.hole else self.place(packet, side)

    def wait(self, since: tuple[int, int], packet: int, clock: Clock) -> None:
        """From now on waits, by side, what came with the packet `since` or later; what waited before that is known with
        `packet`."""
        self.late = self.late or (self.waits and self._waited(packet, clock) > limits.HELD_NS)
        for side in (0, 1) if self.late else ():
            if self.since[side] < since[side]:
                self._know((side,), self.since[side], packet)
        self.since = since
        self.late = self.late and self.waits

    def know(self, late: Late) -> None:
        """What came in both directions was known late."""
        self._know((0, 1), late.since, late.packet)

    def _know(self, sides: tuple[int, ...], since: int, packet: int) -> None:
        if self._known is None:
            self._known = [], []
        for side in sides:
            _add(self._known[side], since, packet)
        self._news = self._news or []
        self._news.append((since, packet))

    def news(self) -> list[tuple[int, int]]:
        """What was known late since this was asked: from which packet on, and with which one."""
        news, self._news = self._news, None
        return news or []

    def let_go(self) -> None:
        """There is no room to wait any longer."""
        self.late, self.since = self.waits, (NEVER, NEVER)

    def forget(self, horizon: int) -> bool:
        """Forgets what is over; True if nothing is left."""
        if self._known is not None:
            over = min(horizon, self.hole, *self.since)
            for known in self._known:
                known[:] = [each for each in known if each[1] > over]
            if not (self._known[0] or self._known[1]):
                self._known = None
        return not self.waits and self._known is None and self.hole == NEVER

    def held_from(self, packet: int, clock: Clock) -> int:
        """The packet from which on other connections are held; NEVER for none. `packet`: nothing more is known of this
        one before it."""
        held = self._held()
        return NEVER if self.late or held == NEVER or self._waited(packet, clock) > limits.HELD_NS else held

    def _held(self) -> int:
        first, second = self.since
        return min(
            NEVER if first == NEVER else self.place(first, 0), NEVER if second == NEVER else self.place(second, 1)
        )

    def _waited(self, packet: int, clock: Clock) -> int:
        """So many nanoseconds it waits already."""
        held = self._held()
        return 0 if held == NEVER else clock.at(packet) - clock.at(held)


def _add(known: list[tuple[int, int]], since: int, packet: int) -> None:
    """One pair more; of two that were known alike, or the earlier of which was known later, only that one tells
    anything."""
    at = bisect_left(known, (since, packet))
    if (at < len(known) and known[at][0] == since) or (at and known[at - 1][1] >= packet):
        return
    low = at - 1 if at and known[at - 1][0] == since else at
    while at < len(known) and known[at][1] <= packet:
        at += 1
    known[low:at] = [(since, packet)]
