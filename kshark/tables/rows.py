"""Convert events of captures to rows, one by one; only the state of open connections is kept."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis import AnalysisResult, ListedSession, ListedStep
from kshark.errors import UnreadableInput
from kshark.model import Closed, Event, Exchange, Finding, Flow, Gap, HalfClosed, Late, Message, Opened, Weird
from kshark.tables import batches, groups, share, weirds
from kshark.tables.blocks import Block, Where
from kshark.tables.capture_summary import CaptureSummary, Ended, capture_row
from kshark.tables.catalogue import OF_RECORDS, TABLES
from kshark.tables.connections import OpenConnection, flow_row
from kshark.tables.coordinators import coordinator_rows
from kshark.tables.names import Names
from kshark.tables.pending import PendingRows
from kshark.tables.sessions import session_row, step_row

#: The name of a table and one of its rows, in the order of its columns.
Named = tuple[str, tuple[Any, ...]]
#: A function that adds the rows of a complete exchange to tables other than `exchanges`.
Adds = Callable[[PendingRows, Names, OpenConnection, Message, Exchange], None]

#: The functions by the API key of the request, and of the response.
_OF_REQUEST: Final[dict[Any, Adds]] = {
    **dict.fromkeys(share.APIS, share.add),
    **dict.fromkeys(groups.GROUP_TYPES, groups.add_heartbeat),
    **dict.fromkeys(groups.OPERATIONS, groups.add_share_state),
    **dict.fromkeys(batches.IN_REQUESTS, batches.add_produced),
}
_OF_RESPONSE: Final[dict[Any, Adds]] = dict.fromkeys(batches.IN_RESPONSES, batches.add_fetched)
#: The tables that a function fills.
_FILLS: Final[dict[Adds, tuple[str, ...]]] = {
    share.add: ("share_requests", "acquired", "acknowledgements"),
    groups.add_heartbeat: ("heartbeats",),
    groups.add_share_state: ("share_state",),
    # these note the opened records, which the JSON of `exchanges` leaves out
    batches.add_produced: ("record_batches", *OF_RECORDS, "exchanges"),
    batches.add_fetched: ("record_batches", *OF_RECORDS, "exchanges"),
}
#: Stands for the missing request of a response, and its position.
_NO_REQUEST: Final = (None, None)


class Rows:
    """Rows of captures, one after the other.

    Takes the engine's events in their order, and results of the analysis at any time. `page` returns the blocks that
    its events fill, `rest` the blocks that are not full at the end; `feed` returns the rows of one event. The row of an
    exchange comes when the exchange is complete, the row of a connection when it ends.

    `records`: add a row for each record too. `wanted`: selects the exchanges that have rows. `columns`: the tables that
    the caller uses, with their columns; other tables may lack rows, and other columns are null. None: all.
    """

    def __init__(
        self,
        capture: str,
        *,
        records: bool = False,
        wanted: Callable[[Exchange], bool] | None = None,
        columns: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._held = PendingRows(TABLES, records=records, columns=None if columns is None else columns.get("exchanges"))
        used = TABLES if columns is None else columns
        self._has_exchanges = "exchanges" in used
        self._of_request = {key: add for key, add in _OF_REQUEST.items() if not used.keys().isdisjoint(_FILLS[add])}
        self._of_response = {key: add for key, add in _OF_RESPONSE.items() if not used.keys().isdisjoint(_FILLS[add])}
        self._wanted = wanted
        self._takes: Final[dict[type, Callable[[Any], None]]] = {
            Opened: self._opened,
            HalfClosed: self._half_closed,
            Closed: self._closed,
            Late: self._late,
            Gap: self._gap,
            Weird: self._weird,
            Finding: self._finding,
            ListedStep: self._step,
            ListedSession: self._session,
        }
        self.begin(capture)

    def begin(self, capture: str) -> None:
        """Start another capture."""
        self.capture = capture
        self.names = Names()
        self.summary = CaptureSummary()
        self._connections: dict[int, OpenConnection] = {}
        self._first_packets = array("q")

    def end(self, ended: Ended) -> None:
        """Add the row of the capture: all its events are read."""
        self._held.rows["captures"].append(capture_row(self.capture, self.summary, ended))

    def stored(self, log: str | None, partition: int | None, batches: Iterable[Any]) -> Iterator[tuple[str, Block]]:
        """Take batches of a log segment: records of a coordinator's log have rows, without packet and time."""
        nowhere = (Where(self.capture, None, None, None), None, None, None, None)
        self._held.rows["coordinator_records"] += coordinator_rows(nowhere, log, partition, batches)
        yield from self._held.full()

    def feed(self, event: Event | AnalysisResult) -> Iterator[Named]:
        for name, block in (*self.page((event,)), *self.rest()):
            for row in block.rows():
                yield name, row

    def page(self, events: Iterable[Event | AnalysisResult]) -> Iterator[tuple[str, Block]]:  # noqa: C901 a loop per event
        """Return the names of tables with blocks of their rows."""
        connections, held, silent, summary = self._connections, self._held, self.names.silent, self.summary
        for event in events:
            if type(event) is Message:
                if type(event.body) not in silent:
                    self.names.learn(event)
                connection = connections.get(event.flow)
                if connection is None:
                    continue
                if event.kind == "request" and event.api_key is not UNSET:
                    connection.requests[id(event)] = event, connection.position
                    if connection.last_request is None:
                        connection.first_request = event.packet
                    connection.last_request = event.packet
                elif connection.first_response is None or event.correlation_id is UNSET:
                    self._other_message(connection, event)
                connection.position += 1
            elif type(event) is Exchange:
                connection = connections.get(event.flow.id) or self._connection(event.flow)
                summary.exchange(event)
                self._complete(
                    connection, event, connection.requests.pop(id(event.request), _NO_REQUEST)[1], connection.next()
                )
                if held.with_records:
                    yield from held.records()
            else:
                take = self._takes.get(type(event))
                if take is None:
                    raise TypeError(f"{type(event).__name__} has no row: feed only events and results of the analysis")
                take(event)
        yield from held.full()

    def rest(self) -> Iterator[tuple[str, Block]]:
        """Return the blocks that are not full."""
        return self._held.rest()

    def fault(self, capture: str, error: UnreadableInput) -> None:
        """Add a row: that capture cannot be read."""
        self._held.rows["faults"].append(weirds.fault_row(Where(capture, None, None, None), error))

    # -- connections

    def _where(self, number: int, broker: str | None, client: str | None) -> Where:
        """Return the connection of a flow by a name that does not depend on the numbering of flows."""
        first = self._first_packets[number] if 0 <= number < len(self._first_packets) else -1
        return Where(self.capture, None if first < 0 else f"{self.capture}:{first}", broker, client)

    def _connection(self, flow: Flow) -> OpenConnection:
        connection = self._connections.get(flow.id)
        if connection is None:
            missing = flow.id + 1 - len(self._first_packets)
            self._first_packets.extend([-1] * missing)
            self._first_packets[flow.id] = flow.first_packet
            connection = self._connections[flow.id] = OpenConnection(
                flow, self.capture, f"{self.capture}:{flow.first_packet}"
            )
        return connection

    def _opened(self, event: Opened) -> None:
        self._connection(event.flow).next()

    def _late(self, event: Late) -> None:
        self._connections[event.flow].late(event.packet)

    def _half_closed(self, event: HalfClosed) -> None:
        connection = self._connection(event.flow)
        connection.half_closed, connection.half_closed_position = event, connection.next()

    def _closed(self, event: Closed) -> None:
        connection = self._connection(event.flow)
        del self._connections[event.flow.id]
        self.summary.connection(event.flow)
        self._add_unnamed(connection, connection.now())
        node, cluster = self.names.node(event.flow.broker), self.names.cluster_id(event.flow.broker)
        self._held.rows["flows"].append(flow_row(connection, event, node, cluster))

    # -- messages

    def _other_message(self, connection: OpenConnection, message: Message) -> None:
        """Note a connection's first response, or a frame without a readable header."""
        if message.kind == "request":
            connection.first_request = connection.first_request or message.packet
            connection.last_request = message.packet
        elif connection.first_response is None and message.request_packet is not UNSET:
            connection.first_response = message.packet
        if message.correlation_id is UNSET:
            self.summary.weird_message(message)
            self._held.rows["weirds"] += weirds.touched(self._named(connection, message), message, None)

    def _complete(self, connection: OpenConnection, exchange: Exchange, asked_at: int | None, position: int) -> None:
        request, response = exchange.request, exchange.response
        first = request or response
        if first is None or (self._wanted is not None and not self._wanted(exchange)):
            return
        held, names = self._held, self.names
        where = connection.where or self._named(connection, first)
        after = connection.last_request if request is None else None
        if self._has_exchanges:
            held.exchanges.append((exchange, where, asked_at, position, after))
        if request is not None:
            if request.weird is not UNSET:
                held.rows["weirds"] += weirds.touched(where, request, first.packet)
            add = self._of_request.get(request.api_key)
            if add is not None:
                add(held, names, connection, request, exchange)
        if response is not None:
            if response.weird is not UNSET:
                held.rows["weirds"] += weirds.touched(where, response, first.packet)
            add = self._of_response.get(response.api_key)
            if add is not None:
                add(held, names, connection, response, exchange)

    def _named(self, connection: OpenConnection, message: Message) -> Where:
        where = connection.named(message)
        self._add_unnamed(connection, where)
        return where

    # -- weirds

    def _gap(self, gap: Gap) -> None:
        self.summary.gap(gap)
        self._odd(self._connection(gap.flow), gap)

    def _weird(self, weird: Weird) -> None:
        self.summary.weirds[weird.code] += weird.times
        connection = None if weird.flow is None else self._connections.get(weird.flow)
        if connection is None:
            where = self._where(-1 if weird.flow is None else weird.flow, None, None)
            self._held.rows["weirds"].append(weirds.weird_row(where, weird))
        else:
            self._odd(connection, weird)

    def _odd(self, connection: OpenConnection, event: Gap | Weird) -> None:
        """Add a gap or weird of a connection, or hold it until a message names the ends.

        The flow may or may not know its client by now, depending on page boundaries; messages name it the same in every
        run.
        """
        position, where = connection.next(), connection.where
        if where is None and len(connection.unnamed) < limits.UNNAMED:
            connection.unnamed.append((position, event))
        else:
            self._held.rows["weirds"].append(
                weirds.odd_row(connection.flow, where or connection.presumed(), position, event)
            )

    def _add_unnamed(self, connection: OpenConnection, where: Where) -> None:
        unnamed, connection.unnamed = connection.unnamed, []
        self._held.rows["weirds"] += (
            weirds.odd_row(connection.flow, where, position, event) for position, event in unnamed
        )

    # -- results of the analysis

    def _finding(self, finding: Finding) -> None:
        self.summary.finding(finding)
        where = self._where(finding.flow, finding.broker, finding.client)
        self._held.rows["findings"].append(weirds.finding_row(where, finding))

    def _step(self, listed: ListedStep) -> None:
        flow = listed.witness.flow
        connection = self._connections.get(flow)
        where = (connection and connection.where) or self._where(flow, listed.broker, listed.client)
        self._held.rows["steps"].append(step_row(where, listed))

    def _session(self, listed: ListedSession) -> None:
        self.summary.sessions += 1
        where = self._where(listed.flow, listed.session.broker, listed.client)
        self._held.rows["sessions"].append(session_row(where, listed))
