"""Sort the events of a share for the analysis: exchanges by bucket, and the events that all buckets need.

The bucket of an exchange depends on the keys that all machines with rules have in common (the member, or the group).
Each bucket is judged separately. One more bucket has the exchanges of all members and APIs for incidents
(kshark.incidents), with the bodies that incidents read. Events outside the buckets are common to all: starts and ends
of connections, capture gaps, what brokers report about themselves, requests whose member is unreadable, frames without
a readable header, weirds that rules or incidents use and, without their bodies, messages with codes that rules use. Of
all other messages only signs are kept: messages without a body that show that a connection was alive. These are its
first and last request, its first response, and the last request before a response without a request.
kshark.analysis.analyzer lists the events that verdicts depend on.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kshark.analysis.facts.holes import DROPS
from kshark.analysis.facts.reading import SESSION_APIS, doubt_of
from kshark.analysis.facts.releases import RELEASE_APIS
from kshark.analysis.facts.settings import CONFIG_APIS
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules import BOOK
from kshark.anomaly import GIVEN_UP
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_FETCH, SHARE_STATE
from kshark.incidents import Refusals
from kshark.incidents.reads import APIS, WEIRDS, numbers
from kshark.link.disorder import CLOCK_DOUBTS, DISORDERS
from kshark.model import Closed, Event, Exchange, Gap, HalfClosed, Late, Message, Opened, Weird
from kshark.records import RecordsField, spans_of
from kshark.tables.bodies import as_fields
from kshark.tables.events import AFTER, BEFORE, LATE, MESSAGES, PositionedEvent, TimePosition

_KEY: Final = BOOK.bucket
_NEVER: Final = 1 << 62
#: Exchanges of a bucket are packed together until they exceed this many bytes.
_BATCH_BYTES: Final = 1 << 17
#: First byte of a list whose length follows in four bytes (msgpack: array 32).
_LIST: Final = b"\xdd"
#: Weirds that verdicts and incidents depend on.
ASKED_FOR: Final = BOOK.weirds.keys() | DISORDERS | CLOCK_DOUBTS | DROPS | GIVEN_UP | WEIRDS
NO_REFUSALS: Final[Refusals] = {}
_asked: Final = attrgetter(
    "packet", "packets", "time_ns", "client", "broker", "api_key", "api", "version", "correlation_id", "client_id",
    "size", "weird",
    "detail", "knows", "body",
)  # fmt: skip
_answered: Final = attrgetter("packet", "packets", "time_ns", "latency_ns", "size", "weird", "detail", "knows", "body")
_PACKED: Final = msgspec.msgpack.Encoder(enc_hook=lambda _: None)  # UNSET
_JSON: Final = msgspec.json.Encoder(enc_hook=lambda _: None)


class Packed(NamedTuple):
    """Exchanges of a bucket; none of their events is before packet `since`."""

    bucket: int
    since: int
    exchanges: bytes


class _Lot:
    """Packed exchanges of a bucket, concatenated."""

    def __init__(self) -> None:
        self.since = _NEVER
        self.count = 0
        self.packed = bytearray()

    def add(self, asked: TimePosition, *row: Any) -> None:
        self.since = min(self.since, asked[0])
        self.count += 1
        _PACKED.encode_into((asked, *row), self.packed, -1)


class Buckets:
    """Pack exchanges by bucket."""

    def __init__(self, buckets: int) -> None:
        """`buckets`: the number of buckets for judging; the next number is the bucket for incidents."""
        self._buckets = buckets
        self._held: defaultdict[int, _Lot] = defaultdict(_Lot)
        self._full: list[Packed] = []

    def add(self, asked: TimePosition, place: TimePosition, exchange: Exchange) -> None:
        """Add an exchange with a readable request; `asked` and `place` are the places of request and exchange."""
        request, response = exchange.request, exchange.response
        assert request is not None
        answer = None if response is None else _answered(response)
        self._add(self._bucket(request), asked, place, exchange, _asked(request), answer)

    def watch(
        self, asked: TimePosition | None, place: TimePosition, exchange: Exchange, codes: Sequence[PlacedCode] = ()
    ) -> None:
        """Add an exchange for incidents; `codes`: the error codes of its answer. An answer alone stands as the
        request."""
        request, response = exchange.request, exchange.response
        first = response if request is None else request
        assert first is not None
        brief = first.api_key not in APIS and not codes
        sent, answer = [*_asked(first)], None if response is None or request is None else [*_answered(response)]
        if brief:
            for message in (sent, answer):
                if message is not None:
                    message[-1] = numbers(message[-1])
        self._add(self._buckets, asked or place, place, exchange, sent, answer, brief, codes)

    def _add(self, bucket: int, asked: TimePosition, place: TimePosition, exchange: Exchange, *packed: Any) -> None:
        lot = self._held[bucket]
        lot.add(asked, place, exchange.flow.first_packet, exchange.outcome, exchange.packet, *packed)
        if len(lot.packed) >= _BATCH_BYTES:
            self._full.append(self._pack(bucket))

    def full(self) -> Iterator[Packed]:
        """Yield the batches that are full."""
        yield from self._full
        self._full = []

    def rest(self) -> Iterator[Packed]:
        """Yield all remaining exchanges."""
        yield from self.full()
        for bucket in [*self._held]:
            yield self._pack(bucket)

    def _bucket(self, request: Message) -> int:
        """Return the bucket of a request, the same in every process."""
        key = repr([getattr(request.body, column, None) for column in _KEY])
        return zlib.crc32(key.encode(errors="surrogatepass")) % self._buckets

    def _pack(self, bucket: int) -> Packed:
        lot = self._held.pop(bucket)
        return Packed(bucket, lot.since, _LIST + lot.count.to_bytes(4, "big") + lot.packed)


class News:
    """Filter for what brokers report about themselves: repeated reports are dropped."""

    def __init__(self) -> None:
        #: The last ApiVersions body by broker address, and all Metadata bodies by themselves.
        self._last_reports: dict[str | None, str] = {}

    def takes(self, placed: PositionedEvent) -> bool:
        """True if it is another event or a new report. Call it in the order of the time line."""
        answer = placed[1].response if isinstance(placed[1], Exchange) else None
        if answer is None or not isinstance(answer.body, str):
            return True
        key = answer.body if answer.api_key == METADATA else answer.broker
        if self._last_reports.get(key) == answer.body:
            return False
        self._last_reports[key] = answer.body
        return True


class Sorter:
    """Sort the pages of a share. `common` has the events for every bucket, with the share's own connection numbers.

    The last number of a place counts the previous events of the share, so that the events of all shares can be merged
    in order. `opened`: bodies may contain decoded records; they are removed, because the analysis does not read them.
    """

    def __init__(self, buckets: int, *, opened: bool = False) -> None:
        self.common: list[PositionedEvent] = []
        self._buckets = Buckets(buckets)
        self._with_records = opened
        self._count = 0
        self._latest = (0, BEFORE, -1)
        self._news = News()
        #: Places of requests, by id().
        self._asked: dict[int, TimePosition] = {}
        #: By connection: its first packet, its last request with its event number, and whether a request was answered.
        self._first: dict[int, int] = {}
        self._last: dict[int, tuple[int, Message]] = {}
        self._alive: set[int] = set()

    def page(  # noqa: C901  # hot: called for each event
        self, events: list[Event], refusals: Refusals = NO_REFUSALS
    ) -> Iterator[Packed]:
        """Sort a page; `refusals`: see kshark.analysis.Observer.page."""
        at_end = _before_ends(events)
        for at, event in enumerate(events, self._count):
            kind = type(event)
            if kind is Message:
                if event.kind == "request":  # type: ignore[union-attr]
                    self._request(at, event)  # type: ignore[arg-type]
                if event.correlation_id is UNSET:  # type: ignore[union-attr]
                    place = self._place(event.packet, MESSAGES, self._first[event.flow], at)  # type: ignore[union-attr,index]
                    self.common.append((place, replace(event)))  # type: ignore[type-var]
            elif kind is Exchange:
                phase = AFTER if at - self._count in at_end else MESSAGES
                self._exchange(at, phase, event, refusals.get(id(event), ()))  # type: ignore[arg-type]
            elif kind is Opened:
                self._opened(at, event)  # type: ignore[arg-type]
            elif kind is HalfClosed or kind is Gap:
                place = self._place(event.packet, BEFORE if kind is Gap else AFTER, event.flow.first_packet, at)  # type: ignore[union-attr]
                self.common.append((place, event))
            elif kind is Weird and event.code in ASKED_FOR:  # type: ignore[union-attr]
                self._weird(at, at - self._count in at_end, event)  # type: ignore[arg-type]
            elif kind is Closed:
                self._closed(at, event)  # type: ignore[arg-type]
            elif kind is Late:
                self._place(event.packet, LATE, self._first[event.flow], at)  # type: ignore[union-attr,index]
        self._count += len(events)
        yield from self._buckets.full()

    def close(self) -> Iterator[Packed]:
        yield from self._buckets.rest()

    def _place(self, packet: int, phase: int, first_packet: int, at: int) -> TimePosition:
        """Return the place of the share's event number `at`, after the places of all earlier events."""
        self._latest = max(self._latest, (packet, phase, first_packet))
        return (*self._latest, at)

    # -- events

    def _opened(self, at: int, opened: Opened) -> None:
        flow = opened.flow
        self._first[flow.id] = flow.first_packet
        self.common.append((self._place(opened.packet, BEFORE, flow.first_packet, at), opened))

    def _request(self, at: int, message: Message) -> None:
        flow = message.flow
        first = flow not in self._last
        self._last[flow] = at, message
        place = self._place(message.packet, MESSAGES, self._first[flow], at)
        if message.correlation_id is not UNSET:
            self._asked[id(message)] = place
        if first:
            self.common.append((place, _sign(message)))

    def _exchange(self, at: int, phase: int, exchange: Exchange, codes: Sequence[PlacedCode]) -> None:
        request, response, flow = exchange.request, exchange.response, exchange.flow
        asked = None if request is None else self._asked.pop(id(request), None)
        place = self._place(exchange.packet, phase, flow.first_packet, at)
        self._buckets.watch(asked, place, exchange, codes)
        if request is not None and request.api_key not in _READ:
            asked = None
        is_sign = response is not None and flow.id not in self._alive
        if request is not None and asked is None and not is_sign and not _is_odd(exchange):
            return
        if request is None:
            self._sign_of_last(flow.id)
        elif response is not None:
            self._alive.add(flow.id)
        if is_sign and request is not None:
            self.common.append((place, _of(exchange, _sign(request), _sign(response))))
        common = of_all(asked, place, exchange)
        if common is not None:
            self.common += filter(self._news.takes, common)
        elif asked is not None:
            if self._with_records and response is not None:
                exchange = _of(exchange, request, _closed(response))
            self._buckets.add(asked, place, exchange)

    def _weird(self, at: int, late: bool, weird: Weird) -> None:
        phase = AFTER if late else MESSAGES if weird.stage == "exchange" else BEFORE
        first = -1 if weird.flow is None else self._first.get(weird.flow, -1)  # the connection may have ended before
        self.common.append((self._place(weird.packet, phase, first, at), weird))

    def _closed(self, at: int, closed: Closed) -> None:
        flow = closed.flow
        self._sign_of_last(flow.id)
        self.common.append((self._place(closed.packet, AFTER, flow.first_packet, at), closed))
        self._last.pop(flow.id, None)
        self._first.pop(flow.id, None)
        self._alive.discard(flow.id)

    def _sign_of_last(self, flow: int) -> None:
        last = self._last.get(flow)
        if last is not None:
            at, message = last
            self.common.append(((message.packet, MESSAGES, self._first[flow], at), _sign(message)))


