"""Convert rows back to events: the tables contain everything that the analysis needs from the packets.

`exchanges`, `flows` and `weirds` become Opened, Message, Exchange, Gap, HalfClosed, Closed and Weird again, in the
order of the time line. Rows do not contain records: no rule needs them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from kshark.exchange.owner import belongs, owner_of
from kshark.limits import CLOCKS_NS
from kshark.link.disorder import DISORDERS
from kshark.model import (
    Closed,
    Ends,
    Event,
    Exchange,
    Flow,
    Gap,
    HalfClosed,
    Message,
    Opened,
    Proxied,
    ProxyHeader,
    Side,
    Weird,
)
from kshark.tables.bodies import Bodies

_headers: Final = msgspec.json.Decoder(list[ProxyHeader]).decode
RowMap = Mapping[str, Any]
#: The position of an event in time: packet, LATE to AFTER, first packet of its flow, position in the flow.
TimePosition = tuple[int, int, int, int]
PositionedEvent = tuple[TimePosition, Event]

#: Order of the events of one packet, on all connections: late events of earlier packets, events before the packet's
#: messages, the messages, and the ends of connections.
LATE: Final = -1
BEFORE: Final = 0
MESSAGES: Final = 1
AFTER: Final = 2

_FIRST: Final = -1
_LAST: Final = 1 << 62


class Course(NamedTuple):
    """The parts of a `flows` row that place the connection's events in time.

    `ending`: packet and position at which the connection ends; later events of the same packet come with the end.
    `late`: positions in ascending order, each with the earliest packet with which events from there on became known.
    """

    ending: tuple[int, int]
    late: list[tuple[int, int]]

    def position_of(self, packet: int, phase: int, first: int, position: int) -> TimePosition:
        """Return the position of an event with that packet: there, or later if it became known only later."""
        at = bisect_left(self.late, (position + 1, 0))
        if at and self.late[at - 1][1] > packet:
            return self.late[at - 1][1], LATE, first, position
        return packet, phase, first, position


def position_of(table: str, row: RowMap) -> TimePosition:
    """Return the position of a row's first event. A Timeline needs rows in this order."""
    first = first_packet_of(row["flow_id"])
    match table:
        case "flows":
            return row["packet"], BEFORE, first, _FIRST
        case "exchanges" if row["request_packet"] is None:
            return row["packet"], MESSAGES, first, row["response_position"]
        case "exchanges":
            return row["packet"], MESSAGES, first, row["request_position"]
        case _:
            return row["packet"], BEFORE, first, _FIRST if row["position"] is None else row["position"]


def first_packet_of(flow_id: str | None) -> int:
    """Return the number of a flow's first packet, the end of its name; -1 without a flow, to sort first."""
    return -1 if flow_id is None else int(flow_id.rpartition(":")[2])


def events_from_tables(
    exchanges: Iterable[RowMap], flows: Iterable[RowMap], weirds: Iterable[RowMap]
) -> Iterator[Event]:
    """Return the events of one capture from its rows, in any order: maps from column name to value.

    Flows are numbered in the order of their first packets, as in the engine.
    """
    timeline = EventTimeline()
    rows = [("flows", row) for row in flows]
    rows += [("exchanges", row) for row in exchanges]
    rows += [("weirds", row) for row in weirds]
    for table, row in sorted(rows, key=lambda named: position_of(*named)):
        yield from timeline.feed(table, row)
    yield from timeline.close()


class EventTimeline:
    """Convert rows in the order of `position_of` to events; only open exchanges and connections are held.

    Flows are numbered in the order of their rows.
    """

    def __init__(self) -> None:
        self._bodies = Bodies()
        #: By first packet: the open connections, and the positions of their events.
        self._flows: dict[int, Flow] = {}
        self._courses: dict[int, Course] = {}
        self._numbered = 0
        self._to_come: list[tuple[TimePosition, int, Event]] = []
        self._count = 0

    def feed(self, table: str, row: RowMap) -> Iterator[Event]:
        """Return all events before this row.

        Skips rows of connections without a `flows` row, and weirds of messages, which the messages contain.
        """
        position = position_of(table, row)
        yield from self._until(position)
        first = position[2]
        if table == "weirds" and row["kind"] == "message" and row["exchange"] is not None:
            return
        if table == "flows":
            self._open(row)
        elif first in self._flows:
            flow = self._flows[first]
            if table == "exchanges":
                self._add(*of_exchange(row, messages_of(row, flow, self._bodies), flow, self._courses[first]))
            else:
                self._add(of_weird(row, flow, self._courses[first]))
        elif first < 0 and table == "weirds":
            self._add((position, weird_of(row, None)))

    def close(self) -> Iterator[Event]:
        yield from self._until((_LAST, AFTER, _LAST, _LAST))

    def _until(self, position: TimePosition) -> Iterator[Event]:
        while self._to_come and self._to_come[0][0] < position:
            event = heapq.heappop(self._to_come)[2]
            if isinstance(event, Closed):
                del self._flows[event.flow.first_packet], self._courses[event.flow.first_packet]
            yield event

    def _add(self, *events: PositionedEvent) -> None:
        for position, event in events:
            self._count += 1
            heapq.heappush(self._to_come, (position, self._count, event))

    def _open(self, row: RowMap) -> None:
        flow = self._flows[row["packet"]] = flow_of(self._numbered, row)
        course = self._courses[row["packet"]] = course_of(row)
        self._numbered += 1
        self._add(*of_flow(row, flow, course))


