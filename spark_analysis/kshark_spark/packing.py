"""Pack the exchanges of a capture for the analysis by bucket, and select the events that all buckets need.

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
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_STATE
from kshark.incidents.reads import APIS, WEIRDS, numbers
from kshark.link.disorder import CLOCK_DOUBTS, DISORDERS
from kshark.model import Exchange, Message, Opened, Weird
from kshark.tables.bodies import as_fields
from kshark.tables.events import BEFORE, PositionedEvent, TimePosition

_KEY: Final = BOOK.bucket
_NEVER: Final = 1 << 62
#: Exchanges of a bucket are packed together until they exceed this many bytes.
_BATCH_BYTES: Final = 1 << 17
#: First byte of a list whose length follows in four bytes (msgpack: array 32).
_LIST: Final = b"\xdd"
#: Weirds that verdicts and incidents depend on.
ASKED_FOR: Final = BOOK.weirds.keys() | DISORDERS | CLOCK_DOUBTS | DROPS | GIVEN_UP | WEIRDS
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


def _of(exchange: Exchange, request: Message | None, response: Message | None) -> Exchange:
    return Exchange(request, response, exchange.outcome, exchange.flow, exchange.packet)


def numbered(events: list[PositionedEvent], weirds: Iterable[Weird]) -> list[PositionedEvent]:
    """Merge the common events of a capture, and weirds outside connections, in the order of the time line.

    Connections are numbered in the order of their first packets.
    """
    flows = {event.flow.id: event.flow for _, event in events if isinstance(event, Opened)}
    in_order = sorted(flows.values(), key=attrgetter("first_packet"))
    _renumber(events, {flow.id: number for number, flow in enumerate(in_order)})
    for number, flow in enumerate(in_order):
        flow.id = number
    others = [((weird.packet, BEFORE, -1, 0), weird) for weird in weirds]
    fresh = [*filter(News().takes, sorted([*others, *events], key=itemgetter(0)))]
    for _, event in fresh:
        if isinstance(event, Exchange) and event.response is not None and isinstance(event.response.body, str):
            event.response.body = as_fields(event.response.body)
    return fresh


def _renumber(events: list[PositionedEvent], numbers: dict[int, int]) -> None:
    """Replace the numbers of connections."""
    for _, event in events:
        if isinstance(event, (Message, Weird)):
            if event.flow is not None:
                event.flow = numbers[event.flow]
        elif isinstance(event, Exchange):
            for message in (event.request, event.response):
                if message is not None:
                    message.flow = numbers[message.flow]
