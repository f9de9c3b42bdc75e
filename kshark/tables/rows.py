"""Events to rows: one capture's time line, flattened as it comes; nothing is kept but what open connections need."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark.anomaly import CATALOGUE
from kshark.model import Closed, Event, Exchange, Finding, Flow, Frames, Gap, HalfClosed, Message, Opened, Weird
from kshark.tables import batches, groups, share
from kshark.tables.fields import value
from kshark.tables.names import Names

Row = tuple[Any, ...]
#: A table's name and one of its rows, in the order of its columns.
Named = tuple[str, Row]

_JSON: Final = msgspec.json.Encoder()


@dataclass(slots=True, eq=False)
class _Connection:
    """What an open connection's next row needs."""

    flow: Flow
    flow_id: str
    position: int = 0
    #: Place of each request that waits for its exchange, by the identity of its message.
    requests: dict[int, int] = field(default_factory=dict)
    half_closed: HalfClosed | None = None
    half_closed_position: int | None = None
    #: First and last request, first answer to one: packets that show the connection alive.
    first_request: int | None = None
    last_request: int | None = None
    first_response: int | None = None
    #: Exchanges without an answer, until the event behind them tells with which packet they were given up.
    given_up: list[tuple[Exchange, int | None, int]] = field(default_factory=list)

    def next(self) -> int:
        self.position += 1
        return self.position - 1

    def alive(self, message: Message) -> None:
        if message.kind == "request":
            self.first_request = message.packet if self.first_request is None else self.first_request
            self.last_request = message.packet
        elif message.request_packet is not UNSET and self.first_response is None:
            self.first_response = message.packet

    def direction(self, side: int | None) -> str | None:
        if side is None:
            return None
        return "client" if self.flow.ends[side] == self.flow.client else "broker"