def of_all(asked: TimePosition | None, place: TimePosition, exchange: Exchange) -> list[PositionedEvent] | None:
    """Return the events of an exchange for every bucket; None if only its own bucket needs it.

    `asked`: the place of a request that the analysis reads.
    """
    request, response = exchange.request, exchange.response
    odd: list[PositionedEvent] = [(place, _of(exchange, _bare(request), _bare(response)))] if _is_odd(exchange) else []
    if request is None:
        return odd or [(place, _of(exchange, None, _sign(response)))]
    if request.api_key in _BRIEF and request.api_key not in _WHOLE:
        has_report = response is not None and response.body is not None
        return [*odd, (place, _of(exchange, _brief(request), _brief(response)))] if has_report else odd
    if request.api_key not in _READ:
        return odd or None
    if asked is not None and (request.api_key in _WHOLE or request.api_key in CONFIG_APIS or _is_unreadable(request)):
        return [(asked, _as_fields(request)), (place, _of(exchange, _as_fields(request), _as_fields(response)))]
    return None


def _brokers(body: Any) -> dict[str, Any]:
    nodes = getattr(body, "brokers", UNSET)
    named = [_only(node, "node_id", "host", "port") for node in nodes] if isinstance(nodes, list) else nodes
    return _only(body, "cluster_id") | ({} if named is UNSET else {"brokers": named})


