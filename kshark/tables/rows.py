"""Events to rows: one capture's time line, flattened as it comes; nothing is kept but what open connections need."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET

from kshark.model import Closed, Event, Exchange, Finding, Flow, Gap, HalfClosed, Message, Opened, Weird
from kshark.tables import batches, exchanges, groups, oddities, share
from kshark.tables.columns import TABLES
from kshark.tables.connections import Connection
from kshark.tables.fields import Held, Row
from kshark.tables.names import Names

#: Rows of records that come together.
RECORDS: Final = 4096
#: A table's name and one of its rows, in the order of its columns.
Named = tuple[str, Row]


class Rows:
    """Rows of one capture: takes what the engine gives, in its order, and findings wherever they come.

    `page` gives the rows of many events, table by table, `feed` those of one. `records`: a row for each record too. A row of an exchange
    comes when the exchange is complete, a connection's when it ends.
    """

    def __init__(self, capture: str, *, records: bool = False) -> None:
        self.capture = capture
        self._records = records
        self._names = Names()
        self._connections: dict[int, Connection] = {}
        self._first_packets = array("q")
        self._held: Held = {name: [] for name in TABLES}
        self._takes: Final[dict[type, Callable[[Any], None]]] = {
            Message: self._message,
            Exchange: self._exchange,
            Opened: self._opened,
            HalfClosed: self._half_closed,
            Closed: self._closed,
            Gap: self._gap,
            Weird: self._weird,
            Finding: self._finding,
        }

    def feed(self, event: Event | Finding) -> Iterator[Named]:
        for name, rows in self.page((event,)):
            for row in rows:
                yield name, row

    def page(self, events: Iterable[Event | Finding]) -> Iterator[tuple[str, list[Row]]]:
        """The tables that get rows by these events; that of records more than once, for a page may hold very many."""
        takes, held = self._takes, self._held
        for event in events:
            take = takes.get(type(event))
            if take is None:
                raise TypeError(f"{type(event).__name__} is no row: feed what the engine gives")
            take(event)
            if len(held["records"]) >= RECORDS:
                yield "records", held["records"]
                held["records"] = []
        for name, rows in held.items():
            if rows:
                held[name] = []
                yield name, rows

    # -- connections

    def flow_id(self, number: int) -> str | None:
        """The stable name of a flow: the same whoever counted the flows."""
        known = self._first_packets[number] if 0 <= number < len(self._first_packets) else -1
        return None if known < 0 else f"{self.capture}:{known}"

    def _connection(self, flow: Flow) -> Connection:
        connection = self._connections.get(flow.id)
        if connection is None:
            missing = flow.id + 1 - len(self._first_packets)
            self._first_packets.extend([-1] * missing)
            self._first_packets[flow.id] = flow.first_packet
            connection = self._connections[flow.id] = Connection(flow, self.capture, f"{self.capture}:{flow.first_packet}")
        return connection

    def _opened(self, event: Opened) -> None:
        self._connection(event.flow).next()

    def _half_closed(self, event: HalfClosed) -> None:
        connection = self._connection(event.flow)
        connection.half_closed, connection.half_closed_position = event, connection.next()

    def _closed(self, event: Closed) -> None:
        connection = self._connection(event.flow)
        self._give_up(connection, event.packet)
        del self._connections[event.flow.id]
        self._held["flows"].append(connection.row(event, self._names.node(event.flow.broker)))

    # -- messages

    def _message(self, message: Message) -> None:
        self._names.learn(message)
        connection = self._connections.get(message.flow)
        if connection is None:
            return
        if connection.given_up:
            self._give_up(connection, message.packet)
        position = connection.position
        connection.position = position + 1
        kind = message.kind
        if kind == "request":
            connection.last_request = message.packet
            if connection.first_request is None:
                connection.first_request = message.packet
        elif connection.first_response is None and message.request_packet is not UNSET:
            connection.first_response = message.packet
        if kind == "request" and message.api_key is not UNSET:
            connection.requests[id(message)] = position
        elif kind == "unknown" or message.correlation_id is UNSET:
            self._held["weirds"] += oddities.touched(connection, message)

    def _exchange(self, exchange: Exchange) -> None:
        connection = self._connection(exchange.flow)
        position = connection.next()
        asked = connection.requests.pop(id(exchange.request), None)
        if exchange.outcome == "unanswered":
            connection.given_up.append((exchange, asked, position))
        else:
            self._complete(connection, exchange, asked, position, None)

    def _give_up(self, connection: Connection, packet: int) -> None:
        """The exchanges without an answer are complete; that packet told it."""
        for exchange, asked, position in connection.given_up:
            self._complete(connection, exchange, asked, position, packet)
        connection.given_up.clear()

    def _complete(self, connection: Connection, exchange: Exchange, asked_at: int | None, position: int, given_up: int | None) -> None:
        request, response = exchange.request, exchange.response
        where = request or response
        if where is None:
            return
        held, names = self._held, self._names
        common = connection.common(where)
        asked_fields = answered_fields = None
        if request is not None:
            key: Any = request.api_key
            if request.weird is not UNSET:
                held["weirds"] += oddities.touched(connection, request)
            if key in share.SHARE_APIS:
                answered = None if response is None else connection.common(response)
                share.add(held, common, answered, request, exchange, names)
            elif key in groups.TABLE_OF:
                groups.add(held, common, request, response)
            elif key in batches.PRODUCE:
                asked_fields = batches.add(held, common, request, names, records=self._records)
        if response is not None:
            if response.weird is not UNSET:
                held["weirds"] += oddities.touched(connection, response)
            if response.api_key in batches.FETCH:
                answered_fields = batches.add(held, connection.common(response), response, names, records=self._records)
        texts = (exchanges.body_json(request, asked_fields), exchanges.body_json(response, answered_fields))
        after = connection.last_request if request is None else None
        places = (asked_at, None if response is None else position - 1, position, given_up, after)
        held["exchanges"].append(exchanges.row(common, where, exchange, texts, places))

    # -- oddities and findings

    def _gap(self, gap: Gap) -> None:
        connection = self._connection(gap.flow)
        self._give_up(connection, gap.packet)
        self._held["weirds"].append(oddities.gap_row(connection, gap))

    def _weird(self, weird: Weird) -> None:
        flow_id = None if weird.flow is None else self.flow_id(weird.flow)
        connection = None if weird.flow is None else self._connections.get(weird.flow)
        self._held["weirds"].append(oddities.weird_row(self.capture, flow_id, connection, weird))

    def _finding(self, finding: Finding) -> None:
        self._held["findings"].append(oddities.finding_row(self.capture, self.flow_id(finding.flow), finding))
