"""Rows back to events: the tables alone tell the analysis what the packets told it.

`exchanges`, `flows` and the gaps among `weirds` become Opened, Message, Exchange, Gap, HalfClosed and Closed again, in the time line's
order. What rows do not keep is what no rule asks for: records, and bytes fields, which stay base64.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from kshark.model import Closed, Ends, Event, Exchange, Flow, Gap, HalfClosed, Message, Opened, Weird

RowMap = Mapping[str, Any]
#: An event with its place: packet, first packet of its flow, place among the flow's events.
_Placed = tuple[int, int, int, Event]

_LAST: Final = 1 << 62


class Fields:
    """A body from JSON: its fields as attributes, UNSET where there is none."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__ = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return UNSET


def body_of(text: str | None) -> Any:
    """A body as `exchanges` holds it; None where it was not read."""
    return None if text is None else json.loads(text, object_hook=Fields)


def events_from_tables(exchanges: Iterable[RowMap], flows: Iterable[RowMap], weirds: Iterable[RowMap]) -> Iterator[Event]:
    """The events of one capture from its rows, which may come in any order: maps from column name to value.

    Flows are numbered in the order of their first packets, as the engine does. Rows of flows that are not given are left out.
    """
    connections = {row["flow_id"]: _Connection(number, row) for number, row in enumerate(sorted(flows, key=lambda row: row["packet"]))}
    loose: list[_Placed] = []
    for row in exchanges:
        if row["flow_id"] in connections:
            connections[row["flow_id"]].exchange(row)
    for row in weirds:
        if row["flow_id"] in connections:
            connections[row["flow_id"]].weird(row)
        elif row["flow_id"] is None and row["kind"] == "event":
            loose.append((row["packet"], -1, 0, _weird(row, None)))
    loose.sort(key=lambda placed: placed[:3])
    for placed in heapq.merge(loose, *(connection.placed() for connection in connections.values()), key=lambda placed: placed[:3]):
        yield placed[3]


class _Connection:
    """One flow's events, gathered."""

    def __init__(self, number: int, row: RowMap) -> None:
        self.flow = flow_of(number, row)
        self._events: list[tuple[int, int, Event]] = [(-1, row["packet"], Opened(self.flow, row["packet"], row["ts_ns"]))]
        self._closed = Closed(self.flow, row["closed_packet"], row["closed_ts_ns"], row["ended"], _side(row["closed_by"]))
        if row["half_closed_packet"] is not None:
            half = HalfClosed(self.flow, row["half_closed_packet"], row["half_closed_ts_ns"], _side(row["half_closed_by"]) or 0)
            self._add(row["half_closed_position"], half.packet, half)

    def _add(self, position: int, packet: int, event: Event) -> None:
        self._events.append((position, packet, event))

    def exchange(self, row: RowMap) -> None:
        request, response = messages_of(row, self.flow)
        if request is not None:
            self._add(row["request_position"], request.packet, request)
        if response is not None:
            self._add(row["response_position"], response.packet, response)
        self._add(row["position"], 0, Exchange(request, response, row["outcome"], self.flow))

    def weird(self, row: RowMap) -> None:
        if row["kind"] == "gap":
            self._add(row["position"], row["packet"], gap_of(row, self.flow))
        elif row["kind"] == "event" and row["position"] is not None:
            self._add(row["position"], row["packet"], _weird(row, self.flow))

    def placed(self) -> Iterator[_Placed]:
        """In the flow's own order; what has no packet of its own happens with the one before."""
        packet = 0
        self._events.append((_LAST, self._closed.packet, self._closed))
        self._events.sort(key=lambda event: event[0])
        for position, own, event in self._events:
            packet = max(packet, own)
            yield packet, self.flow.first_packet, position, event


def flow_of(number: int, row: RowMap) -> Flow:
    """A row of `flows` as the connection at its end; the client, told or taken for it, is side 0."""
    return Flow(
        id=number,
        ends=Ends(row["client"], row["broker"]),
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
    )


def messages_of(row: RowMap, flow: Flow) -> tuple[Message | None, Message | None]:
    """Request and response of a row of `exchanges`."""
    request = response = None
    if row["request_packet"] is not None:
        request = _message(row, flow, "request")
    if row["response_packet"] is not None:
        response = _message(row, flow, "response")
    return request, response


def gap_of(row: RowMap, flow: Flow) -> Gap:
    return Gap(
        flow,
        _side(row["direction"]) or 0,
        row["packet"],
        row["ts_ns"],
        row["first_packet"],
        row["last_packet"],
        row["size_bytes"],
        row["detail"],
    )


def _message(row: RowMap, flow: Flow, kind: Any) -> Message:
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
        api_key=_or_unset(row["api_key"]),
        api=_or_unset(row["api"]),
        version=_or_unset(row["api_version"]),
        correlation_id=_or_unset(row["correlation_id"]),
        client_id=row["client_id"] if row["api_key"] is not None else UNSET,
        request_packet=row["request_packet"] if answers else UNSET,
        latency_ns=_or_unset(row["latency_ns"]) if answers else UNSET,
        size=row[f"{kind}_bytes"],
        body=body_of(row[f"{kind}_json"]),
        weird=UNSET if weird is None else list(weird),
    )


def _weird(row: RowMap, flow: Flow | None) -> Weird:
    return Weird(
        row["code"],
        row["stage"],
        row["packet"],
        row["ts_ns"],
        row["detail"],
        None if flow is None else flow.id,
        _side(row["direction"]),
        row["first_packet"],
        row["size_bytes"],
    )


def _side(end: str | None) -> Any:
    return {"client": 0, "broker": 1, None: None}[end]


def _or_unset(found: Any) -> Any:
    return UNSET if found is None else found