def _offered(body: Any) -> dict[str, Any]:
    offered = getattr(body, "api_keys", UNSET)
    if isinstance(offered, list):
        offered = [_only(api, "api_key", "max_version") for api in offered if api.api_key in RELEASE_APIS]
    return _only(body, "error_code") | ({} if offered is UNSET else {"api_keys": offered})


def _only(struct: Any, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(struct, name, UNSET)) is not UNSET}


#: The fields that the analysis reads of responses that go to every bucket.
_BRIEF: Final[dict[Any, Callable[[Any], dict[str, Any]]]] = {METADATA: _brokers, API_VERSIONS: _offered}
#: The APIs of them that rules also read.
_WHOLE: Final = BOOK.apis & _BRIEF.keys()
#: The APIs whose exchanges the analysis reads.
_READ: Final = BOOK.apis | _BRIEF.keys() | CONFIG_APIS


def _is_unreadable(request: Message) -> bool:
    """True if a request does not name its member: all members on its connection may be concerned."""
    if request.api_key in SHARE_STATE:
        return doubt_of(request) == "cut"
    return request.api_key in SESSION_APIS and not isinstance(getattr(request.body, "share_session_epoch", UNSET), int)


def _is_odd(exchange: Exchange) -> bool:
    """True if one of its messages has a code that rules use."""
    return _has_ruled_code(exchange.request) or _has_ruled_code(exchange.response)


