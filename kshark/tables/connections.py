"""The state of an open connection that its next row needs, and its own row when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshark.model import ByMessage, Closed, Flow, Gap, HalfClosed, Message, Weird
from kshark.tables.blocks import Row, Where
from kshark.tables.earlier import Earlier
from kshark.tables.names import Node


@dataclass(slots=True, eq=False)
class Connection:
    """An open connection. `flow_id` is a name that does not depend on how flows are numbered."""

    flow: Flow
    capture: str
    flow_id: str
    #: As its messages name it; None until the first one.
    where: Where | None = None
    #: What was odd about it before that, with its position.
    unnamed: list[tuple[int, Gap | Weird]] = field(default_factory=list)
    #: Position of the next event among the flow's events.
    position: int = 0
    #: Each request without exchange yet, with its position.
    requests: ByMessage[tuple[Message, int]] = field(default_factory=ByMessage)
    half_closed: HalfClosed | None = None
    #: Positions from which on events were known, at the earliest, with the packet beside.
    late_positions: list[int] = field(default_factory=list)
    late_packets: list[int] = field(default_factory=list)
    half_closed_position: int | None = None
    #: What members of share groups asked.
    earlier: Earlier = field(default_factory=Earlier)
    #: Packets of the first and last request and the first answer: they show that the connection was alive.
    first_request: int | None = None
    last_request: int | None = None
    first_response: int | None = None

    def next(self) -> int:
        self.position += 1
        return self.position - 1

    def late(self, packet: int) -> None:
        """The next events were known with that packet at the earliest."""
        if self.late_positions and self.late_positions[-1] == self.position:
            self.late_packets[-1] = packet
        else:
            self.late_positions.append(self.position)
            self.late_packets.append(packet)

    def named(self, message: Message) -> Where:
        """Its ends as its messages name them: all of them name them the same."""
        if self.where is None:
            self.where = Where(self.capture, self.flow_id, message.broker, message.client)
        return self.where

    def now(self) -> Where:
        """Its ends as known now; which end is the client may be found out later."""
        return Where(self.capture, self.flow_id, self.flow.broker, self.flow.client)

    def presumed(self) -> Where:
        """Its ends as they are where nothing but the first packets tells."""
        client = self.flow.opened_by or 0
        return Where(self.capture, self.flow_id, self.flow.ends[1 - client], self.flow.ends[client])

    def direction(self, side: int | None) -> str | None:
        if side is None:
            return None
        return "client" if self.flow.ends[side] == self.flow.client else "broker"

    def row(self, closed: Closed, node: Node | None) -> Row:
        """The connection's row of `flows`."""
        flow, half = self.flow, self.half_closed
        client = 0 if flow.ends[0] == flow.client else 1
        return (
            self.now(),
            flow.first_packet,
            flow.first_time_ns,
            None,
            node and node.node_id,
            node and node.listener,
            flow.software_name,
            flow.software_version,
            flow.service,
            flow.client_side is not None,
            self.direction(flow.opened_by),
            half and half.packet,
            half and half.time_ns,
            half and self.direction(half.side),
            self.half_closed_position,
            self.first_request,
            self.last_request,
            self.first_response,
            closed.packet,
            closed.time_ns,
            self.direction(closed.side),
            closed.how,
            flow.last_packet,
            flow.last_time_ns,
            flow.stream_bytes[client],
            flow.stream_bytes[1 - client],
            flow.gaps,
            self.late_positions or None,
            self.late_packets or None,
        )
