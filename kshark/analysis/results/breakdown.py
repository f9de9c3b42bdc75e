"""Counts of requests by client, API, topic and other keys, also over time (`kshark stats --by`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Final

from kshark import limits
from kshark.analysis.results.error_codes import ErrorCodes
from kshark.analysis.results.histograms import Histograms
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import LONG_POLLS, Waits, counts_of, throttled
from kshark.analysis.results.subjects import Content, Subjects
from kshark.endpoints import host_of
from kshark.error_names import ERROR_NAMES
from kshark.model import Event, Exchange, Message
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS

#: The keys of `--by`, and what each is.
KEYS: Final = {
    "client": "client id",
    "address": "address of the client",
    "software": "name and version of the client's software",
    "api": "API",
    "broker": "address and port of the broker",
    "group": "group id in the request",
    "topic": "topic in the request, or in the response to a fetch",
    "partition": "partition of a topic",
    "error": "error code in the response, at any depth",
}
#: Keys by which a request is divided: its own bytes belong to no row.
DIVIDING: Final = frozenset({"topic", "partition"})
_PERCENTS: Final = (50, 99)
_NONE: Final[Sequence[Any]] = (None,)
#: The values of keys that have one value for an exchange.
_VALUE: Final[dict[str, Callable[[Exchange, Message], Any]]] = {
    "client": lambda _, request: request.client_id if isinstance(request.client_id, str) else None,
    "address": lambda exchange, _: host_of(exchange.flow.client),
    "software": lambda exchange, _: (exchange.flow.software_name, exchange.flow.software_version),
    "api": lambda _, request: request.api_key,
    "broker": lambda _, request: request.broker,
}


@dataclass(slots=True)
class RowCounts:
    """Counts of a row. A request counts in each row that it belongs to; only records and their bytes are divided.

    `refused`: requests whose response has an error, of this row if rows are topics. Records that a share group fetched
    are those that it acquired.
    """

    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    refused: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    produced: int = 0
    produced_bytes: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    throttled: int = 0
    throttle_ms: int = 0
    longest_throttle_ms: int = 0

    def add(self, exchange: Exchange, request: Message, response: Message | None, content: Content) -> None:
        self.requests += 1
        self.request_bytes += request.size
        self.unanswered += exchange.outcome == "unanswered"
        self.refused += bool(content.errors)
        if response is not None:
            self.responses += 1
            self.response_bytes += response.size
        if content.produced_bytes or content.fetched_bytes:
            self.produced += content.produced
            self.produced_bytes += content.produced_bytes
            self.fetched += content.fetched
            self.fetched_bytes += content.fetched_bytes

    def throttle(self, throttle_ms: int) -> None:
        self.throttled += 1
        self.throttle_ms += throttle_ms
        self.longest_throttle_ms = max(self.longest_throttle_ms, throttle_ms)

    def update(self, other: RowCounts, /) -> None:
        longest_ms = max(self.longest_throttle_ms, other.longest_throttle_ms)
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        self.longest_throttle_ms = longest_ms


#: The begin of the interval in ns (None without intervals), and a value for each key.
RowKey = tuple[int | None, tuple[Any, ...]]


class Breakdown:
    """Count exchanges by `keys` of KEYS, and by intervals of `every_ns`, which begin at its multiples since 1970.

    `page` takes events, `update` adds the counts of another part of the capture, `rows` returns the result. An interval
    has the exchanges whose request was sent in it; a response without a request is only in `outcomes`.
    """

    def __init__(self, registry: Registry, keys: Sequence[str], every_ns: int | None = None) -> None:
        self.keys = tuple(keys)
        self.every_ns = every_ns
        self._registry = registry
        self._divides = not DIVIDING.isdisjoint(keys)
        #: True if an exchange belongs to one row.
        self._has_one = _VALUE.keys() >= {*keys}
        self._names = TopicNames(registry)
        self._errors = ErrorCodes(registry)
        self._subjects = Subjects(registry, topics=self._divides, partitions="partition" in keys)
        self._waits = Waits()
        self._rows: dict[RowKey, tuple[int, RowCounts]] = {}
        self._work, self._wait = Histograms(), Histograms()
        self._span: tuple[int, int] | None = None
        self.messages = 0
        self.outcomes: Counter[str] = Counter()

    def page(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is Exchange:
                self._exchange(event)
            elif type(event) is Message:
                self.messages += 1
                self._span = (self._span[0] if self._span else event.time_ns, event.time_ns)
                if self._divides and event.api_key in NAMING_APIS:
                    self._names.learn(event)

    def learn(self, events: Iterable[Event]) -> None:
        """Learn the names of topics from messages that are not counted."""
        if self._divides:
            for event in events:
                if type(event) is Message and event.api_key in NAMING_APIS:
                    self._names.learn(event)

    def update(self, other: Breakdown, /) -> None:
        """Add the counts of another part of the same capture."""
        numbers = {}
        for key, (number, counts) in other._rows.items():
            numbers[number], own = self._row(key)
            own.update(counts)
        rows = [numbers[number] for number in range(len(numbers))]
        self._work.update(other._work, rows)
        self._wait.update(other._wait, rows)
        self.messages += other.messages
        self.outcomes.update(other.outcomes)
        spans = [span for span in (self._span, other._span) if span is not None]
        self._span = (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None
        for topic_id, name in other._names.by_id.items():
            self._names.add(topic_id, name, 0)

    # -- exchanges

    def _exchange(self, exchange: Exchange) -> None:
        self.outcomes[exchange.outcome] += 1
        request, response = exchange.request, exchange.response
        if request is None or not isinstance(request.api_key, int) or not isinstance(request.version, int):
            return
        codes: frozenset[int] = frozenset()
        wait_ns = work_ns = None
        throttle_ms = 0
        if response is not None:
            codes = frozenset(self._errors.of(response.body, request.api_key, request.version))
            wait_ns, work_ns = self._times(request, response, codes)
            if throttle_ms := throttled(response.body):
                self._waits.throttle(response, throttle_ms)
        begin_ns = None if self.every_ns is None else request.time_ns - request.time_ns % self.every_ns
        for values, content in self._belonging(exchange, request, response, codes):
            number, row = self._row((begin_ns, values))
            row.add(exchange, request, response, content)
            if work_ns is not None:
                self._work.add(number, work_ns)
            if wait_ns is not None:
                self._wait.add(number, wait_ns)
            if throttle_ms:
                row.throttle(throttle_ms)

    def _times(self, request: Message, response: Message, codes: frozenset[int]) -> tuple[int | None, int | None]:
        """Return the wait and the work in the latency; None if there is none, or it is unknown."""
        latency_ns = response.latency_ns
        if not isinstance(latency_ns, int):
            return None, None
        if request.api_key in LONG_POLLS or self._waits.muted_until:
            return self._waits.of(request, latency_ns, codes)
        return None, latency_ns

    def _belonging(
        self, exchange: Exchange, request: Message, response: Message | None, codes: frozenset[int]
    ) -> Iterator[tuple[tuple[Any, ...], Content]]:
        """Yield the values of the keys for each row that an exchange belongs to, with the part of it that does."""
        places = self._subjects.of(request, response, codes)
        if self._has_one:
            yield tuple([_VALUE[key](exchange, request) for key in self.keys]), places[None, None]
            return
        for (topic, partition), content in places.items():
            several = {
                "topic": (topic,),
                "partition": (partition,),
                "error": sorted(content.errors) or _NONE,
                "group": self._subjects.groups(request) or _NONE if "group" in self.keys else _NONE,
            }
            values = [several[key] if key in several else (_VALUE[key](exchange, request),) for key in self.keys]
            for chosen in product(*values):
                yield chosen, content

    def _row(self, key: RowKey) -> tuple[int, RowCounts]:
        row = self._rows.get(key)
        if row is None:
            row = self._new_row(key)
        return row

    def _new_row(self, key: RowKey) -> tuple[int, RowCounts]:
        if len(self._rows) >= limits.BREAKDOWN_ROWS:
            others = (OTHERS,) * len(self.keys)
            key = (key[0], others)
            if key not in self._rows and len(self._rows) >= 2 * limits.BREAKDOWN_ROWS:
                key = (None, others)
        return self._rows.setdefault(key, (len(self._rows), RowCounts()))

    # -- the end

    def summary(self) -> dict[str, Any]:
        """Return the counts of the whole: the first keys of Statistics.summary."""
        first, last = self._span or (None, None)
        return {
            "first_time_ns": first,
            "last_time_ns": last,
            "messages": self.messages,
            "exchanges": counts_of(self.outcomes),
        }

    def others(self) -> int:
        """Return the number of requests beyond limits.BREAKDOWN_ROWS, which are counted together."""
        others = (OTHERS,) * len(self.keys)
        return sum(counts.requests for (_, values), (_, counts) in self._rows.items() if self.keys and values == others)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as plain values: by time, then the values with the most requests in the whole capture."""
        self._name_topics()
        totals: Counter[tuple[Any, ...]] = Counter()
        for (_, values), (_, counts) in self._rows.items():
            totals[values] += counts.requests

        def rank(key: RowKey) -> Any:
            begin_ns, values = key
            ranked = (OTHERS in values, -totals[values], [_sortable(value) for value in values])
            return begin_ns is None, begin_ns or 0, ranked

        order = sorted(self._rows, key=rank)
        numbers = [self._rows[key][0] for key in order]
        work, wait = (each.percentiles(_PERCENTS, numbers) for each in (self._work, self._wait))
        return [
            {
                **({} if self.every_ns is None else {"begin_ns": key[0]}),
                **self._named(key[1]),
                **self._counted(self._rows[key][1]),
                "work_ms": _milliseconds(work.get(self._rows[key][0])),
                "wait_ms": _milliseconds(wait.get(self._rows[key][0])),
            }
            for key in order
        ]

    def _name_topics(self) -> None:
        """Join the rows of a topic's id with those of its name, now that the names are known."""
        if "topic" not in self.keys:
            return
        at, names = self.keys.index("topic"), self._names.by_id
        if not any(values[at] in names for _, values in self._rows):
            return
        renamed = [
            (begin_ns, (*values[:at], names.get(values[at], values[at]), *values[at + 1 :]))
            for begin_ns, values in self._rows
        ]
        rows, work, wait = [*self._rows.values()], self._work, self._wait
        self._rows, self._work, self._wait = {}, Histograms(), Histograms()
        numbers = []
        for key, (_, counts) in zip(renamed, rows, strict=True):
            number, own = self._rows.setdefault(key, (len(self._rows), RowCounts()))
            own.update(counts)
            numbers.append(number)
        self._work.update(work, numbers)
        self._wait.update(wait, numbers)

    def _named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values under their names in JSON."""
        named: dict[str, Any] = {}
        for key, value in zip(self.keys, values, strict=True):
            others = value == OTHERS
            match key:
                case "client" | "group":
                    named[f"{key}_id"] = value
                case "api":
                    named |= {"api_key": None if others else value}
                    named |= {"api": value if others else self._registry.name(value)}
                case "error":
                    named |= {
                        "error_code": None if others else value,
                        "error": value if others else ERROR_NAMES.get(value),
                    }
                case "software":
                    software, version = (value, None) if others else value
                    named |= {"software": software, "software_version": version}
                case "partition":
                    named["partition"] = None if others else value
                case _:
                    named[key] = value
        return named

    def _counted(self, counts: RowCounts) -> dict[str, Any]:
        throttle = {"count": counts.throttled, "sum": counts.throttle_ms, "max": counts.longest_throttle_ms}
        return {
            "requests": counts.requests,
            "responses": counts.responses,
            "unanswered": counts.unanswered,
            "refused": counts.refused,
            "request_bytes": None if self._divides else counts.request_bytes,
            "response_bytes": None if self._divides else counts.response_bytes,
            "produced_records": counts.produced,
            "produced_bytes": counts.produced_bytes,
            "fetched_records": counts.fetched,
            "fetched_bytes": counts.fetched_bytes,
            "throttle_ms": throttle if counts.throttled else None,
        }


def _sortable(value: Any) -> Any:
    return (
        value is not None,
        str(type(value)),
        () if value is None else _texts(value) if isinstance(value, tuple) else value,
    )


def _texts(values: tuple[str | None, ...]) -> tuple[str, ...]:
    return tuple(value or "" for value in values)


def _milliseconds(measured: tuple[int, list[int]] | None) -> dict[str, float] | None:
    if measured is None:
        return None
    count, (p50, p99) = measured
    return {"count": count, "p50": p50 / 1e6, "p99": p99 / 1e6}
