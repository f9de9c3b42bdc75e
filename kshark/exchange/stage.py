"""Turn frames into messages: read headers, join requests and answers, pass bodies to the dissectors.

A broker answers the requests of one connection in their order (Kafka protocol guide, "Network"; SocketServer mutes the
channel), so an answer belongs to the oldest open request with its correlation id. Ids alone are not enough: clients
repeat and reuse them. Where one API's wire format differs from all others, its dissector has an attribute for it
(kshark.schema.Api), and this stage follows the attribute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from msgspec import UNSET, UnsetType

from kshark import limits
from kshark.anomaly import CATALOGUE
from kshark.exchange.connection import KafkaConnection
from kshark.exchange.decoding import (
    CLIENT_IDS,
    Decoder,
    Decoders,
    read_request,
    read_response,
    skip_tags,
    without_body,
)
from kshark.exchange.offer import Offers
from kshark.exchange.open_requests import ManyOpen, OpenRequest
from kshark.exchange.owner import belongs, owner_of
from kshark.exchange.software import misnamed
from kshark.model import (
    UNKNOWN_PACKET,
    Closed,
    Event,
    Exchange,
    Flow,
    Frames,
    Gap,
    Kind,
    Message,
    Outcome,
    Weird,
)
from kshark.records import RecordsReader

#: Api key and version as one number, correlation id, length of the client id: the beginning of nearly every request.
_REQUEST: Final = Struct(">iih").unpack_from
_SHORT_REQUEST: Final = Struct(">ii").unpack_from
_CORRELATION: Final = Struct(">i").unpack_from

_BODY_CUT: Final = "BODY_CUT"
#: Faults of a body; one that ends early may seem to have any of them.
_BODY_FAULTS: Final = {code for code, entry in CATALOGUE.items() if entry.group == "codec"}
#: Correlation ids of one-way requests that are remembered per connection.
_ONE_WAY: Final = 64

_ILLEGAL_SASL_STATE: Final = 34

#: Numbers of the first and the last packet of a frame that spans several.
Packets = tuple[int, int] | UnsetType


class ExchangeStage:
    """Stage that makes Message and Exchange from Frames, and passes every other event on at the same position.

    `feed` yields pages: lists of events in time line order whose record batches are opened, bounded by
    limits.PENDING_RECORD_BYTES of decompressed records. An Exchange stands right after the message that completed it.
    There is no `close`: framing closes every connection, and the last batch has its last page.
    """

    def __init__(
        self,
        decoders: Decoders,
        records: RecordsReader,
        max_request_bytes: int | None = None,
        *,
        knows: bool = True,
    ) -> None:
        """`max_request_bytes`: the longest request that the brokers accept, if the user knows it.

        `knows`: set Message.knows.
        """
        self._decoders = decoders
        self._most = max_request_bytes
        #: The cost of all open requests (OpenRequest.cost).
        self._open_bytes = 0
        self._records = records
        self._knows = knows
        self._connections: dict[int, KafkaConnection] = {}
        #: By client and broker, the requests that were open when their last connection ended.
        self._unanswered: OrderedDict[tuple[str, str], list[Message]] = OrderedDict()
        self._offers = Offers()
        self._page: list[Event] = []

    def feed(self, lines: Iterable[Event]) -> Iterator[list[Event]]:
        """Yield the pages of one batch of the time line."""
        for item in lines:
            if type(item) is Frames:
                yield from self._frames(item)
            elif type(item) is Closed:
                self._close_flow(item)
            else:
                if type(item) is Gap:
                    self._lose(item)
                self._page.append(item)
        if self._page:
            yield self._take_page()

    def _lose(self, gap: Gap) -> None:
        connection = self._connections.get(gap.flow.id)
        if connection is not None and gap.side != gap.flow.client_side and gap.reason != "body":
            connection.answers_lost = True

    def _take_page(self) -> list[Event]:
        self._records.fill()
        page, self._page = self._page, []
        return page

    def _frames(self, frames: Frames) -> Iterator[list[Event]]:
        buffer = frames.buffer
        rows = zip(
            frames.stream.tolist(),
            frames.start.tolist(),
            frames.end.tolist(),
            frames.first_packet.tolist(),
            frames.first_time_ns.tolist(),
            frames.last_packet.tolist(),
            frames.last_time_ns.tolist(),
            frames.knows.tolist() if self._knows else [UNKNOWN_PACKET] * len(frames),
            frames.resync.tolist(),
            frames.cut.tolist(),
            frames.long.tolist(),
            strict=True,
        )
        request, response, records = self._request, self._response, self._records
        connections: dict[int, KafkaConnection] = {}  # a small dict for this batch: `_connections` is large
        sides, most = frames.by_client, limits.PENDING_RECORD_BYTES
        for stream, start, end, first, first_ns, last, last_ns, knows, again, missing, long in rows:
            try:
                connection = connections[stream]
            except KeyError:
                connection = connections[stream] = self._connection(frames.flows[stream])
            packets = UNSET if first == last else (first, last)
            by_client = sides[stream]
            if long or by_client is None:
                message = self._by_head(connection, buffer[start:end], by_client, packets, last, last_ns, first_ns)
            elif by_client:
                message = request(connection, buffer, start, end, packets, last, last_ns)
            else:
                message = response(connection, buffer, start, end, packets, last, last_ns, first_ns)
            if missing:
                self._cut_off(connection, message, missing, long)
            if connection.proxy is not None:
                message.proxy = connection.proxy
            if knows >= 0:
                message.knows = knows
            if again:
                _mark(message, "RESYNC")
            if records.pending_bytes > most:
                yield self._take_page()

    def _cut_off(self, connection: KafkaConnection, message: Message, missing: int, long: bool) -> None:
        """Note that so many bytes of the last message are not here: that its body ends early is no fault."""
        message.size += missing
        if long:
            _mark(message, "BODY_NOT_KEPT")
            return
        message.weird = [*(code for code in message.weird or () if code not in _BODY_FAULTS), _BODY_CUT]
        message.detail = UNSET
        last = self._page[-1]
        if type(last) is Exchange and last.response is message and last.request is not None:
            last.outcome = "body_cut"
            decoder = self._decoders[last.request.api_key << 16 | last.request.version & 0xFFFF]  # type: ignore[operator]
            if decoder.sasl is not None and not isinstance(getattr(message.body, "error_code", None), int):
                connection.authenticated = None  # whether it was refused is cut off
                connection.raw = connection.raw or decoder.then_raw

    def _connection(self, flow: Flow) -> KafkaConnection:
        connection = self._connections.get(flow.id)
        if connection is None:
            connection = self._connections[flow.id] = KafkaConnection(flow, flow.client, flow.broker, flow.proxy)
        return connection

    # -- requests

    def _request(
        self,
        connection: KafkaConnection,
        buffer: bytes,
        start: int,
        end: int,
        packets: Packets,
        last: int,
        last_ns: int,
    ) -> Message:
        if connection.raw and not self._ends_raw(connection, buffer, start, end):
            connection.raw_open += 1
            return self._without_header(connection, "request", ["RAW_TOKEN"], end - start, packets, last, last_ns)
        if end - start < 8:
            return self._without_header(connection, "request", ["BODY_TOO_SHORT"], end - start, packets, last, last_ns)
        client_id: str | UnsetType | None
        codes: list[str] | UnsetType
        detail: str | UnsetType
        codes = detail = UNSET
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
        except Exception:  # damaged bytes may raise any error; the exact reader names the fault
            stop = -1
        if stop != end or not decoder.request_header:
            key_and_version, correlation_id = _SHORT_REQUEST(buffer, start)
            decoder = self._decoders[key_and_version]
            client_id, exact = read_request(decoder, buffer, start, end)
            body, codes, detail = exact.body, exact.codes or UNSET, exact.detail or UNSET
        message = Message(
            last, packets, last_ns, connection.flow.id, connection.client, connection.broker, "request", decoder.key,
            decoder.name,
            decoder.version, correlation_id, client_id, UNSET, UNSET, end - start, body,
            codes if decoder.weird is None else [decoder.weird, *(codes or ())], detail,
        )  # fmt: skip
        self._page.append(message)
        if self._records.unclaimed:
            self._records.claim(message)
        if decoder.peculiar and self._obey(decoder, connection, message, correlation_id):
            return message
        read_owner = decoder.owner_of_request
        owner = None if read_owner is None else read_owner(body) if stop == end else owner_of(body)
        request = OpenRequest(message, decoder, correlation_id, owner)
        waiting = connection.open
        if waiting:
            self._open_another(connection, request, end - start)
        else:
            connection.answers_lost = False
            connection.highest = correlation_id
            connection.by_id = None
            waiting.append(request)
        return message

    def _obey(self, decoder: Decoder, connection: KafkaConnection, message: Message, correlation_id: int) -> bool:
        """Follow the attributes by which this API differs from others; return True if the request has no answer."""
        body = message.body
        if decoder.unasked:
            message.body = UNSET
        if decoder.software is not None and body is not None:
            name_field, version_field = decoder.software
            name, version = getattr(body, name_field, UNSET), getattr(body, version_field, UNSET)
            if isinstance(name, str) and isinstance(version, str):
                connection.flow.software_name, connection.flow.software_version = name, version
                if message.weird is UNSET and (wrong := misnamed(name, version)):
                    _mark(message, "SOFTWARE_NAME_INVALID", wrong)
        if decoder.early_access and not connection.is_early:
            connection.is_early = True
            _mark(message, "EARLY_ACCESS_SHARE_API", f"version {decoder.version}")
        if decoder.one_way is None or getattr(body, decoder.one_way[0], None) != decoder.one_way[1]:
            return False
        connection.one_way.append(correlation_id)
        del connection.one_way[:-_ONE_WAY]
        self._page.append(Exchange(message, None, "one_way", connection.flow, message.packet))
        return True

    def _open_another(self, connection: KafkaConnection, request: OpenRequest, size: int) -> None:
        """Note and check a request that is sent while others are open, and of which `size` bytes are kept.

        Its correlation id may be that of another, and there may be too many open requests.
        """
        waiting, message = connection.open, request.message
        connection.number += 1
        request.number = connection.number
        if request.correlation_id > connection.highest:
            connection.highest = request.correlation_id  # the usual case: clients count up
        elif (same := connection.index_of(request.correlation_id)) is not None:
            _mark(message, "CORRELATION_ID_REUSED", _named(waiting[same].message))
        request.cost = cost = limits.OPEN_REQUEST_BYTES + size
        self._open_bytes = held = self._open_bytes + cost
        if held > limits.OPEN_BYTES:
            self._give_up_oldest(connection, message)
        elif len(waiting) == limits.MANY_OPEN and type(waiting) is list:
            waiting = connection.open = ManyOpen(waiting)
        waiting.append(request)

    def _give_up_oldest(self, connection: KafkaConnection, newest: Message) -> None:
        """Give up the oldest requests of a connection until all open requests together are few enough."""
        waiting = connection.open
        while self._open_bytes > limits.OPEN_BYTES and waiting:
            oldest = waiting.pop(0)
            connection.given_up += 1
            self._report("IN_FLIGHT_LIMIT", connection.flow, oldest.message, newest.packet, newest.time_ns)
            self._give_up(connection, oldest, newest.packet)

    # -- responses

    def _response(
        self,
        connection: KafkaConnection,
        buffer: bytes,
        start: int,
        end: int,
        packets: Packets,
        last: int,
        last_ns: int,
        first_ns: int,
    ) -> Message:
        if connection.raw_open or end - start < 4:
            code = "RAW_TOKEN" if connection.raw_open else "BODY_TOO_SHORT"
            connection.raw_open = max(0, connection.raw_open - 1)
            return self._without_header(connection, "response", [code], end - start, packets, last, last_ns)
        (correlation_id,) = _CORRELATION(buffer, start)
        waiting = connection.open
        is_next = waiting and waiting[0].correlation_id == correlation_id
        request, overtaken = (waiting.pop(0), None) if is_next else self._search(connection, correlation_id, last)
        if request is None:
            return self._unmatched(connection, correlation_id, end - start, packets, last, last_ns)
        asked, decoder = request.message, request.decoder
        self._open_bytes -= request.cost
        codes: list[str] | UnsetType
        detail: str | UnsetType
        codes = detail = UNSET
        try:
            at = start + 4
            at = at if not decoder.response_header else at + 1 if buffer[at] == 0 else skip_tags(buffer, at, end)
            body, stop = decoder.response.read(buffer, at, end)
        except Exception:  # damaged bytes may raise any error; the exact reader names the fault
            stop = -1
        if stop != end:
            exact = read_response(decoder, buffer, start, end)
            body, codes, detail = exact.body, exact.codes or UNSET, exact.detail or UNSET
        message = Message(
            last, packets, last_ns, asked.flow, connection.client, connection.broker, "response", asked.api_key,
            asked.api, asked.version,
            correlation_id, asked.client_id, asked.packet, first_ns - asked.time_ns, end - start, body,
            codes if decoder.weird is None else [decoder.weird, *(codes or ())], detail,
        )  # fmt: skip
        owner = request.owner
        if owner is not None:
            group_id, member_id = owner
            if decoder.names_owner or group_id is None or member_id is None:
                belongs(message, owner)
            else:
                message.group_id, message.member_id = group_id, member_id
        self._page.append(message)
        if overtaken is not None:
            _mark(message, "RESPONSE_OUT_OF_ORDER", _named(overtaken))
        if self._records.unclaimed:
            self._records.claim(message)
        if decoder.changes_connection:
            _learn(decoder, connection, message, self._offers)
        self._page.append(Exchange(asked, message, "answered", connection.flow, last))
        return message

    def _search(
        self, connection: KafkaConnection, correlation_id: int, packet: int
    ) -> tuple[OpenRequest | None, Message | None]:
        """Return the request that is answered in this packet although older ones are open.

        Also return the oldest of the open ones if the order is odd.
        """
        waiting = connection.open
        index = connection.index_of(correlation_id)
        if index is None:
            return None, None
        while index and (connection.answers_lost or not _is_answered(waiting[0])):
            self._give_up(connection, waiting.pop(0), packet)
            index -= 1
        request = waiting.pop(index)
        return request, waiting[0].message if index else None

    def _unmatched(
        self, connection: KafkaConnection, correlation_id: int, size: int, packets: Packets, last: int, last_ns: int
    ) -> Message:
        """Report an answer without a captured request.

        An answer to a request from before the capture is normal, or to one that was given up.
        """
        codes: list[str] | UnsetType = ["RESPONSE_UNMATCHED"]
        if connection.given_up:
            connection.given_up -= 1
            codes = UNSET
        elif correlation_id in connection.one_way:
            codes = ["ACKS0_ANSWERED"]
        elif connection.may_be_older(correlation_id):
            codes = UNSET
        message = self._without_header(connection, "response", codes, size, packets, last, last_ns)
        message.correlation_id = correlation_id
        for asked in self._unanswered.get((connection.client, connection.broker), ()):
            if codes is not UNSET and asked.correlation_id == correlation_id:
                message.detail = f"{codes[0]}: it fits {_named(asked)}, on the connection before this one"
        self._page.append(Exchange(None, message, "orphan", connection.flow, last))
        return message

    # -- frames of which only the head is read

    def _by_head(
        self,
        connection: KafkaConnection,
        head: bytes,
        by_client: bool | None,
        packets: Packets,
        last: int,
        last_ns: int,
        first_ns: int,
    ) -> Message:
        """Make the message of a frame that is too long to be collected, or whose sender is unknown."""
        if by_client is None:
            return self._without_header(connection, "unknown", UNSET, len(head), packets, last, last_ns)
        if by_client:
            return self._long_request(connection, head, packets, last, last_ns)
        if len(head) < 4:
            return self._without_header(connection, "response", UNSET, len(head), packets, last, last_ns)
        index = connection.index_of(_CORRELATION(head)[0])
        if index is not None:
            request = connection.open[index]
            request.decoder = without_body(request.decoder)
        return self._response(connection, head, 0, len(head), packets, last, last_ns, first_ns)

    def _long_request(
        self, connection: KafkaConnection, head: bytes, packets: Packets, last: int, last_ns: int
    ) -> Message:
        if connection.raw or len(head) < 8:
            connection.raw_open += connection.raw
            return self._without_header(connection, "request", UNSET, len(head), packets, last, last_ns)
        key_and_version, correlation_id = _SHORT_REQUEST(head)
        decoder = self._decoders[key_and_version]
        client_id, answered = self._decoders.read_head(decoder, head)
        message = Message(
            last, packets, last_ns, connection.flow.id, connection.client, connection.broker, "request", decoder.key,
            decoder.name, decoder.version, correlation_id, client_id, UNSET, UNSET, len(head), None,
            UNSET if decoder.weird is None else [decoder.weird],
        )  # fmt: skip
        self._page.append(message)
        request = OpenRequest(message, decoder, correlation_id, one_way=answered is False)
        if not connection.open:
            connection.answers_lost = False
            connection.highest = correlation_id
        self._open_another(connection, request, 0)
        if not answered:
            connection.answers_lost = True  # an answer may come or not
        return message

    # -- frames without a Kafka header

    def _ends_raw(self, connection: KafkaConnection, buffer: bytes, start: int, end: int) -> bool:
        """True if the client's frame is a request again: a known header, and a body that fits to the last byte."""
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
        self,
        connection: KafkaConnection,
        kind: Kind,
        codes: list[str] | UnsetType,
        size: int,
        packets: Packets,
        last: int,
        last_ns: int,
    ) -> Message:
        """Make a message of which only position and size are known."""
        message = Message(
            last, packets, last_ns, connection.flow.id, connection.client, connection.broker, kind, UNSET, UNSET, UNSET,
            UNSET, UNSET, UNSET, UNSET, size, None, codes,
        )  # fmt: skip
        self._page.append(message)
        return message

    # -- ends

    def _give_up(self, connection: KafkaConnection, request: OpenRequest, packet: int) -> None:
        """Report that no answer will arrive, or is waited for; this packet shows it."""
        self._open_bytes -= request.cost
        outcome: Outcome = "one_way" if request.one_way else "unanswered"
        self._page.append(Exchange(request.message, None, outcome, connection.flow, packet))

    def _report(self, code: str, flow: Flow, asked: Message, packet: int, time_ns: int, addition: str = "") -> None:
        """Report a fault of an earlier request: an event of its own, since its message was emitted and is final."""
        correlation_id = None if isinstance(asked.correlation_id, UnsetType) else asked.correlation_id
        self._page.append(
            Weird(
                code,
                "exchange",
                packet,
                time_ns,
                _named(asked) + addition,
                flow.id,
                flow.client_side,
                asked.packet,
                correlation_id=correlation_id,
            )
        )

    def _close_flow(self, closed: Closed) -> None:
        connection = self._connections.pop(closed.flow.id, None)
        if connection is not None:
            for request in connection.open:
                if closed.how not in ("capture", "forgotten") and not connection.answers_lost and _is_answered(request):
                    asked = request.message
                    for code, addition in connection.without_answer(request, closed):
                        self._report(code, closed.flow, asked, closed.packet, closed.time_ns, addition)
                    if self._most is not None and asked.size > self._most:
                        addition = f": {asked.size} bytes; brokers accept up to {self._most} (--max-request-bytes)"
                        self._report("REQUEST_TOO_LONG", closed.flow, asked, asked.packet, asked.time_ns, addition)
                self._give_up(connection, request, closed.packet)
            if connection.open:
                self._unanswered[connection.client, connection.broker] = [it.message for it in connection.open]
                if len(self._unanswered) > limits.ENDED_UNANSWERED:
                    self._unanswered.popitem(last=False)
        self._page.append(closed)


