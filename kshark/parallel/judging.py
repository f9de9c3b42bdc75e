"""One bucket of members through the analysis: its own exchanges, and what is common to all, in the order of the time
line."""

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


class _Asked(msgspec.Struct, array_like=True, gc=False):
    """A request as kshark.parallel.sorting packs it; null: UNSET, but of `client_id`."""

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
    body: msgspec.Raw


class _Answered(msgspec.Struct, array_like=True, gc=False):
    packet: int
    packets: tuple[int, int] | None
    time_ns: int
    latency_ns: int | None
    size: int
    weird: list[str] | None
    detail: str | None
    body: msgspec.Raw


class _Row(msgspec.Struct, array_like=True, gc=False):
    """An exchange: where its request stands and where it stands itself, the first packet of its connection."""

    asked: TimePosition
    place: TimePosition
    first_packet: int
    outcome: Any
    packet: int
    request: _Asked
    response: _Answered | None


_ROWS = msgspec.msgpack.Decoder(list[_Row])


class Judging:
    """Takes packed exchanges in the order of `since`; gives what the analysis tells. `common`: see
    kshark.parallel.sorting.numbered.

    `first`: of the buckets, it is the one that looks at what is common: each refusal is to be explained once.
    `coverage`: whether that is counted."""

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
        self._taken = 0
        self._flows: dict[int, Flow] = {
            event.flow.first_packet: event.flow for _, event in common if isinstance(event, Opened)
        }
        self._waiting: list[PositionedEvent] = []
        self._registry = registry
        self._known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def feed(self, since: int, exchanges: bytes) -> list[AnalysisResult]:
        """What is told before their first event."""
        told = self._until(since)
        for row in _ROWS.decode(exchanges):
            self._waiting += self._events(row)
        return told

    def close(self) -> list[AnalysisResult]:
        told, last = self._until(_END), self._analyzer.close()
        self._observer.explain(last)
        return [*told, *last, *self._analyzer.listed()]

    @property
    def observed(self) -> Observed:
        """The share sessions, which refusals are explained, how often rules were put to the test; all else is counted
        by who decodes."""
        sessions, coverage = self._analyzer.summary()["sessions"], self._analyzer.coverage
        if coverage is not None and not self._first:
            coverage = coverage.without(self._coverage_of_common())
        return Observed(sessions=sessions, explained=self._observer.observed.explained, coverage=coverage)

    def _coverage_of_common(self) -> Coverage:
        """What every bucket counts."""
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
        """Everything before that packet."""
        common, begin = self._common, self._taken
        while self._taken < len(common) and common[self._taken][0][0] < packet:
            self._taken += 1
        waiting = sorted([*self._waiting, *common[begin : self._taken]], key=_place)
        ready = next((at for at, placed in enumerate(waiting) if placed[0][0] >= packet), len(waiting))
        self._waiting = waiting[ready:]
        found = self._analyzer.page([event for _, event in waiting[:ready]])
        self._observer.explain(found)
        return [*found, *self._analyzer.listed()]

    def _events(self, row: _Row) -> Iterator[PositionedEvent]:
        flow, asked = self._flows[row.first_packet], row.request
        readers = self._known.get((asked.api_key, asked.version)) or self._readers(asked.api_key, asked.version)
        names = (
            asked.api_key,
            UNSET if asked.api is None else asked.api,
            asked.version,
            asked.correlation_id,
            asked.client_id,
        )
        request = Message(
            asked.packet, or_unset(asked.packets), asked.time_ns, flow.id, asked.client, asked.broker, "request",
            *names,
            UNSET, UNSET, asked.size, readers[0](asked.body), or_unset(asked.weird), or_unset(asked.detail),
        )  # fmt: skip
        yield row.asked, request
        response, answer = None, row.response
        if answer is not None:
            response = Message(
                answer.packet, or_unset(answer.packets), answer.time_ns, flow.id, asked.client, asked.broker,
                "response", *names,
                asked.packet, or_unset(answer.latency_ns), answer.size, readers[1](answer.body), or_unset(answer.weird),
                or_unset(answer.detail),
            )  # fmt: skip
        exchange = Exchange(request, response, row.outcome, flow, row.packet)
        self._refused(exchange)
        yield row.place, exchange

    def _readers(self, api_key: int, version: int) -> tuple[Any, Any]:
        """What makes bodies of the same classes as the codec's."""
        api = self._registry.api(api_key)
        assert api is not None
        known = api.versions.nearest(version)
        shapes = (shape_of(layout, known) for layout in (api.request, api.response))
        one, other = (msgspec.msgpack.Decoder(shape.make | None).decode for shape in shapes)
        self._known[api_key, version] = one, other
        return one, other


def _place(placed: PositionedEvent) -> TimePosition:
    return placed[0]
