"""The stage for rows of a request log, in place of link, reassembly, proxy, tls and framing.

A log shows no packets, no beginning and end of a connection, and not what a client had received: connections begin
and end with the capture or a restart of the broker, frames have no `knows`. A line that does not fit its API is a gap
on both sides.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from kshark import limits
from kshark.errors import EncodeError
from kshark.framing.timeline import Line
from kshark.link.disorder import logged_times
from kshark.model import (
    LOGGED_AFTER_GAP,
    LOGGED_RESPONSE,
    LOGGED_RESTART,
    Closed,
    Ends,
    Flow,
    Frames,
    Gap,
    Opened,
    PacketBatch,
    Side,
    Weird,
)
from kshark.registry import Registry
from kshark.requests.bodies import Frames as Encoder
from kshark.requests.bodies import Header
from kshark.requests.connections import connection_of

_CLIENT: Final[Side] = 0
_BROKER: Final[Side] = 1
_NULL: Final = b"null"


class _Software(msgspec.Struct, rename="camel", gc=False):
    software_name: str = "unknown"
    software_version: str = "unknown"


class _Line(msgspec.Struct, rename={"header": "requestHeader", "software": "clientInformation"}, gc=False):
    header: Header
    connection: str
    request: msgspec.Raw
    response: msgspec.Raw = msgspec.Raw(_NULL)
    software: _Software | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


class _At(Struct, frozen=True):
    """Number and time of a row."""

    packet: int
    time_ns: int


_NO_ROW: Final = _At(0, 0)


class _Row(NamedTuple):
    """A frame: its bytes, flow, side of the sender, number and time."""

    data: bytes
    flow: Flow
    side: Side
    packet: int
    time_ns: int
    cut: int


class LoggedRequests:
    """Turn rows of a request log into the time line."""

    def __init__(self, registry: Registry) -> None:
        self._encoder = Encoder(registry)
        #: By connection of the log, in order of use.
        self._flows: OrderedDict[str, Flow] = OrderedDict()
        #: The connection of the log by client and broker.
        self._names: dict[Ends, str] = {}
        self._opened = 0
        #: The last row.
        self._last = _NO_ROW
        #: Flow and correlation id of requests that get no response.
        self._one_way: set[tuple[int, int]] = set()
        self._rows: list[_Row] = []
        self._lines: list[Line] = []

    def feed(self, batch: PacketBatch) -> list[Line]:
        """Return the time line of these rows."""
        if self._last is _NO_ROW:
            self._event(logged_times(int(batch.number[0]), int(batch.time_ns[0])))
        columns = (batch.number, batch.time_ns, batch.link_type, batch.offset, batch.length)
        for number, time_ns, kind, offset, length in zip(*(column.tolist() for column in columns), strict=True):
            text = batch.buffer[offset : offset + length]
            self._last = _At(number, time_ns)
            if kind == LOGGED_RESTART:
                self._restart(text.decode(), number, time_ns)
                continue
            try:
                self._row(_LINE.decode(text), number, time_ns, kind)
            except (msgspec.DecodeError, ValueError, EncodeError) as error:
                if kind != LOGGED_RESPONSE:
                    self._unreadable(number, time_ns, str(error))
        return self._taken()

    def close(self) -> list[Line]:
        """End all connections with the capture."""
        while self._flows:
            self._end("capture")
        return self._taken()

    def _restart(self, broker: str, number: int, time_ns: int) -> None:
        """End all connections of a broker."""
        for name in [name for name in self._flows if name.startswith(f"{broker}-")]:
            flow = self._flows.pop(name)
            del self._names[flow.ends]
            self._event(Closed(flow, number, time_ns, "restart", _BROKER))

    def _row(self, line: _Line, number: int, time_ns: int, kind: int) -> None:
        flow = self._flow(line, number, time_ns)
        if kind == LOGGED_RESPONSE:
            self._response(line, flow, number, time_ns)
            return
        if kind == LOGGED_AFTER_GAP:
            flow.gaps += 1
            self._gap(flow, _CLIENT, number, time_ns, "unlogged")
            self._gap(flow, _BROKER, number, time_ns, "unlogged")
        header, body = line.header, bytes(line.request)
        try:
            head = self._encoder.request_head(header)
            # It keeps none of an ApiVersions in a version that it lacks, and of a request from before the log began.
            is_kept = self._encoder.is_kept(header, body)
            if is_kept and self._encoder.is_one_way(header, body):
                self._one_way.add((flow.id, header.correlation_id))
            rest = self._encoder.request_body(header, body) if is_kept else None
        except EncodeError as error:
            self._unreadable(number, time_ns, f"API {header.request_api_key}: {error}")
            rest = None
        self._add(head, rest, flow, _CLIENT, number, time_ns)

    def _response(self, line: _Line, flow: Flow, number: int, time_ns: int) -> None:
        header, body = line.header, bytes(line.response)
        if (flow.id, header.correlation_id) in self._one_way:
            self._one_way.discard((flow.id, header.correlation_id))
            return
        if body == _NULL:  # the broker closed the connection instead
            flow.gaps += 1
            self._gap(flow, _BROKER, number, time_ns, "missing")
            return
        head = self._encoder.response_head(header)
        try:
            rest = self._encoder.response_body(header, body)
        except EncodeError as error:
            self._unreadable(number, time_ns, f"API {header.request_api_key}: {error}")
            rest = None
        self._add(head, rest, flow, _BROKER, number, time_ns)

    def _add(self, head: bytes, body: bytes | None, flow: Flow, side: Side, number: int, time_ns: int) -> None:
        """Add a frame; without a body it is one that was cut after its header."""
        data = head if body is None else head + body
        flow.last_packet, flow.last_time_ns = number, time_ns
        flow.stream_bytes[side] += len(data) + 4
        self._rows.append(_Row(data, flow, side, number, time_ns, int(body is None)))

    def _flow(self, line: _Line, number: int, time_ns: int) -> Flow:
        flow = self._flows.get(line.connection)
        if flow is not None:
            self._flows.move_to_end(line.connection)
            return flow
        ends = _ends(line.connection)
        if (earlier := self._names.get(ends)) is not None:
            self._flows.move_to_end(earlier, last=False)
            self._end("forgotten")
        flow = Flow(self._opened, ends, number, time_ns, service="kafka", client_side=_CLIENT)
        if line.software is not None and line.software.software_name != "unknown":
            flow.software_name, flow.software_version = line.software.software_name, line.software.software_version
        self._opened += 1
        self._event(Opened(flow, number, time_ns))
        self._flows[line.connection], self._names[ends] = flow, line.connection
        if len(self._flows) > limits.FLOWS:
            self._end("forgotten")
        return flow

    def _end(self, how: Literal["capture", "forgotten"]) -> None:
        """End the connection that is unused for longest."""
        _, flow = self._flows.popitem(last=False)
        del self._names[flow.ends]
        last = self._rows[-1] if self._rows else flow
        packet, time_ns = (
            (last.packet, last.time_ns) if isinstance(last, _Row) else (flow.last_packet, flow.last_time_ns)
        )
        self._event(Closed(flow, packet, time_ns, "capture" if how == "capture" else "forgotten"))

    def _gap(self, flow: Flow, side: Side, number: int, time_ns: int, reason: Literal["missing", "unlogged"]) -> None:
        before = flow.last_packet or flow.first_packet
        self._event(Gap(flow, side, number, time_ns, before, number, -1, reason))

    def _unreadable(self, number: int, time_ns: int, why: str) -> None:
        self._event(Weird("LOG_LINES_UNREADABLE", "capture", number, time_ns, why))

    def _event(self, event: Line) -> None:
        self._cut()
        self._lines.append(event)

    def _cut(self) -> None:
        """Put the frames so far into the time line."""
        if self._rows:
            self._lines.append(_frames(self._rows))
            self._rows = []

    def _taken(self) -> list[Line]:
        self._cut()
        lines, self._lines = self._lines, []
        return lines


def _ends(connection: str) -> Ends:
    """Return client and broker of a connection."""
    parts = connection_of(connection)
    if parts is None:
        return Ends(connection, "broker")
    return Ends(f"{_host(parts.client)}:{parts.client_port}", f"{_host(parts.broker)}:{parts.broker_port}")


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _frames(rows: list[_Row]) -> Frames:
    streams: dict[tuple[int, Side], int] = {}
    flows: list[Flow] = []
    by_client: list[bool | None] = []
    stream = []
    for row in rows:
        key = row.flow.id, row.side
        if key not in streams:
            streams[key] = len(flows)
            flows.append(row.flow)
            by_client.append(row.side == _CLIENT)
        stream.append(streams[key])
    size = np.array([len(row.data) for row in rows], np.int64)
    end = np.cumsum(size)
    packet = np.array([row.packet for row in rows], np.int64)
    time_ns = np.array([row.time_ns for row in rows], np.int64)
    cut = np.array([row.cut for row in rows], np.int64)
    none, no = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    return Frames(
        b"".join([row.data for row in rows]), flows, by_client, np.array(stream, np.int64), end - size, end,
        packet, time_ns, packet, time_ns, none - 1, no, cut, none, no,
    )  # fmt: skip
