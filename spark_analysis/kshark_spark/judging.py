"""Analyze one bucket of members: its own exchanges and the events common to all buckets, in the order of the time
line; and recognise the incidents of a capture from the bucket that has all exchanges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import UNSET

from kshark.analysis import Analyzer, Coverage, MemberKey, Observed, Observer, Outcomes
from kshark.analysis.results.error_codes import PlacedCode
from kshark.codec.shapes import shape_of
from kshark.incidents import Explanations, Incidents
from kshark.incidents.reads import is_read
from kshark.model import Event, Exchange, Finding, Flow, Message, Opened
from kshark.registry import Registry
from kshark.tables.events import PositionedEvent, TimePosition, or_unset

_END = 1 << 62


class _Request(msgspec.Struct, array_like=True, gc=False):
    """A request, or an answer alone, as kshark_spark.packing packs it; null means UNSET, except in `client_id`."""

    packet: int
    packets: tuple[int, int] | None
    time_ns: int
    client: str
    broker: str
    api_key: int | None
    api: str | None
    version: int | None
    correlation_id: int | None
    client_id: str | None
    size: int
    weird: list[str] | None
    detail: str | None
    knows: int | None
    body: msgspec.Raw


class _Response(msgspec.Struct, array_like=True, gc=False):
    packet: int
    packets: tuple[int, int] | None
    time_ns: int
    latency_ns: int | None
    size: int
    weird: list[str] | None
    detail: str | None
    knows: int | None
    body: msgspec.Raw


class _Row(msgspec.Struct, array_like=True, gc=False):
    """An exchange: the places of its request and of itself on the time line, the first packet of its connection.

    `brief`: bodies have numbers only. `codes`: the error codes of the answer, for incidents.
    """

    asked: TimePosition
    place: TimePosition
    first_packet: int
    outcome: Any
    packet: int
    request: _Request
    response: _Response | None
    brief: bool = False
    codes: list[PlacedCode] = []


_NUMBERS = msgspec.msgpack.Decoder(dict[str, int] | None).decode
_ROWS = msgspec.msgpack.Decoder(list[_Row])


class _Line:
    """The time line of a bucket: packed exchanges in the order of `since`, and common events.

    `take` is called with each unpacked exchange and the error codes of its answer.
    """

    def __init__(
        self,
        common: Sequence[PositionedEvent],
        registry: Registry,
        take: Callable[[Exchange, Sequence[PlacedCode]], object],
    ) -> None:
        self._common = common
        self._fed = 0
        self._flows: dict[int, Flow] = {
            event.flow.first_packet: event.flow for _, event in common if isinstance(event, Opened)
        }
        self._waiting: list[PositionedEvent] = []
        self._registry = registry
        self._take = take
        self._decoders: dict[tuple[int | None, int | None], tuple[Any, Any]] = {}

    def feed(self, since: int, exchanges: bytes) -> list[Event]:
        """Add exchanges and return the events before their first event."""
        events = self._until(since)
        for row in _ROWS.decode(exchanges):
            self._waiting += self._events(row)
        return events

    def close(self) -> list[Event]:
        """Return the other events."""
        return self._until(_END)

    def _until(self, packet: int) -> list[Event]:
        """Return all events before that packet."""
        common, begin = self._common, self._fed
        while self._fed < len(common) and common[self._fed][0][0] < packet:
            self._fed += 1
        waiting = sorted([*self._waiting, *common[begin : self._fed]], key=_place)
        ready = next((at for at, placed in enumerate(waiting) if placed[0][0] >= packet), len(waiting))
        self._waiting = waiting[ready:]
        return [event for _, event in waiting[:ready]]

    def _events(self, row: _Row) -> Iterator[PositionedEvent]:
        flow, packed, is_alone = self._flows[row.first_packet], row.request, row.outcome == "orphan"
        names = (
            or_unset(packed.api_key),
            or_unset(packed.api),
            or_unset(packed.version),
            or_unset(packed.correlation_id),
            UNSET if packed.api_key is None else packed.client_id,
        )
        readers = (_numbers, _numbers) if row.brief else self._decoders.get((packed.api_key, packed.version))
        readers = readers or self._readers(packed.api_key, packed.version)
        request = Message(
            packed.packet, or_unset(packed.packets), packed.time_ns, flow.id, packed.client, packed.broker,
            "response" if is_alone else "request",
            *names,
            UNSET, UNSET, packed.size, readers[is_alone](packed.body), or_unset(packed.weird),
            or_unset(packed.detail), knows=or_unset(packed.knows),
        )  # fmt: skip
        if not is_alone:
            yield row.asked, request
        response, answer = None, row.response
        if answer is not None:
            response = Message(
                answer.packet, or_unset(answer.packets), answer.time_ns, flow.id, packed.client, packed.broker,
                "response", *names,
                packed.packet, or_unset(answer.latency_ns), answer.size, readers[1](answer.body),
                or_unset(answer.weird), or_unset(answer.detail), knows=or_unset(answer.knows),
            )  # fmt: skip
        asked, answered = (None, request) if is_alone else (request, response)
        exchange = Exchange(asked, answered, row.outcome, flow, row.packet)
        self._take(exchange, row.codes)
        yield row.place, exchange

    def _readers(self, api_key: int | None, version: int | None) -> tuple[Any, Any]:
        """Return decoders of request and response bodies, into the same classes as the codec's."""
        api = None if api_key is None else self._registry.api(api_key)
        if api is None or version is None:
            return _numbers, _numbers
        nearest = api.versions.nearest(version)
        shapes = (shape_of(layout, nearest) for layout in (api.request, api.response))
        request, response = (msgspec.msgpack.Decoder(shape.make | None).decode for shape in shapes)
        self._decoders[api_key, version] = request, response
        return request, response


