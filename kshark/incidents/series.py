"""Series: equal refusals of one client make one incident, from the first one to the last one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.results.observed import Refusal
from kshark.analysis.rules.rule import Rule, Verdict
from kshark.anomaly import Blame
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, client_named, span
from kshark.incidents.watcher import Awaited, Watcher
from kshark.model import Exchange, Flow, Witness

#: A series without another refusal for this time is over.
QUIET_NS: Final = 60_000_000_000
#: Exchanges that are kept as evidence besides the last one.
_KEPT: Final = 4


class Case(Struct, frozen=True):
    """One refusal, or another event of an exchange, and its cause.

    `argument`: a sentence about it, without its packets. `before`: earlier exchanges that prove it. `about`: what equal
    cases have in common besides the row, the cause, the verdict, the client and the broker. `codes`: its error code,
    once for each partition.
    """

    row: Rule
    argument: str
    cause: str | None = None
    verdict: Verdict = "note"
    because: str | None = None
    blame: Blame = "unknown"
    before: tuple[Witness, ...] = ()
    about: Hashable = None
    codes: tuple[int, ...] = ()
    topic_id: str | None = None
    partition: int | None = None
    group_id: str | None = None


class Series:
    """Equal cases of one client with one broker."""

    def __init__(self, watcher: SeriesWatcher, key: Hashable, flow: Flow, case: Case, since: PacketTime) -> None:
        self._watcher = watcher
        self.key: Final = key
        self.about: Final = case.about
        self._flow: Final = flow
        self._case: Final = case
        self._since: Final = since
        self._until = since
        self._times = 0
        self._witness: list[Witness] = [*case.before]
        self._client_id: str | None = None
        self._refusals: dict[Refusal, int] = {}

    def add(self, exchange: Exchange, case: Case, now: PacketTime) -> None:
        """Take another case."""
        request = exchange.request
        self._until = now
        self._times += 1
        del self._witness[_KEPT:]
        self._witness += witness_of(exchange)
        self._client_id = client_id_of(request)
        name = self._client_id or host_of(exchange.flow.client)
        for code in case.codes:
            refusal = Refusal(str(request.api if request is not None else ""), code, name)
            self._refusals[refusal] = self._refusals.get(refusal, 0) + 1

    def due_ns(self) -> int:
        return self._until.time_ns + QUIET_NS

    def missed(self) -> Iterable[Incident]:
        return self._watcher.over(self)

    def incident(self) -> Incident:
        """Return the incident as it is now."""
        case = self._case
        when = f"; packet {self._since.packet}"
        if self._times > 1:
            when = f"; {self._times:,} times {span(self._since, self._until)}"
        return Incident(
            case.row,
            self._since,
            self._until,
            self._flow,
            f"{case.argument}{when}",
            Where(
                brokers=frozenset({self._flow.broker}),
                hosts=frozenset({host_of(self._flow.client)}),
                client_id=self._client_id,
                group_id=case.group_id,
                topic_ids=None if case.topic_id is None else frozenset({case.topic_id}),
                partition=case.partition,
            ),
            tuple(self._witness),
            case.verdict,
            case.blame if case.verdict == "violation" else "unknown",
            case.cause,
            case.because,
            of_client=True,
            client_id=self._client_id,
            refusals=self._refusals,
        )


class SeriesWatcher(Watcher):
    """Base of watchers whose incidents are series."""

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self.series: OrderedDict[Hashable, Series] = OrderedDict()

    def collect(self, exchange: Exchange, case: Case) -> Sequence[Incident]:
        """Add a case to its series. Beyond limits.INCIDENTS the oldest series is over."""
        flow, request = exchange.flow, exchange.request
        owner = host_of(flow.client), client_id_of(request), flow.broker
        key = case.row.code, case.cause, case.verdict, case.about, owner
        series = self.series.get(key)
        over: list[Incident] = []
        if series is None:
            if len(self.series) >= limits.INCIDENTS:
                over += self.over(next(iter(self.series.values())))
            series = self.series[key] = Series(self, key, flow, case, self.scene.now)
        series.add(exchange, case, self.scene.now)
        self.due.add(series)
        return over

    def over(self, series: Series) -> Iterable[Incident]:
        """Return the incident of a series that has ended."""
        if self.series.pop(series.key, None) is None:
            return ()
        return (series.incident(),)

    def lasting(self) -> Iterable[Incident]:
        return [series.incident() for series in self.series.values()]

    def close(self) -> Iterable[Incident]:
        return self.lasting()


def without_bodies(exchange: Exchange) -> Exchange:
    """Return an exchange to keep, for its client, its packets and its connection."""
    request, response = exchange.request, exchange.response
    return Exchange(
        None if request is None else replace(request, body=UNSET),
        None if response is None else replace(response, body=UNSET),
        exchange.outcome,
        exchange.flow,
        exchange.packet,
    )


def client_of(exchange: Exchange) -> str:
    """Return `client c1 (10.0.0.1)`, for the client of an exchange."""
    return client_named(exchange.flow, client_id_of(exchange.request))
