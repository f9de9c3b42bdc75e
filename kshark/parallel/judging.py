"""Analyze one bucket of members: its own exchanges and the events common to all buckets, in the order of the time
line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from kshark.analysis import AnalysisResult, Analyzer, Coverage, Observed, Observer
from kshark.codec.shapes import shape_of
from kshark.model import Exchange, Flow, Message, Opened
from kshark.registry import Registry
from kshark.tables.events import PositionedEvent, TimePosition, or_unset

_END = 1 << 62


class _Request(msgspec.Struct, array_like=True, gc=False):
    """A request as kshark.parallel.sorting packs it; null means UNSET, except in `client_id`."""

    packet: int
    packets: tuple[int, int] | None
    time_ns: int
    client: str
    broker: str
    api_key: int
    api: str | None
    version: int
    correlation_id: int
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
    """An exchange: the places of its request and of itself on the time line, the first packet of its connection."""

    asked: TimePosition
    place: TimePosition
    first_packet: int
    outcome: Any
    packet: int
    request: _Request
    response: _Response | None


_ROWS = msgspec.msgpack.Decoder(list[_Row])


class Judging:
    """Analyze packed exchanges in the order of `since`.

    `common`: see kshark.parallel.sorting.numbered. `first`: true for the one bucket that counts the common events, so
    that each refusal is explained once. `coverage`: count the coverage of rules.
    """

    def __init__(
        self,
        common: Sequence[PositionedEvent],
        registry: Registry,
        *,
        first: bool = True,
        listed: bool = False,
        coverage: bool = False,
    ) -> None:
        self._analyzer = Analyzer(sessions=listed, steps=listed, coverage=coverage)
        self._observer = Observer(registry)
        self._first = first
        for _, event in common if first else ():
            if isinstance(event, Exchange):
                self._refused(event)
        self._common = common
        self._fed = 0
        self._flows: dict[int, Flow] = {
            event.flow.first_packet: event.flow for _, event in common if isinstance(event, Opened)
        }
        self._waiting: list[PositionedEvent] = []
        self._registry = registry
        self._decoders: dict[tuple[int, int], tuple[Any, Any]] = {}

    def feed(self, since: int, exchanges: bytes) -> list[AnalysisResult]:
        """Add exchanges and return the results of the analysis before their first event."""
        results = self._until(since)
        for row in _ROWS.decode(exchanges):
            self._waiting += self._events(row)
        return results

    def close(self) -> list[AnalysisResult]:
        results, last = self._until(_END), self._analyzer.close()
        self._observer.explain(last)
        return [*results, *last, *self._analyzer.listed()]

    @property
    def observed(self) -> Observed:
        """The number of share sessions, the explained refusals and the coverage; the shares count everything else."""
        sessions, coverage = self._analyzer.summary()["sessions"], self._analyzer.coverage
        if coverage is not None and not self._first:
            coverage = coverage.without(self._coverage_of_common())
        return Observed(sessions=sessions, explained=self._observer.observed.explained, coverage=coverage)

    def _coverage_of_common(self) -> Coverage:
        """Return the coverage of the common events, which every bucket counts."""
        alone = Analyzer(coverage=True)
        alone.page([event for _, event in self._common])
        alone.close()
        assert alone.coverage is not None
        return alone.coverage

    def _refused(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request is not None and response is not None:
            self._observer.answer(request, response)

    def _until(self, packet: int) -> list[AnalysisResult]:
        """Analyze all events before that packet."""
        common, begin = self._common, self._fed
        while self._fed < len(common) and common[self._fed][0][0] < packet:
            self._fed += 1
        waiting = sorted([*self._waiting, *common[begin : self._fed]], key=_place)
        ready = next((at for at, placed in enumerate(waiting) if placed[0][0] >= packet), len(waiting))
        self._waiting = waiting[ready:]
        results = self._analyzer.page([event for _, event in waiting[:ready]])
        self._observer.explain(results)
        return [*results, *self._analyzer.listed()]

    def _events(self, row: _Row) -> Iterator[PositionedEvent]:
        flow, packed = self._flows[row.first_packet], row.request
        readers = self._decoders.get((packed.api_key, packed.version)) or self._readers(packed.api_key, packed.version)
        names = (
            packed.api_key,
            UNSET if packed.api is None else packed.api,
            packed.version,
            packed.correlation_id,
            packed.client_id,
        )
        request = Message(
            packed.packet, or_unset(packed.packets), packed.time_ns, flow.id, packed.client, packed.broker, "request",
            *names,
            UNSET, UNSET, packed.size, readers[0](packed.body), or_unset(packed.weird), or_unset(packed.detail),
            knows=or_unset(packed.knows),
        )  # fmt: skip
        yield row.asked, request
        response, answer = None, row.response
        if answer is not None:
            response = Message(
                answer.packet, or_unset(answer.packets), answer.time_ns, flow.id, packed.client, packed.broker,
                "response", *names,
                packed.packet, or_unset(answer.latency_ns), answer.size, readers[1](answer.body),
                or_unset(answer.weird), or_unset(answer.detail), knows=or_unset(answer.knows),
            )  # fmt: skip
        exchange = Exchange(request, response, row.outcome, flow, row.packet)
        self._refused(exchange)
        yield row.place, exchange

    def _readers(self, api_key: int, version: int) -> tuple[Any, Any]:
        """Return decoders of request and response bodies, into the same classes as the codec's."""
        api = self._registry.api(api_key)
        assert api is not None
        nearest = api.versions.nearest(version)
        shapes = (shape_of(layout, nearest) for layout in (api.request, api.response))
        request, response = (msgspec.msgpack.Decoder(shape.make | None).decode for shape in shapes)
        self._decoders[api_key, version] = request, response
        return request, response


def _place(placed: PositionedEvent) -> TimePosition:
    return placed[0]