def of_flow(row: RowMap, flow: Flow, course: Course) -> Iterator[PositionedEvent]:
    """Return the beginning and the ends of a connection."""
    first = row["packet"]
    yield (first, BEFORE, first, _FIRST), Opened(flow, first, row["ts_ns"])
    if row["half_closed_packet"] is not None:
        half = HalfClosed(flow, row["half_closed_packet"], row["half_closed_ts_ns"], _side(row["half_closed_by"]) or 0)
        yield course.position_of(half.packet, AFTER, first, row["half_closed_position"]), half
    closed = Closed(flow, row["closed_packet"], row["closed_ts_ns"], row["ended"], _side(row["closed_by"]))
    yield course.position_of(closed.packet, AFTER, first, _LAST), closed


def signs_of_flow(row: RowMap, flow: Flow) -> Iterator[PositionedEvent]:
    """Return signs of a connection's first and last request and first response.

    For callers that have only some exchanges.
    """
    first = row["packet"]
    for packet in (row["first_request_packet"], row["last_request_packet"]):
        if packet is not None:
            yield (packet, MESSAGES, first, _FIRST), sign_of(flow, "request", packet)
    answer = row["first_response_packet"]
    if answer is not None:
        signs = sign_of(flow, "request", answer), sign_of(flow, "response", answer)
        yield (answer, MESSAGES, first, _FIRST), Exchange(*signs, "answered", flow, answer)


def course_of(row: RowMap) -> Course:
    """Return the Course of a `flows` row."""
    ends_at_once = row["half_closed_packet"] == row["closed_packet"]
    ending = row["closed_packet"], row["half_closed_position"] if ends_at_once else _FIRST
    return Course(ending, [*zip(row["late_positions"] or (), row["late_packets"] or (), strict=True)])


def of_exchange(
    row: RowMap, messages: tuple[Message | None, Message | None], flow: Flow, course: Course
) -> Iterator[PositionedEvent]:
    """Return the messages, and the exchange after them."""
    request, response = messages
    first, end = flow.first_packet, row["given_up_packet"]
    if request is not None:
        yield course.position_of(request.packet, MESSAGES, first, row["request_position"]), request
        end = request.packet if end is None else end
    if response is not None:
        yield course.position_of(response.packet, MESSAGES, first, row["response_position"]), response
        end = response.packet
    phase = AFTER if row["given_up_packet"] is not None and (end, row["position"]) > course.ending else MESSAGES
    yield course.position_of(end, phase, first, row["position"]), Exchange(request, response, row["outcome"], flow, end)


def of_weird(row: RowMap, flow: Flow, course: Course) -> PositionedEvent:
    """Return a gap, a message without a readable header, or another weird of a connection."""
    packet, phase, first, position = position_of("weirds", row)
    event: Event
    if row["kind"] == "message":
        phase, event = MESSAGES, frame_of(row, flow)
    elif row["kind"] == "gap":
        event = gap_of(row, flow)
    else:
        event = weird_of(row, flow)
        phase = AFTER if (packet, position) > course.ending else MESSAGES if row["stage"] == "exchange" else BEFORE
    return course.position_of(packet, phase, first, position), event


def sign_before_orphan(row: RowMap, flow: Flow, course: Course) -> Iterator[PositionedEvent]:
    """Return a sign of the last request before a response without request.

    For callers that have only some exchanges.
    """
    if row["after_request_packet"] is not None:
        position = course.position_of(row["response_packet"], MESSAGES, flow.first_packet, row["response_position"] - 1)
        yield position, sign_of(flow, "request", row["after_request_packet"])