def _has_ruled_code(message: Message | None) -> bool:
    return message is not None and message.weird is not UNSET and any(code in BOOK.weirds for code in message.weird)


def _bare(message: Message | None) -> Any:
    """Return the message with only group and member in its body."""
    if message is None:
        return None
    owner = _only(message.body, "group_id", "member_id")
    return replace(message, body=as_fields(_JSON.encode(owner).decode()) if owner else None)


def _sign(message: Message | None) -> Any:
    """Return the message without its content, as a sign that it was sent."""
    return message and replace(
        message, api_key=UNSET, api=UNSET, version=UNSET, client_id=UNSET, body=None, weird=UNSET, detail=UNSET
    )


def _brief(message: Any) -> Message:
    """Return a message of _BRIEF with the fields that the analysis reads; the body of a response is JSON."""
    body = None if message.kind == "request" else _JSON.encode(_BRIEF[message.api_key](message.body)).decode()
    sign: Message = _sign(message)
    sign.api_key, sign.body = message.api_key, body
    return sign


def _as_fields(message: Message | None) -> Any:
    """Return a copy of the whole message for every bucket."""
    if message is None or message.body is None or message.body is UNSET:
        return message and replace(message)
    return replace(message, body=as_fields(_JSON.encode(message.body).decode()))


def _closed(answer: Message) -> Message:
    """Return the response with only the sizes and spans of its records."""
    topics = getattr(answer.body, "responses", None)
    if answer.api_key != SHARE_FETCH or not topics or topics is UNSET:
        return answer
    bare = [
        replace(topic, partitions=[replace(part, records=_closed_of(part.records)) for part in topic.partitions])
        if topic.partitions
        else topic
        for topic in topics
    ]
    return replace(answer, body=replace(answer.body, responses=bare))


def _closed_of(records: Any) -> Any:
    return RecordsField(records.size, spans=spans_of(records)) if isinstance(records, RecordsField) else records


def _of(exchange: Exchange, request: Message | None, response: Message | None) -> Exchange:
    return Exchange(request, response, exchange.outcome, exchange.flow, exchange.packet)


def _before_ends(events: list[Event]) -> set[int]:
    """Return the indices of events that are reported at the end of their connection, directly before that end."""
    at_end: set[int] = set()
    for end, closed in enumerate(events):
        if type(closed) is Closed or type(closed) is HalfClosed:
            at = end - 1
            while at >= 0 and _is_caused_by(events[at], closed):
                at_end.add(at)
                at -= 1
    return at_end


def _is_caused_by(event: Event, end: Closed | HalfClosed) -> bool:
    if isinstance(event, Exchange):
        return event.outcome == "unanswered" and event.packet == end.packet and event.flow is end.flow
    return isinstance(event, Weird) and event.packet == end.packet and event.flow == end.flow.id


def numbered(shares: list[list[PositionedEvent]], weirds: Iterable[Weird]) -> list[PositionedEvent]:
    """Merge the common events of all shares, and weirds outside connections, in the order of the time line.

    Connections are numbered in the order of their first packets.
    """
    flows = [{event.flow.id: event.flow for _, event in common if isinstance(event, Opened)} for common in shares]
    numbers = {
        first: number
        for number, first in enumerate(sorted(flow.first_packet for own in flows for flow in own.values()))
    }
    for common, own in zip(shares, flows, strict=True):
        _renumber(common, {id: numbers[flow.first_packet] for id, flow in own.items()})
        for flow in own.values():
            flow.id = numbers[flow.first_packet]
    others = [((weird.packet, BEFORE, -1, 0), weird) for weird in weirds]
    merged = sorted([*others, *(placed for common in shares for placed in common)], key=itemgetter(0))
    fresh = [*filter(News().takes, merged)]
    for _, event in fresh:
        if isinstance(event, Exchange) and event.response is not None and isinstance(event.response.body, str):
            event.response.body = as_fields(event.response.body)
    return fresh


def _renumber(events: list[PositionedEvent], numbers: dict[int, int]) -> None:
    """Replace the connection numbers of a share by those of the capture."""
    for _, event in events:
        if isinstance(event, (Message, Weird)):
            if event.flow is not None:
                event.flow = numbers[event.flow]
        elif isinstance(event, Exchange):
            for message in (event.request, event.response):
                if message is not None:
                    message.flow = numbers[message.flow]
