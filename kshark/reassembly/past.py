"""Ended connections. Their numbers are remembered, so that late segments and copies do not open new connections."""

from __future__ import annotations

from collections import deque

from kshark import limits
from kshark.model import FIN, SYN
from kshark.reassembly.connections import TcpConnection
from kshark.reassembly.copies import Copies
from kshark.reassembly.directions import Segment, skipped
from kshark.reassembly.runs import Item
from kshark.ring import Ring


class Past:
    """The last limits.CLOSED_FLOWS connections, by their pair of ends, and the copies of all connections so far."""

    def __init__(self) -> None:
        self.by_pair: dict[int, list[TcpConnection]] = {}
        #: The pairs of these connections, the oldest first.
        self._order: deque[int] = deque()
        #: Connections forgotten to save memory, by pair: flow, both expected numbers, and the opener if no side had
        #: sent bytes.
        self._rested = Ring("qIIb", limits.REMEMBERED_FLOWS)
        #: Copies of the connections that are no longer remembered.
        self.copies = Copies()

    def remember(self, pair: int, connection: TcpConnection) -> None:
        connections = self.by_pair.setdefault(pair, [])
        connections.append(connection)
        self._order.append(pair)
        if len(connections) > limits.CLOSED_FLOWS_PER_PAIR:
            self.count(connections.pop(0))
        if len(self._order) > limits.CLOSED_FLOWS:
            oldest = self._order.popleft()
            if connections := self.by_pair.get(oldest, []):
                self.count(connections.pop(0))
            if not connections:
                self.by_pair.pop(oldest, None)

    def rest(self, pair: int, connection: TcpConnection) -> None:
        """Keep the position of a connection that is about to be forgotten, so that it can continue.

        Nothing is kept if bytes are missing.
        """
        flow, (side0, side1) = connection.flow, connection.sides
        next0, next1 = side0.rests_at, side1.rests_at
        if next0 is not None and next1 is not None:
            has_spoken = side0.position or side1.position
            self._rested.put(
                pair, flow.id, next0, next1, -1 if has_spoken or flow.opened_by is None else flow.opened_by
            )

    def resume(self, pair: int, segment: Segment, connection: TcpConnection) -> None:
        """Continue a forgotten connection in the new `connection` if the segment is its next one."""
        rested = self._rested.take(pair)
        if rested is None or segment.flags & SYN or rested[1 + segment.side] != segment.seq:
            return
        flow = connection.flow
        flow.continues, connection.sides[0].next, connection.sides[1].next, opener = rested
        if opener >= 0:
            flow.begun, flow.opened_by = (True, True), 1 if opener else 0

    def claims(self, pair: int, segment: Segment, live: TcpConnection | None, out: list[Item]) -> bool:
        """True if the segment belongs to an ended connection of these ends, not to the `live` one or to a new one."""
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

    def count(self, connection: TcpConnection) -> None:
        """Count the copies of a connection that has ended."""
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
        """Count all remaining connections."""
        for connections in self.by_pair.values():
            for connection in connections:
                self.count(connection)
        self.by_pair.clear()
