"""Frames to messages: headers read, requests and answers joined, bodies handed to the dissectors.

A broker answers the requests of one connection in their order (Kafka protocol guide, "Network"; SocketServer mutes the channel), so an
answer belongs to the oldest open request with its correlation id: ids alone are not enough, clients repeat and reuse them.
Where one API's wire differs from all others, its dissector says so as an attribute (kshark.schema.Api) and this stage obeys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from kshark import limits
from kshark.exchange.decoding import CLIENT_IDS, Decoder, Decoders, read_request, read_response, skip_tags
from kshark.model import Closed, Event, Exchange, Flow, Frames, Gap, Kind, Message, Opened, Weird
from kshark.records import RecordsReader

#: Api key and version as one number, correlation id, length of the client id: what nearly every request begins with.
_REQUEST: Final = Struct(">iih").unpack_from
_SHORT_REQUEST: Final = Struct(">ii").unpack_from
_CORRELATION: Final = Struct(">i").unpack_from

#: So many correlation ids of one-way requests are remembered per connection.
_ONE_WAY: Final = 64

#: Numbers of the first and the last packet of a frame that took several.
Packets = tuple[int, int] | UnsetType


class _Open(msgspec.Struct, gc=False):
    """A request that waits for its answer."""

    message: Message
    decoder: Decoder
    correlation_id: int


@dataclass(slots=True, eq=False)
class _Connection:
    """What must be known of a flow to understand its next frame."""

    flow: Flow
    client: str
    broker: str
    open: deque[_Open] = field(default_factory=deque)
    #: Correlation ids of the last one-way requests: an answer to one of them is a fault of the broker.
    one_way: list[int] = field(default_factory=list)
    #: SASL tokens without header follow (SaslHandshake v0); how many of the client's are not answered yet.
    raw: bool = False
    raw_open: int = 0
    #: Answers may be missing: bytes from the broker were lost since the oldest open request was sent.
    answers_lost: bool = False


class FlowState(NamedTuple):
    """What the stage knows of a flow between two of its frames, as values that can be sent: another stage goes on from there (`resume`).

    `open`: of each request without an answer, the message's packet, packets, time_ns, api_key, version, correlation_id, client_id,
    size, and its body where that is a dict. The rest is as in _Connection.
    """

    client: str
    broker: str
    open: list[tuple[Any, ...]]
    one_way: list[int]
    raw: bool
    raw_open: int
    answers_lost: bool


class ExchangeStage:
    """Makes Message and Exchange from Frames; passes every other event on, in its place.

    `feed` yields pages: lists of events in time line order whose record batches are opened, bounded by
    limits.PENDING_RECORD_BYTES of decompressed records. An Exchange stands right behind the message that completed it.
    """

    def __init__(self, decoders: Decoders, records: RecordsReader) -> None:
        self._decoders = decoders
        self._records = records
        self._connections: dict[int, _Connection] = {}
        self._page: list[Event] = []

    def feed(self, item: Event) -> Iterator[list[Event]]:
        match item:
            case Frames():
                yield from self._frames(item)
            case Gap():
                connection = self._connections.get(item.flow.id)
                if connection is not None and item.side != item.flow.client_side:
                    connection.answers_lost = True
                self._page.append(item)
            case Opened():
                self._page.append(item)
            case Closed():
                self._close_flow(item)
            case _:
                self._page.append(item)

    def flush(self) -> Iterator[list[Event]]:
        """The page collected so far; the pipeline asks at the end of each batch."""
        if self._page:
            yield self._take_page()

    def state_of(self, flow: int) -> FlowState | None:
        """The flow's state now; None before its first frame and after its end."""
        known = self._connections.get(flow)
        if known is None:
            return None
        waiting = [(*_what_waits(request.message), _plain(request.message.body)) for request in known.open]
        return FlowState(known.client, known.broker, waiting, known.one_way[:], known.raw, known.raw_open, known.answers_lost)

    def resume(self, states: Iterable[tuple[Flow, FlowState]]) -> None:
        """These flows continue as if their earlier frames had come here; all others are new."""
        self._connections = {}
        for flow, at in states:
            state = (at.one_way, at.raw, at.raw_open, at.answers_lost)
            known = self._connections[flow.id] = _Connection(flow, at.client, at.broker, deque(), *state)
            for packet, packets, time_ns, key, version, correlation_id, client_id, size, body in at.open:
                decoder = self._decoders[key << 16 | version & 0xFFFF]
                message = Message(
                    packet, packets, time_ns, flow.id, at.client, at.broker, "request", key, decoder.name, version,
                    correlation_id, client_id, UNSET, UNSET, size, body,
                )  # fmt: skip
                known.open.append(_Open(message, decoder, correlation_id))

    def _take_page(self) -> list[Event]:
        self._records.fill()
        page, self._page = self._page, []
        return page

    def _frames(self, frames: Frames) -> Iterator[list[Event]]:
        buffer = frames.buffer
        columns = (
            frames.stream,
            frames.start,
            frames.end,
            frames.first_packet,
            frames.first_time_ns,
            frames.last_packet,
            frames.last_time_ns,
        )
        rows = zip(*[column.tolist() for column in columns], frames.resync.tolist(), strict=True)
        request, response, records = self._request, self._response, self._records
        connections: list[_Connection | None] = [None] * len(frames.flows)
        sides = frames.by_client
        for stream, start, end, first, first_ns, last, last_ns, again in rows:
            connection = connections[stream]
            if connection is None:
                connection = connections[stream] = self._connection(frames.flows[stream])
            packets = UNSET if first == last else (first, last)
            by_client = sides[stream]
            if by_client:
                message = request(connection, buffer, start, end, packets, last, last_ns)
            elif by_client is None:
                message = self._without_header(connection, "unknown", UNSET, end - start, packets, last, last_ns)
            else:
                message = response(connection, buffer, start, end, packets, last, last_ns, first_ns)
            if again:
                _mark(message, "RESYNC")
            if records.pending_bytes > limits.PENDING_RECORD_BYTES:
                yield self._take_page()

    def _connection(self, flow: Flow) -> _Connection:
        known = self._connections.get(flow.id)
        if known is None:
            known = self._connections[flow.id] = _Connection(flow, flow.client, flow.broker)
        return known

    # -- requests

    def _request(self, connection: _Connection, buffer: bytes, start: int, end: int, packets: Packets, last: int, last_ns: int) -> Message:
        if connection.raw and not self._ends_raw(connection, buffer, start, end):
            connection.raw_open += 1
            return self._without_header(connection, "request", ["RAW_TOKEN"], end - start, packets, last, last_ns)
        if end - start < 8:
            return self._without_header(connection, "unknown", ["BODY_TOO_SHORT"], end - start, packets, last, last_ns)
        client_id: str | UnsetType | None
        codes, detail = None, ""
        try:
            key_and_version, correlation_id, length = _REQUEST(buffer, start)
            decoder = self._decoders[key_and_version]
            at = start + 10
            if length >= 0:
                client_id = CLIENT_IDS[buffer[at : at + length]]
                at += length
            else:
                client_id = None
            if decoder.request_header == 2:
                at = at + 1 if buffer[at] == 0 else skip_tags(buffer, at, end)
            body, stop = decoder.request.read(buffer, at, end)
        except Exception:  # damaged bytes may raise anything; the exact reader says what is wrong
            stop = -1
        if stop != end or not decoder.request_header:
            key_and_version, correlation_id = _SHORT_REQUEST(buffer, start)
            decoder = self._decoders[key_and_version]
            client_id, (body, codes, detail) = read_request(decoder, buffer, start, end)
        if decoder.weird:
            codes = [decoder.weird, *(codes or ())]
        message = Message(
            last, packets, last_ns, connection.flow.id, connection.client, connection.broker, "request", decoder.key, decoder.name,
            decoder.version, correlation_id, client_id, UNSET, UNSET, end - start, body, codes or UNSET, detail or UNSET,
        )  # fmt: skip
        self._page.append(message)
        if self._records.unclaimed:
            self._records.claim(message)
        if decoder.peculiar and self._obey(decoder, connection, message, correlation_id):
            return message
        waiting = connection.open
        if waiting:
            self._look_behind(connection, message)
        else:
            connection.answers_lost = False
        waiting.append(_Open(message, decoder, correlation_id))
        return message

    def _obey(self, decoder: Decoder, connection: _Connection, message: Message, correlation_id: int) -> bool:
        """What this API asks for beyond the ordinary; True if the request has no answer."""
        body = message.body
        if decoder.unasked:
            message.body = UNSET
        if decoder.software is not None and body is not None:
            _learn_software(connection.flow, decoder.software, body)
        if decoder.one_way is None or getattr(body, decoder.one_way[0], None) != decoder.one_way[1]:
            return False
        connection.one_way.append(correlation_id)
        del connection.one_way[:-_ONE_WAY]
        self._page.append(Exchange(message, None, "one_way", connection.flow, message.packet))
        return True

    def _look_behind(self, connection: _Connection, message: Message) -> None:
        """Other requests are open: the correlation id may be one of theirs, and they may be too many."""
        waiting = connection.open
        for request in waiting:
            if request.correlation_id == message.correlation_id:
                _mark(message, "CORRELATION_ID_REUSED")
                break
        if len(waiting) >= limits.IN_FLIGHT:
            oldest = waiting.popleft()
            self._tell("IN_FLIGHT_LIMIT", connection.flow, oldest.message, message.packet, message.time_ns)
            self._give_up(connection, oldest, message.packet)

    # -- responses

    def _response(
        self,
        connection: _Connection,
        buffer: bytes,
        start: int,
        end: int,
        packets: Packets,
        last: int,
        last_ns: int,
        first_ns: int,
    ) -> Message:
        if connection.raw_open:
            connection.raw_open -= 1
            return self._without_header(connection, "response", ["RAW_TOKEN"], end - start, packets, last, last_ns)
        if end - start < 4:
            return self._without_header(connection, "unknown", ["BODY_TOO_SHORT"], end - start, packets, last, last_ns)
        (correlation_id,) = _CORRELATION(buffer, start)
        waiting = connection.open
        order = None
        if waiting and waiting[0].correlation_id == correlation_id:
            request = waiting.popleft()
        else:
            found, order = self._search(connection, correlation_id, last)
            if found is None:
                return self._unmatched(connection, correlation_id, end - start, packets, last, last_ns)
            request = found
        asked, decoder = request.message, request.decoder
        codes, detail = None, ""
        try:
            at = start + 4
            if decoder.response_header:
                at = at + 1 if buffer[at] == 0 else skip_tags(buffer, at, end)
            body, stop = decoder.response.read(buffer, at, end)
        except Exception:  # damaged bytes may raise anything; the exact reader says what is wrong
            stop = -1
        if stop != end:
            body, codes, detail = read_response(decoder, buffer, start, end)
        if order or decoder.weird:
            codes = [code for code in (decoder.weird, *(codes or ()), order) if code]
        message = Message(
            last, packets, last_ns, asked.flow, connection.client, connection.broker, "response", asked.api_key, asked.api, asked.version,
            correlation_id, asked.client_id, asked.packet, first_ns - asked.time_ns, end - start, body, codes or UNSET, detail or UNSET,
        )  # fmt: skip
        self._page.append(message)
        if self._records.unclaimed:
            self._records.claim(message)
        if decoder.then_raw and getattr(body, "error_code", None) == 0:
            connection.raw = True
        self._page.append(Exchange(asked, message, "answered", connection.flow, last))
        return message

    def _search(self, connection: _Connection, correlation_id: int, packet: int) -> tuple[_Open | None, str | None]:
        """The request that is answered in that packet although older ones are open, and the code of what is weird about that."""
        waiting = connection.open
        place = next((at for at, request in enumerate(waiting) if request.correlation_id == correlation_id), None)
        if place is None:
            return None, None
        request = waiting[place]
        if not connection.answers_lost:
            del waiting[place]
            return request, "RESPONSE_OUT_OF_ORDER"
        for _ in range(place):
            self._give_up(connection, waiting.popleft(), packet)
        connection.answers_lost = bool(len(waiting) > 1)
        return waiting.popleft(), None

    def _unmatched(self, connection: _Connection, correlation_id: int, size: int, packets: Packets, last: int, last_ns: int) -> Message:
        code = "ACKS0_ANSWERED" if correlation_id in connection.one_way else "RESPONSE_UNMATCHED"
        message = self._without_header(connection, "response", [code], size, packets, last, last_ns)
        message.correlation_id = correlation_id
        self._page.append(Exchange(None, message, "orphan", connection.flow, last))
        return message

    # -- frames without a Kafka header

    def _ends_raw(self, connection: _Connection, buffer: bytes, start: int, end: int) -> bool:
        """Whether the client's frame is a request again: a known header, and a body that fits to the last byte."""
        if end - start < 10:
            return False
        decoder = self._decoders[_SHORT_REQUEST(buffer, start)[0]]
        if not self._decoders.knows(decoder.key, decoder.version):
            return False
        fits = read_request(decoder, buffer, start, end)[1].codes is None
        self._records.discard()
        if fits:
            connection.raw = False
            connection.raw_open = 0
        return fits

    def _without_header(
        self, connection: _Connection, kind: Kind, codes: list[str] | UnsetType, size: int, packets: Packets, last: int, last_ns: int
    ) -> Message:
        """A message of which nothing is known but its place and size."""
        message = Message(
            last, packets, last_ns, connection.flow.id, connection.client, connection.broker, kind, UNSET, UNSET, UNSET,
            UNSET, UNSET, UNSET, UNSET, size, None, codes,
        )  # fmt: skip
        self._page.append(message)
        return message

    # -- ends

    def _give_up(self, connection: _Connection, request: _Open, packet: int) -> None:
        """No answer will come: that packet shows it."""
        self._page.append(Exchange(request.message, None, "unanswered", connection.flow, packet))

    def _tell(self, code: str, flow: Flow, asked: Message, packet: int, time_ns: int) -> None:
        """What is learned about a request later: an event of its own, since the message was emitted and is final."""
        name = asked.api if isinstance(asked.api, str) else f"a request of API {asked.api_key}"
        text = f"{name} with correlation id {asked.correlation_id} in packet {asked.packet}"
        self._page.append(Weird(code, "exchange", packet, time_ns, text, flow.id, flow.client_side, asked.packet))

    def _close_flow(self, closed: Closed) -> None:
        connection = self._connections.pop(closed.flow.id, None)
        if connection is not None:
            for request in connection.open:
                if closed.how != "capture" and not connection.answers_lost:
                    self._tell("REQUEST_UNANSWERED", closed.flow, request.message, closed.packet, closed.time_ns)
                self._give_up(connection, request, closed.packet)
        self._page.append(closed)


_what_waits: Final = attrgetter("packet", "packets", "time_ns", "api_key", "version", "correlation_id", "client_id", "size")


def _plain(body: Any) -> Any:
    return body if type(body) is dict else UNSET


def _mark(message: Message, code: str) -> None:
    """Adds a weird's code to a message."""
    if isinstance(message.weird, UnsetType):
        message.weird = [code]
    else:
        message.weird = [*message.weird, code]


def _learn_software(flow: Flow, names: tuple[str, str], body: Any) -> None:
    name, version = (getattr(body, attribute, UNSET) for attribute in names)
    if isinstance(name, str) and isinstance(version, str):
        flow.software_name, flow.software_version = name, version