def _is_answered(request: OpenRequest) -> bool:
    """True if the request asks for an answer; False if the field that says so was cut off."""
    one_way, message = request.decoder.one_way, request.message
    is_cut = message.weird is not UNSET and _BODY_CUT in message.weird
    return one_way is None or not is_cut or isinstance(getattr(message.body, one_way[0], None), int)


def _mark(message: Message, code: str, detail: str = "") -> None:
    """Add a weird's code, and its detail, to a message."""
    message.weird = [*(message.weird or ()), code]
    if detail:
        message.detail = f"{message.detail or ''}{'; ' if message.detail else ''}{code}: {detail}"


def _named(asked: Message) -> str:
    """Return the name of a request: `Metadata with correlation id 7 in packet 12`."""
    name = asked.api if isinstance(asked.api, str) else f"a request of API {asked.api_key}"
    return f"{name} with correlation id {asked.correlation_id} in packet {asked.packet}"


def _learn(decoder: Decoder, connection: KafkaConnection, answer: Message, offers: Offers) -> None:
    """Update the connection's state from an answer."""
    error = getattr(answer.body, "error_code", None)
    if decoder.then_raw and error == 0:
        connection.raw = connection.authenticated = True  # tokens without headers show no result
    if error == _ILLEGAL_SASL_STATE:
        _mark(answer, "SASL_SEQUENCE")
    elif decoder.sasl is not None and isinstance(error, int) and not connection.authenticated:
        # A broker that refuses authentication closes the connection in any case.
        connection.authenticated = None if error else decoder.sasl == "continues"
    if decoder.fell_back is None:
        return
    if error == decoder.fell_back:
        _mark(answer, "APIVERSIONS_FALLBACK", f"version {decoder.version} was asked for")
    elif error == 0 and answer.weird is UNSET:
        connection.offered = offers.of(answer)
