"""Statistics of a capture: APIs and versions, latency, errors, connections, clients, share groups. The memory is
bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import ErrorCodes
from kshark.analysis.results.observed import OTHERS
from kshark.api_keys import FETCH, JOIN_GROUP, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH, SYNC_GROUP
from kshark.codec.paths import values
from kshark.endpoints import host_of
from kshark.error_names import ERROR_NAMES
from kshark.model import Closed, Event, Exchange, Flow, Message
from kshark.records import RecordsField
from kshark.registry import Registry
from kshark_dissectors.enums import AcknowledgeType, ErrorCode

#: A broker's timers count whole milliseconds: a timer that begins late in a millisecond ends up to 1 ms early.
_TICK_NS: Final = 1_000_000
_MILLISECOND: Final = 1_000_000
#: Requests that a broker may hold on purpose: until there are records, for `max_wait_ms`, or until the other members of
#: a group have sent theirs. Source: KafkaApis (fetch, share fetch), GroupCoordinator (DelayedJoin, DelayedSync).
LONG_POLLS: Final = frozenset({FETCH, SHARE_FETCH, JOIN_GROUP, SYNC_GROUP})

#: Client id, software name and version, address.
_Client = tuple[str | None, str | None, str | None, str]


class Percentiles:
    """Percentiles of durations in ns, to three significant digits; the greatest and the sum are exact. A few thousand
    counters hold any number of durations.

    Other amounts from 0 may be added as well.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total = 0
        self.greatest = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.total += ns
        if ns > self.greatest:
            self.greatest = ns
        if ns >= 1000 or ns <= -1000:
            scale = 10 ** (len(str(abs(ns))) - 3)
            ns = (ns + scale // 2) // scale * scale
        self._counts[ns] += 1

    def update(self, other: Percentiles, /) -> None:
        """Add the durations of another object."""
        self._counts.update(other._counts)
        self.count += other.count
        self.total += other.total
        self.greatest = max(self.greatest, other.greatest)

    def __add__(self, other: Percentiles) -> Percentiles:
        both = Percentiles()
        both.update(self)
        both.update(other)
        return both

    def at(self, *percents: float) -> list[int]:
        """Return, by nearest rank, the smallest duration that each percentage does not exceed. Needs at least one
        duration."""
        ranks = [max(1, -(-self.count * percent // 100)) for percent in percents]
        durations: list[int] = []
        seen = 0
        for duration, count in sorted(self._counts.items()):
            seen += count
            while len(durations) < len(ranks) and seen >= ranks[len(durations)]:
                durations.append(min(duration, self.greatest))
        return durations

    @property
    def average(self) -> float | None:
        """The mean in ns; None if nothing was measured."""
        return self.total / self.count if self.count else None

    def summary(self) -> dict[str, float] | None:
        """Return the milliseconds at 50, 95 and 99 percent and the greatest; None if nothing was measured."""
        if not self.count:
            return None
        p50, p95, p99 = self.at(50, 95, 99)
        return {"p50": p50 / 1e6, "p95": p95 / 1e6, "p99": p99 / 1e6, "max": self.greatest / 1e6}


class Waits:
    """Tell the time for which a broker holds a request on purpose from its work.

    A throttled client waits too: the broker answers at once, and then reads nothing from the connection for the
    response's throttle time (KIP-219). Responses of one connection come in order.
    """

    def __init__(self) -> None:
        #: By connection, the time until which the broker reads no request.
        self.muted_until: dict[int, int] = {}

    def of(self, request: Message, latency_ns: int, errors: Collection[int]) -> tuple[int | None, int | None]:
        """Return the wait and the work in a latency, in ns.

        The wait is None if the broker had no reason to wait. The work is None if it is unknown: records or members may
        have come at any time, and the wait is the whole latency. `errors`: the response's error codes.
        """
        muted_ns = min(latency_ns, max(0, self.muted_until.get(request.flow, 0) - request.time_ns))
        rest_ns = latency_ns - muted_ns
        polled_ns = _polled(request, rest_ns, errors) if request.api_key in LONG_POLLS else 0
        if polled_ns is None:
            return latency_ns, None
        return muted_ns + polled_ns or None, rest_ns - polled_ns

    def throttle(self, response: Message, throttle_ms: int) -> None:
        """Remember that the client was throttled."""
        self.muted_until.pop(response.flow, None)
        self.muted_until[response.flow] = response.time_ns + throttle_ms * _MILLISECOND
        if len(self.muted_until) > limits.FLOWS:
            del self.muted_until[next(iter(self.muted_until))]


def _polled(request: Message, latency_ns: int, errors: Collection[int]) -> int | None:
    """Return for how long a long poll waited; None if that is unknown."""
    if request.api_key not in (FETCH, SHARE_FETCH):
        return 0 if ErrorCode.MEMBER_ID_REQUIRED in errors else None
    asked: Any = request.body
    if waited_in_full(asked, latency_ns):
        return min(latency_ns, int(asked.max_wait_ms) * _MILLISECOND)
    is_answered_at_once = errors or getattr(asked, "max_wait_ms", None) == 0 or getattr(asked, "min_bytes", None) == 0
    return 0 if is_answered_at_once else None


class Latency:
    """Latencies of responses in ns, and the wait and the work in them (see Waits)."""

    def __init__(self) -> None:
        #: Latencies that are all work; whole latencies of the others; the work in the others, as far as it is known.
        self.direct, self._held, self._rest = Percentiles(), Percentiles(), Percentiles()
        self.wait = Percentiles()

    def add(self, latency_ns: int, wait_ns: int | None, work_ns: int | None) -> None:
        if wait_ns is None:
            self.direct.add(latency_ns)
            return
        self._held.add(latency_ns)
        self.wait.add(wait_ns)
        if work_ns is not None:
            self._rest.add(work_ns)

    @property
    def all(self) -> Percentiles:
        """The whole latencies."""
        return self.direct + self._held

    @property
    def work(self) -> Percentiles:
        """The latencies without waits, as far as these are known."""
        return self.direct + self._rest


class Throttle:
    """The `throttle_time_ms` of responses that were throttled."""

    __slots__ = ("count", "greatest_ms", "total_ms")

    def __init__(self) -> None:
        self.count = self.total_ms = self.greatest_ms = 0

    def add(self, ms: int) -> None:
        self.count += 1
        self.total_ms += ms
        self.greatest_ms = max(self.greatest_ms, ms)

    def update(self, other: Throttle, /) -> None:
        self.count += other.count
        self.total_ms += other.total_ms
        self.greatest_ms = max(self.greatest_ms, other.greatest_ms)

    def summary(self) -> dict[str, int] | None:
        """Return the number of throttled responses, the sum and the greatest in ms; None if there are none."""
        if not self.count:
            return None
        return {"count": self.count, "sum": self.total_ms, "max": self.greatest_ms}


@dataclass(slots=True)
class ApiCounts:
    """Counts of one API in one version."""

    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    latency: Latency = field(default_factory=Latency)
    errors: Counter[int] = field(default_factory=Counter)
    throttle: Throttle = field(default_factory=Throttle)


@dataclass(slots=True)
class ClientCounts:
    """Counts of a client; bytes are those of its requests and of the responses to it."""

    connections: int = 0
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    throttle: Throttle = field(default_factory=Throttle)
    #: Throttled responses by API.
    throttled_apis: Counter[str] = field(default_factory=Counter)
    produced: ProducedCounts | None = None

    def update(self, other: ClientCounts, /) -> None:
        self.connections += other.connections
        self.requests += other.requests
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.throttle.update(other.throttle)
        self.throttled_apis.update(other.throttled_apis)
        if other.produced is not None:
            self.produced = self.produced or ProducedCounts()
            self.produced.update(other.produced)


class ProducedCounts:
    """Counts of the records in a client's Produce; a batch is the records of one partition in one request."""

    def __init__(self) -> None:
        self.requests = 0
        self.records, self.sizes = Percentiles(), Percentiles()

    def add(self, records: int, size: int) -> None:
        """Add a batch: its number of records and its bytes."""
        self.records.add(records)
        self.sizes.add(size)

    def update(self, other: ProducedCounts, /) -> None:
        self.requests += other.requests
        self.records.update(other.records)
        self.sizes.update(other.sizes)

    def summary(self) -> dict[str, Any] | None:
        """Return the numbers, and the records and bytes of batches at 50, 95 and 99 percent; None without a batch."""
        if not self.records.count:
            return None
        of_batches = {
            name: dict(zip(("p50", "p95", "p99"), of.at(50, 95, 99), strict=True)) | {"max": of.greatest}
            for name, of in (("records_per_batch", self.records), ("bytes_per_batch", self.sizes))
        }
        numbers = {"requests": self.requests, "batches": self.records.count, "records": self.records.total}
        return {**numbers, "bytes": self.sizes.total, **of_batches}


@dataclass(slots=True)
class GroupCounts:
    """Counts of a share group. Counts without a noun of their own are records."""

    members: set[str] = field(default_factory=set)
    sessions: int = 0
    fetches: int = 0
    acknowledges: int = 0
    acquired: int = 0
    redelivered: int = 0
    greatest_delivery_count: int = 0
    acknowledged: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)


class Statistics:
    """Count events. `summary` returns what `kshark stats -T json` prints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._apis: dict[tuple[int, int], ApiCounts] = {}
        self._groups: dict[str | None, GroupCounts] = {}
        self._services: dict[str, Counter[str]] = {}
        self._clients: dict[_Client, ClientCounts] = {}
        #: By connection and client id.
        self._clients_of_flow: dict[int, dict[str | None, ClientCounts]] = {}
        self._error_codes = ErrorCodes(registry)
        self._waits = Waits()
        self._outcomes: Counter[str] = Counter()
        self._times: list[int] = []
        self._messages = 0

    def feed(self, event: Event) -> Iterable[Any]:
        """Count an event. Return nothing: all results come with `summary`."""
        if isinstance(event, Exchange):
            self._exchange(event)
        elif isinstance(event, Message):
            self._messages += 1
            self._times = [self._times[0] if self._times else event.time_ns, event.time_ns]
        elif isinstance(event, Closed):
            self._close(event.flow)
        return ()

    # -- exchanges

    def _exchange(self, exchange: Exchange) -> None:
        self._outcomes[exchange.outcome] += 1
        request, response = exchange.request, exchange.response
        if request is None or not isinstance(request.api_key, int) or not isinstance(request.version, int):
            return
        key = (request.api_key, request.version)
        counts = self._apis.get(key) or self._new_api(key)
        counts.requests += 1
        counts.request_bytes += request.size
        counts.unanswered += exchange.outcome == "unanswered"
        client_id = request.client_id if isinstance(request.client_id, str) else None
        of_flow = self._clients_of_flow.setdefault(exchange.flow.id, {})
        client = of_flow.get(client_id)
        if client is None:
            client = of_flow[client_id] = ClientCounts()
        client.requests += 1
        client.request_bytes += request.size
        if response is not None:
            counts.responses += 1
            counts.response_bytes += response.size
            client.response_bytes += response.size
            errors = [*self._error_codes.of(response.body, request.api_key, request.version)]
            if errors:
                counts.errors.update(errors)
            latency_ns = response.latency_ns
            if isinstance(latency_ns, int):
                if request.api_key in LONG_POLLS or self._waits.muted_until:
                    counts.latency.add(latency_ns, *self._waits.of(request, latency_ns, errors))
                else:
                    counts.latency.direct.add(latency_ns)
            if throttle_ms := throttled(response.body):
                self._waits.throttle(response, throttle_ms)
                counts.throttle.add(throttle_ms)
                client.throttle.add(throttle_ms)
                client.throttled_apis[request.api or str(request.api_key)] += 1
        if request.api_key == PRODUCE and is_whole(request):
            client.produced = client.produced or ProducedCounts()
            _count_produced(client.produced, request.body)
        if request.api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE) and is_whole(request):
            self._share(request, response)

    def _new_api(self, key: tuple[int, int]) -> ApiCounts:
        return self._apis.setdefault(key if len(self._apis) < limits.STATISTICS_ROWS else (-1, -1), ApiCounts())

    # -- share groups

    def _share(self, request: Message, response: Message | None) -> None:
        body = request.body
        group_id = body.group_id
        if group_id not in self._groups and len(self._groups) >= limits.STATISTICS_ROWS:
            group_id = OTHERS
        group = self._groups.setdefault(group_id, GroupCounts())
        if len(group.members) < limits.STATISTICS_ROWS and body.member_id:
            group.members.add(body.member_id)
        fetch = request.api_key == SHARE_FETCH
        group.fetches += fetch
        group.acknowledges += not fetch
        for batch in values(body, ("topics", "partitions", "acknowledgement_batches")):
            group.acknowledged.update(acknowledged_types(batch))
        if response is None or not is_whole(response):
            return
        if response.body.error_code:
            group.refused[response.body.error_code] += 1
        elif fetch:
            group.sessions += body.share_session_epoch == 0
        for acquired in values(response.body, ("responses", "partitions", "acquired_records")):
            count = max(0, acquired.last_offset - acquired.first_offset + 1)
            group.acquired += count
            group.redelivered += count if acquired.delivery_count > 1 else 0
            group.greatest_delivery_count = max(group.greatest_delivery_count, acquired.delivery_count)

    # -- connections

    def _close(self, flow: Flow) -> None:
        service = self._services.setdefault(flow.service, Counter())
        service["connections"] += 1
        service["bytes"] += sum(flow.stream_bytes)
        service["gaps"] += flow.gaps
        for client_id, of_flow in self._clients_of_flow.pop(flow.id, {}).items():
            key: _Client = (client_id, flow.software_name, flow.software_version, host_of(flow.client))
            if key not in self._clients and len(self._clients) >= limits.STATISTICS_ROWS:
                key = (OTHERS, None, None, OTHERS)
            client = self._clients.setdefault(key, ClientCounts())
            client.update(of_flow)
            client.connections += 1

    # -- the end

    def summary(self) -> dict[str, Any]:
        """Return all counts as plain values; latencies in milliseconds."""
        first, last = self._times or (None, None)
        return {
            "first_time_ns": first,
            "last_time_ns": last,
            "messages": self._messages,
            "exchanges": counts_of(self._outcomes),
            "flows": [{"service": name, **counts} for name, counts in sorted(self._services.items())],
            "apis": [self._api(key, version, counts) for (key, version), counts in sorted(self._apis.items())],
            "errors": self._all_errors(),
            "clients": [
                {
                    "client_id": name,
                    "software": software,
                    "software_version": version,
                    "address": address,
                    "connections": counts.connections,
                    "requests": counts.requests,
                    "request_bytes": counts.request_bytes,
                    "response_bytes": counts.response_bytes,
                    "throttle_ms": counts.throttle.summary(),
                    "throttled_apis": dict(counts.throttled_apis.most_common()),
                    "produced": None if counts.produced is None else counts.produced.summary(),
                }
                for (name, software, version, address), counts in sorted(
                    self._clients.items(), key=lambda item: -item[1].requests
                )
            ],
            "share_groups": [
                _group(name, counts) for name, counts in sorted(self._groups.items(), key=lambda item: item[0] or "")
            ],
        }

    def _api(self, key: int, version: int, counts: ApiCounts) -> dict[str, Any]:
        return {
            "api_key": key,
            "api": OTHERS if key < 0 else self._registry.name(key),
            "version": version,
            "requests": counts.requests,
            "responses": counts.responses,
            "unanswered": counts.unanswered,
            "request_bytes": counts.request_bytes,
            "response_bytes": counts.response_bytes,
            "latency_ms": counts.latency.all.summary(),
            "work_ms": counts.latency.work.summary(),
            "wait_ms": counts.latency.wait.summary(),
            "throttle_ms": counts.throttle.summary(),
            "errors": _named(counts.errors),
        }

    def _all_errors(self) -> list[dict[str, Any]]:
        total: Counter[int] = Counter()
        apis: dict[int, Counter[str]] = {}
        for (key, _), counts in self._apis.items():
            total.update(counts.errors)
            for code, count in counts.errors.items():
                apis.setdefault(code, Counter())[self._registry.name(key) or str(key)] += count
        return [{**row, "apis": dict(apis[row["error_code"]].most_common())} for row in _named(total)]


def _count_produced(counts: ProducedCounts, body: Any) -> None:
    """Count the records of a Produce, as far as its batches were read."""
    counts.requests += 1
    for topic in body.topic_data or ():
        for row in topic.partition_data or ():
            records = row.records
            if isinstance(records, RecordsField) and records.size:
                if records.count is not UNSET:
                    counts.add(records.count, records.size)
                elif records.batches is not UNSET:
                    counts.add(sum(getattr(it, "count", len(it.records)) for it in records.batches), records.size)


def counts_of(outcomes: Counter[str]) -> dict[str, int]:
    """Return the exchanges by outcome; `body_cut` (the snap length cut the answer) only if there are any."""
    shown = {outcome: outcomes[outcome] for outcome in ("answered", "unanswered", "one_way", "orphan")}
    return {**shown, "body_cut": outcomes["body_cut"]} if outcomes["body_cut"] else shown


def waited_in_full(body: Any, latency_ns: int) -> bool:
    """True if the answer to a fetch took as long as the request allows the broker to wait for records."""
    longest_ms = getattr(body, "max_wait_ms", None)
    return isinstance(longest_ms, int) and longest_ms > 0 and latency_ns >= longest_ms * _MILLISECOND - _TICK_NS


def throttled(body: Any) -> int:
    """Return the `throttle_time_ms` of a response; 0 if it has none."""
    ms = getattr(body, "throttle_time_ms", 0)
    return ms if ms and isinstance(ms, int) and ms > 0 else 0


def acknowledged_types(batch: Any) -> Counter[int]:
    """Return the number of records of an acknowledgement batch by type. A single type stands for the whole range, else
    each offset has its own (KIP-932)."""
    types: list[int] = batch.acknowledge_types or []
    if len(types) == 1:
        return Counter({types[0]: max(0, batch.last_offset - batch.first_offset + 1)})
    return Counter(types)


def _named(codes: Counter[int]) -> list[dict[str, Any]]:
    return [{"error_code": code, "error": ERROR_NAMES.get(code), "count": count} for code, count in codes.most_common()]


def _group(name: str | None, counts: GroupCounts) -> dict[str, Any]:
    types = {member: member.name.lower() for member in AcknowledgeType}
    return {
        "group_id": name,
        "members": len(counts.members),
        "sessions": counts.sessions,
        "fetches": counts.fetches,
        "acknowledges": counts.acknowledges,
        "acquired": counts.acquired,
        "redelivered": counts.redelivered,
        "greatest_delivery_count": counts.greatest_delivery_count,
        "acknowledged": {text: counts.acknowledged[member] for member, text in types.items()},
        "errors": _named(counts.refused),
    }