class Rows:
    """Rows of one capture: `feed` takes what the engine gives, in its order, and findings wherever they come.

    `records`: a row for each record too. A row of an exchange comes when the exchange is complete, a connection's when it ends.
    """

    def __init__(self, capture: str, *, records: bool = False) -> None:
        self.capture = capture
        self._records = records
        self._names = Names()
        self._connections: dict[int, _Connection] = {}
        self._first_packets = array("q")

    def feed(self, event: Event | Finding) -> Iterator[Named]:
        match event:
            case Message():
                yield from self._message(event)
            case Exchange():
                yield from self._exchange(event)
            case Opened():
                self._connection(event.flow).next()
            case HalfClosed():
                connection = self._connection(event.flow)
                connection.half_closed, connection.half_closed_position = event, connection.next()
            case Closed():
                yield from self._given_up(self._connection(event.flow), event.packet)
                yield "flows", self._flow(event)
            case Gap():
                yield from self._given_up(self._connection(event.flow), event.packet)
                yield "weirds", self._gap(event)
            case Weird():
                yield "weirds", self._weird(event)
            case Finding():
                yield "findings", self._finding(event)
            case Frames():
                raise TypeError("frames are no rows: feed what the exchange stage makes of them")

    # -- connections

    def flow_id(self, number: int) -> str | None:
        """The stable name of a flow: the same whoever counted the flows."""
        known = self._first_packets[number] if 0 <= number < len(self._first_packets) else -1
        return None if known < 0 else f"{self.capture}:{known}"

    def _connection(self, flow: Flow) -> _Connection:
        connection = self._connections.get(flow.id)
        if connection is None:
            missing = flow.id + 1 - len(self._first_packets)
            self._first_packets.extend([-1] * missing)
            self._first_packets[flow.id] = flow.first_packet
            connection = self._connections[flow.id] = _Connection(flow, f"{self.capture}:{flow.first_packet}")
        return connection

    def _flow(self, closed: Closed) -> Row:
        flow = closed.flow
        connection = self._connection(flow)
        del self._connections[flow.id]
        half = connection.half_closed
        node = self._names.node(flow.broker)
        client = 0 if flow.ends[0] == flow.client else 1
        return (
            self.capture,
            connection.flow_id,
            flow.first_packet,
            flow.broker,
            flow.client,
            flow.first_time_ns // 1000,
            flow.first_time_ns,
            node and node.node_id,
            node and node.listener,
            flow.software_name,
            flow.software_version,
            flow.service,
            flow.client_side is not None,
            connection.direction(flow.opened_by),
            half and half.packet,
            half and half.time_ns,
            half and connection.direction(half.side),
            connection.half_closed_position,
            connection.first_request,
            connection.last_request,
            connection.first_response,
            closed.packet,
            closed.time_ns,
            connection.direction(closed.side),
            closed.how,
            flow.last_packet,
            flow.last_time_ns,
            flow.stream_bytes[client],
            flow.stream_bytes[1 - client],
            flow.gaps,
        )

    # -- messages

    def _message(self, message: Message) -> Iterator[Named]:
        self._names.learn(message)
        connection = self._connections.get(message.flow)
        if connection is None:
            return
        yield from self._given_up(connection, message.packet)
        position = connection.next()
        connection.alive(message)
        if message.kind == "request" and message.api_key is not UNSET:
            connection.requests[id(message)] = position
        elif message.kind == "unknown" or message.correlation_id is UNSET:
            yield from self._touched(connection, message)

    def _exchange(self, exchange: Exchange) -> Iterator[Named]:
        connection = self._connection(exchange.flow)
        position = connection.next()
        asked = connection.requests.pop(id(exchange.request), None)
        if exchange.outcome == "unanswered":
            connection.given_up.append((exchange, asked, position))
        else:
            yield from self._complete(connection, exchange, asked, position, None)

    def _given_up(self, connection: _Connection, packet: int) -> Iterator[Named]:
        for exchange, asked, position in connection.given_up:
            yield from self._complete(connection, exchange, asked, position, packet)
        connection.given_up.clear()

    def _complete(
        self, connection: _Connection, exchange: Exchange, asked: int | None, position: int, given_up: int | None
    ) -> Iterator[Named]:
        request, response = exchange.request, exchange.response
        where = request or response
        if where is None:
            return
        key = where.api_key if where.api_key is not UNSET else None
        after = connection.last_request if request is None else None
        places = (asked, None if response is None else position - 1, position, given_up, after)
        yield "exchanges", self._exchange_row(exchange, where, places)
        if request is not None:
            yield from self._touched(connection, request)
            if key in share.SHARE_APIS:
                yield from share.rows(self._common, request, response, exchange, self._names)
            elif key in groups.TABLE_OF:
                yield from groups.rows(self._common, request, response)
            if key in batches.PRODUCE:
                yield from batches.rows(self._common, request, self._names, self._records)
        if response is not None:
            yield from self._touched(connection, response)
            if key in batches.FETCH:
                yield from batches.rows(self._common, response, self._names, self._records)

    def _common(self, message: Message) -> Row:
        return (
            self.capture,
            self.flow_id(message.flow),
            message.packet,
            message.broker,
            message.client,
            message.time_ns // 1000,
            message.time_ns,
        )

    def _exchange_row(self, exchange: Exchange, where: Message, places: tuple[int | None, ...]) -> Row:
        request, response = exchange.request, exchange.response
        asked, answer = (request.body if request else None), (response.body if response else None)
        return (
            *self._common(where),
            set_or_none(where.api_key),
            set_or_none(where.api),
            set_or_none(where.version),
            set_or_none(where.correlation_id),
            set_or_none(where.client_id),
            request and request.packet,
            response and response.packet,
            request and request.time_ns,
            response and response.time_ns,
            response and set_or_none(response.latency_ns),
            request and request.size,
            response and response.size,
            exchange.outcome,
            value(answer, "error_code"),
            value(answer, "throttle_time_ms"),
            value(asked, "group_id"),
            value(asked, "member_id"),
            body_json(request),
            body_json(response),
            request and first_packet(request),
            response and first_packet(response),
            request and set_or_none(request.weird),
            response and set_or_none(response.weird),
            *places,
        )

    # -- oddities and findings

    def _touched(self, connection: _Connection, message: Message) -> Iterator[Named]:
        """A row for each code that touches a message; a frame that nobody can tell is one too."""
        if message.weird is UNSET:
            return
        sent_by = {"request": "client", "response": "broker"}.get(message.kind)
        detail = "" if message.detail is UNSET else message.detail
        for code in message.weird:
            stage = CATALOGUE[code].group if code in CATALOGUE else "exchange"
            first = first_packet(message)
            correlation_id = set_or_none(message.correlation_id)
            row = (*self._common(message), stage, code, detail, "message", sent_by, first, None, message.size, correlation_id, None)
            yield "weirds", row

    def _gap(self, gap: Gap) -> Row:
        connection = self._connection(gap.flow)
        return (
            self.capture,
            connection.flow_id,
            gap.packet,
            gap.flow.broker,
            gap.flow.client,
            gap.time_ns // 1000,
            gap.time_ns,
            "reassembly",
            "STREAM_GAP",
            gap.reason,
            "gap",
            connection.direction(gap.side),
            gap.first_packet,
            gap.last_packet,
            gap.size,
            None,
            connection.next(),
        )

    def _weird(self, weird: Weird) -> Row:
        connection = self._connections.get(weird.flow) if weird.flow is not None else None
        flow = connection.flow if connection else None
        return (
            self.capture,
            self.flow_id(weird.flow) if weird.flow is not None else None,
            weird.packet,
            flow and flow.broker,
            flow and flow.client,
            weird.time_ns // 1000,
            weird.time_ns,
            weird.stage,
            weird.code,
            weird.detail,
            "event",
            connection and connection.direction(weird.side),
            weird.first_packet,
            None,
            weird.size,
            None,
            connection and connection.next(),
        )

    def _finding(self, finding: Finding) -> Row:
        return (
            self.capture,
            self.flow_id(finding.flow),
            finding.packet,
            finding.broker,
            finding.client,
            finding.time_ns // 1000,
            finding.time_ns,
            finding.code,
            finding.rule,
            finding.severity,
            finding.verdict,
            finding.blame,
            finding.flow,
            finding.group_id,
            finding.member_id,
            finding.topic_id,
            finding.partition,
            finding.cause,
            [(w.flow, w.correlation_id, w.request_packet, w.response_packet) for w in finding.witness],
            finding.argument,
            finding.unknown_because,
            finding.client_id,
            finding.software,
        )


def set_or_none(found: Any) -> Any:
    """What is absent in a message is null in a row."""
    return None if found is UNSET else found


def first_packet(message: Message) -> int | None:
    """Where a message began, when more than one packet carried it."""
    return None if isinstance(message.packets, msgspec.UnsetType) else message.packets[0]


def body_json(message: Message | None) -> str | None:
    """A body as one line of JSON, its record batches unopened; null where there is none."""
    if message is None or message.body is UNSET or message.body is None:
        return None
    with batches.closed(message):
        return _JSON.encode(message.body).decode()