def flow_of(number: int, row: RowMap) -> Flow:
    """Return the connection of a `flows` row, as it was at its end; the client is side 0."""
    return Flow(
        id=number,
        ends=Ends(row["proxy"] or row["client"], row["broker"]),
        first_packet=row["packet"],
        first_time_ns=row["ts_ns"],
        opened_by=_side(row["opened_by"]),
        service=row["service"],
        client_side=0 if row["told"] else None,
        software_name=row["software_name"],
        software_version=row["software_version"],
        last_packet=row["last_packet"],
        last_time_ns=row["last_ts_ns"],
        gaps=row["gaps"],
        stream_bytes=[row["client_bytes"], row["broker_bytes"]],
        proxied=None if row["proxy"] is None else Proxied(0, _headers(row["proxy_headers"])),
    )


def messages_of(row: RowMap, flow: Flow, bodies: Bodies) -> tuple[Message | None, Message | None]:
    """Return the request and the response of an `exchanges` row."""
    request = _message(row, flow, bodies, "request") if row["request_packet"] is not None else None
    response = _message(row, flow, bodies, "response") if row["response_packet"] is not None else None
    if request is not None and response is not None:
        belongs(response, owner_of(request.body))
    return request, response


def _message(row: RowMap, flow: Flow, bodies: Bodies, kind: Any) -> Message:
    packet, first = row[f"{kind}_packet"], row[f"{kind}_first_packet"]
    weird = row[f"{kind}_weird"]
    answers = kind == "response" and row["request_packet"] is not None
    return Message(
        packet=packet,
        packets=UNSET if first is None else (first, packet),
        time_ns=row[f"{kind}_ts_ns"],
        flow=flow.id,
        client=row["client"],
        broker=row["broker"],
        kind=kind,
        api_key=or_unset(row["api_key"]),
        api=or_unset(row["api"]),
        version=or_unset(row["api_version"]),
        correlation_id=or_unset(row["correlation_id"]),
        client_id=UNSET if row["api_key"] is None else row["client_id"],
        request_packet=row["request_packet"] if answers else UNSET,
        latency_ns=or_unset(row["latency_ns"]) if answers else UNSET,
        size=row[f"{kind}_bytes"],
        body=bodies.read(row, kind),
        weird=UNSET if weird is None else list(weird),
        detail=or_unset(row[f"{kind}_detail"]),
        proxy=or_unset(row["proxy"]),
        knows=or_unset(row[f"{kind}_knows_packet"]),
    )


def frame_of(row: RowMap, flow: Flow) -> Message:
    """Return a message without a readable header: only its position, its size and its weird are known."""
    kind: Any = "request" if row["direction"] == "client" else "response"
    first, packet = row["first_packet"], row["packet"]
    return Message(
        packet, UNSET if first is None else (first, packet), row["ts_ns"], flow.id, flow.client, flow.broker, kind,
        UNSET, UNSET, UNSET,
        UNSET, UNSET, UNSET, UNSET, row["size_bytes"], None, [row["code"]], row["detail"] or UNSET,
    )  # fmt: skip


def sign_of(flow: Flow, kind: Any, packet: int) -> Message:
    """Return a message of which only the existence is known."""
    return Message(
        packet,
        UNSET,
        flow.first_time_ns,
        flow.id,
        flow.client,
        flow.broker,
        kind,
        UNSET,
        UNSET,
        UNSET,
        UNSET,
        UNSET,
        UNSET,
        UNSET,
        0,
        None,
    )


def gap_of(row: RowMap, flow: Flow) -> Gap:
    side: Side = _sender(row, flow) or 0
    return Gap(
        flow,
        side,
        row["packet"],
        row["ts_ns"],
        row["first_packet"],
        row["last_packet"],
        row["size_bytes"],
        row["detail"],
    )


def weird_of(row: RowMap, flow: Flow | None) -> Weird:
    number, side = None if flow is None else flow.id, _sender(row, flow)
    common_values = (
        row["packet"],
        row["ts_ns"],
        row["detail"],
        number,
        side,
        row["first_packet"],
        row["size_bytes"],
        row["times"] or 1,
    )
    by_ns = row.get("by_ns")
    if by_ns is None and row["code"] in DISORDERS:
        by_ns = CLOCKS_NS  # version 1 of the table lacks it
    return Weird(row["code"], row["stage"], *common_values, row["correlation_id"], by_ns)


def _sender(row: RowMap, flow: Flow | None) -> Any:
    """Return the sender's side of a row of `weirds`.

    The row names the ends as they were known then; the client may have become known later.
    """
    side = _side(row["direction"])
    return side if side is None or flow is None or row["broker"] == flow.ends[1] else 1 - side


def _side(end: str | None) -> Any:
    return None if end is None else ("client", "broker").index(end)


def or_unset(cell: Any) -> Any:
    """Return UNSET for null, as in messages."""
    return UNSET if cell is None else cell