class Judging:
    """Analyze packed exchanges in the order of `since`.

    `common`: see kshark_spark.packing.numbered. `first`: true for the one bucket that counts the common events, so
    that each refusal is explained once. `coverage`: count the coverage of rules.
    """

    def __init__(
        self,
        common: Sequence[PositionedEvent],
        registry: Registry,
        *,
        first: bool = True,
        coverage: bool = False,
    ) -> None:
        self._analyzer = Analyzer(coverage=coverage)
        self._observer = Observer(registry)
        self._first = first
        for _, event in common if first else ():
            if isinstance(event, Exchange):
                self._refused(event)
        self._common = common
        self._line = _Line(common, registry, self._refused)

    def feed(self, since: int, exchanges: bytes) -> list[Finding]:
        """Add exchanges and return the findings that earlier events prove."""
        return self._explained(self._analyzer.page(self._line.feed(since, exchanges)))

    def close(self) -> list[Finding]:
        last = self._analyzer.page(self._line.close())
        return self._explained([*last, *self._analyzer.close()])

    @property
    def observed(self) -> Observed:
        """The number of share sessions, the explained refusals and the coverage."""
        sessions, coverage = self._analyzer.summary()["sessions"], self._analyzer.coverage
        if coverage is not None and not self._first:
            coverage = coverage.without(self._coverage_of_common())
        return Observed(sessions=sessions, explained=self._observer.observed.explained, coverage=coverage)

    @property
    def outcomes(self) -> dict[MemberKey, Outcomes]:
        """The outcomes of the bucket's members."""
        return self._analyzer.outcomes.of

    def _coverage_of_common(self) -> Coverage:
        """Return the coverage of the common events, which every bucket counts."""
        alone = Analyzer(coverage=True)
        alone.page([event for _, event in self._common])
        alone.close()
        assert alone.coverage is not None
        return alone.coverage

    def _refused(self, exchange: Exchange, _: object = None) -> None:
        request, response = exchange.request, exchange.response
        if request is not None and response is not None:
            self._observer.answer(request, response)

    def _explained(self, findings: list[Finding]) -> list[Finding]:
        self._observer.explain(findings)
        return findings


class Watching:
    """Recognise incidents in the packed exchanges of a whole capture, in the order of `since`."""

    def __init__(self, common: Sequence[PositionedEvent], registry: Registry) -> None:
        self._incidents = Incidents(registry)
        self._refusals: dict[int, list[PlacedCode]] = {}
        self._line = _Line([placed for placed in common if is_read(placed[1])], registry, self._refused)

    def feed(self, since: int, exchanges: bytes) -> list[Finding]:
        """Add exchanges and return the incidents that earlier events decide."""
        return self._found(self._line.feed(since, exchanges))

    def close(self) -> list[Finding]:
        return [*self._found(self._line.close()), *self._incidents.close()]

    @property
    def explanations(self) -> Explanations:
        """The incidents that explain findings."""
        return self._incidents.explanations

    @property
    def observed(self) -> Observed:
        """The refusals that incidents explain."""
        return Observed(explained=Counter(self._incidents.refusals))

    def _refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> None:
        if codes:
            self._refusals[id(exchange)] = [*codes]

    def _found(self, events: list[Event]) -> list[Finding]:
        findings = self._incidents.page(events, self._refusals)
        for event in events:
            self._refusals.pop(id(event), None)
        return findings


def _numbers(body: msgspec.Raw) -> SimpleNamespace | None:
    numbers = _NUMBERS(body)
    return None if numbers is None else SimpleNamespace(**numbers)


def _place(placed: PositionedEvent) -> TimePosition:
    return placed[0]
