"""The state of an open connection that its next row needs, and its own row when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from kshark.model import ByMessage, Closed, Flow, Gap, HalfClosed, Message, Weird
from kshark.tables.blocks import Row, Where
from kshark.tables.columns import Column, table
from kshark.tables.earlier import Earlier
from kshark.tables.names import Node
from kshark.tables.readers import its, made, optional


@dataclass(slots=True, eq=False)
class OpenConnection:
    """An open connection. `flow_id` does not depend on the numbering of flows."""

    flow: Flow
    capture: str
    flow_id: str
    #: Its addresses as its messages name them; None until the first message.
    where: Where | None = None
    #: Gaps and weirds before the first message, with their positions.
    unnamed: list[tuple[int, Gap | Weird]] = field(default_factory=list)
    #: Position of the next event among the flow's events.
    position: int = 0
    #: Requests whose exchange is not complete yet, with their positions.
    requests: ByMessage[tuple[Message, int]] = field(default_factory=ByMessage)
    half_closed: HalfClosed | None = None
    #: Positions of late events: events from each position on became known with the packet of the same index, or later.
    late_positions: list[int] = field(default_factory=list)
    late_packets: list[int] = field(default_factory=list)
    half_closed_position: int | None = None
    #: Earlier requests of the members of share groups.
    earlier: Earlier = field(default_factory=Earlier)
    #: Packets of the first and last request and the first response: evidence that the connection was alive.
    first_request: int | None = None
    last_request: int | None = None
    first_response: int | None = None

    def next(self) -> int:
        self.position += 1
        return self.position - 1

    def late(self, packet: int) -> None:
        """Record that the next events became known with that packet, or later."""
        if self.late_positions and self.late_positions[-1] == self.position:
            self.late_packets[-1] = packet
        else:
            self.late_positions.append(self.position)
            self.late_packets.append(packet)

    def named(self, message: Message) -> Where:
        """Return the ends as its messages name them; all messages name them the same."""
        if self.where is None:
            self.where = Where(self.capture, self.flow_id, message.broker, message.client)
        return self.where

    def now(self) -> Where:
        """Return the ends as known at this moment; which end is the client may become known later."""
        return Where(self.capture, self.flow_id, self.flow.broker, self.flow.client)

    def presumed(self) -> Where:
        """Return the ends as the first packets alone suggest."""
        client = self.flow.opened_by or 0
        return Where(self.capture, self.flow_id, self.flow.ends[1 - client], self.flow.ends[client])

    def direction(self, side: int | None) -> str | None:
        if side is None:
            return None
        return self.flow.sender(side)


def _told(connection: OpenConnection) -> bool:
    return connection.flow.client_side is not None


def _opened_by(connection: OpenConnection) -> str | None:
    return connection.direction(connection.flow.opened_by)


def _half_closed_by(connection: OpenConnection) -> str | None:
    half = connection.half_closed
    return None if half is None else connection.direction(half.side)


def _closed_by(connection: OpenConnection, closed: Closed) -> str | None:
    return connection.direction(closed.side)


def _client_bytes(flow: Flow) -> int:
    return flow.stream_bytes[flow.calling_side]


def _broker_bytes(flow: Flow) -> int:
    return flow.stream_bytes[1 - flow.calling_side]


def _proxy_headers(flow: Flow) -> str | None:
    """Return the headers of the proxy that `client` and `proxy` name."""
    proxied = flow.proxied
    return None if proxied is None or flow.proxy is None else msgspec.json.encode(proxied.headers).decode()


def _late_positions(connection: OpenConnection) -> list[int] | None:
    return connection.late_positions or None


def _late_packets(connection: OpenConnection) -> list[int] | None:
    return connection.late_packets or None


FLOWS: Final = table(
    "flows",
    "TCP connection; packet and time are those of its first packet",
    "connection flow half_closed closed node cluster",
    Column("node_id", "int", "id of the broker, if the capture contains it", optional("node.node_id")),
    Column(
        "listener", "string", "the broker's advertised host:port, if the capture contains it", optional("node.listener")
    ),
    Column("software_name", "string", "name of the client's software", its("flow.software_name")),
    Column("software_version", "string", "version of the client's software", its("flow.software_version")),
    Column("service", "string", "kafka, tls, http, other, unknown", its("flow.service")),
    Column("told", "boolean", "true if the content shows which end is the client", made(_told, "connection")),
    Column(
        "opened_by",
        "string",
        "sender of the SYN, client or broker; null: the connection is older than the capture",
        made(_opened_by, "connection"),
    ),
    Column("half_closed_packet", "bigint", "packet of the first FIN", optional("half_closed.packet")),
    Column(
        "half_closed_ts_ns",
        "bigint",
        "time of that packet, in nanoseconds since 1970",
        optional("half_closed.time_ns"),
    ),
    Column(
        "half_closed_by", "string", "sender of the first FIN, client or broker", made(_half_closed_by, "connection")
    ),
    Column(
        "half_closed_position",
        "bigint",
        "its position among the events of the flow",
        its("connection.half_closed_position"),
    ),
    Column("first_request_packet", "bigint", "last packet of the first request", its("connection.first_request")),
    Column("last_request_packet", "bigint", "last packet of the last request", its("connection.last_request")),
    Column(
        "first_response_packet",
        "bigint",
        "first response whose request is in the capture",
        its("connection.first_response"),
    ),
    Column("closed_packet", "bigint", "packet that ended the connection", its("closed.packet")),
    Column("closed_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970", its("closed.time_ns")),
    Column(
        "closed_by",
        "string",
        "sender of the first FIN or of the RST, client or broker",
        made(_closed_by, "connection", "closed"),
    ),
    Column(
        "ended",
        "string",
        "fin, rst, reused (new SYN on the same ports), restart (of the broker, by its request log), forgotten, "
        "capture (at the end of the capture)",
        its("closed.how"),
    ),
    Column("last_packet", "bigint", "last packet of the connection", its("flow.last_packet")),
    Column("last_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970", its("flow.last_time_ns")),
    Column(
        "client_bytes",
        "bigint",
        "payload from the client, without retransmissions",
        made(_client_bytes, "flow"),
    ),
    Column("broker_bytes", "bigint", "payload from the broker", made(_broker_bytes, "flow")),
    Column("gaps", "int", "gaps in both directions", its("flow.gaps")),
    Column(
        "late_positions",
        "array<bigint>",
        "positions in the flow: events from each on became known with the packet of the same index in late_packets",
        made(_late_positions, "connection"),
        since=2,
    ),
    Column(
        "late_packets",
        "array<bigint>",
        "earliest packets with which these events became known: their place in time",
        made(_late_packets, "connection"),
        since=2,
    ),
    Column(
        "proxy",
        "string",
        "address:port of the load balancer whose PROXY header named the client",
        its("flow.proxy"),
        since=3,
        needed=False,
    ),
    Column(
        "proxy_headers",
        "string",
        "its PROXY headers as JSON, with addresses and TLVs; the last one is that of the proxy nearest to the client",
        made(_proxy_headers, "flow"),
        since=3,
        needed=False,
    ),
    Column(
        "cluster_id",
        "string",
        "id of the broker's cluster, if an earlier packet contains it",
        its("cluster"),
        since=4,
        needed=False,
    ),
)
_row: Final = FLOWS.row_maker()


def flow_row(connection: OpenConnection, closed: Closed, node: Node | None, cluster: str | None) -> Row:
    """Return the connection's row of `flows`."""
    flow = connection.flow
    here = connection.now(), flow.first_packet, flow.first_time_ns, None
    return _row(*here, connection, flow, connection.half_closed, closed, node, cluster)
