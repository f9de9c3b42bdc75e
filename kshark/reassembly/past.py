"""Connections that are over: their numbers are remembered, so that neither a late segment nor a copy of theirs opens a
new one."""

from __future__ import annotations

from collections import deque

from kshark import limits
from kshark.model import FIN, SYN
from kshark.reassembly.connections import Connection
from kshark.reassembly.copies import Copies
from kshark.reassembly.directions import Segment, skipped
from kshark.reassembly.runs import Item
from kshark.ring import Ring


class Past:
    """The last limits.CLOSED_FLOWS connections, by their pair of ends; and what was captured twice of all there
    were."""

    def __init__(self) -> None:
        self.by_pair: dict[int, list[Connection]] = {}
        #: Their pairs, the oldest first.
        self._order: deque[int] = deque()
        #: Of those that were forgotten to make room, by pair: flow, the numbers due, and, of one that had not spoken,
        #: who opened it.
        self._rested = Ring("qIIb", limits.REMEMBERED_FLOWS)
        #: What of all that is no longer remembered was captured twice.
        self.copies = Copies()

    def remember(self, pair: int, connection: Connection) -> None:
        known = self.by_pair.setdefault(pair, [])
        known.append(connection)
        self._order.append(pair)
        if len(known) > limits.CLOSED_FLOWS_PER_PAIR:
            self.count(known.pop(0))
        if len(self._order) > limits.CLOSED_FLOWS:
            oldest = self._order.popleft()
            if known := self.by_pair.get(oldest, []):
                self.count(known.pop(0))
            if not known:
                self.by_pair.pop(oldest, None)

    def rest(self, pair: int, connection: Connection) -> None:
        """That one is about to be forgotten; where nothing of it is missing, it can go on."""
        flow, (one, other) = connection.flow, connection.sides
        due, then = one.rests_at, other.rests_at
        if due is not None and then is not None:
            has_spoken = one.place or other.place
            self._rested.put(pair, flow.id, due, then, -1 if has_spoken or flow.opened_by is None else flow.opened_by)

    def go_on(self, pair: int, segment: Segment, connection: Connection) -> None:
        """A `connection` begins with that segment: if it is the next one of a connection that was forgotten, takes over
        what is known."""
        rested = self._rested.take(pair)
        if rested is None or segment.flags & SYN or rested[1 + segment.side] != segment.seq:
            return
        flow = connection.flow
        flow.continues, connection.sides[0].next, connection.sides[1].next, opener = rested
        if opener >= 0:
            flow.begun, flow.opened_by = (True, True), 1 if opener else 0

    def takes(self, pair: int, segment: Segment, live: Connection | None, out: list[Item]) -> bool:
        """Whether the segment belongs to a connection of these known ends that is over, and not to the `live` one or a
        new one."""
        last = self.by_pair[pair][-1]
        ended = live is None and not segment.flags & SYN and not last.forgotten
        if ended and not segment.size and not segment.flags & FIN:
            return True  # the last acknowledgement, or a late reset
        for connection in self.by_pair[pair]:
            if connection.carried(segment):
                return True
        if ended and segment.payload:
            out.append(skipped(segment, "after the connection was closed", last.flow.id))
        return ended

    def count(self, connection: Connection) -> None:
        """Takes note of a connection of which no more will come."""
        again, flow = connection.again, connection.flow
        if again is None or not again.is_copy(flow.stream_bytes):
            return
        later = (
            f" {again.later_ns / 1e9:.6f} s later"
            if again.later_ns
            else ""
            if again.later_ns is None
            else " at the same time"
        )
        most = (again.packets, f"{flow.ends.first} - {flow.ends.second}{later}")
        self.copies += Copies(1, again.packets, sum(again.sizes), again.first_packet, most)

    def close(self) -> None:
        """Nothing more will come."""
        for known in self.by_pair.values():
            for connection in known:
                self.count(connection)
        self.by_pair.clear()
