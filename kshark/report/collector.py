"""Count the events, findings and sessions of a capture one by one. The cluster of a broker may be known only at the
end: what is counted by cluster waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis import ShareSession
from kshark.analysis.results.error_codes import ErrorCodes
from kshark.analysis.results.statistics import waited_in_full
from kshark.api_keys import API_VERSIONS, FETCH, SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.endpoints import host_of
from kshark.model import Closed, Event, Exchange, Finding, Flow, Gap, Message, Weird
from kshark.registry import Registry
from kshark.report.collected import Caller, CapturedFinding, Collected, GroupName, Kind, Member, Server, Tick
from kshark.report.mergeable import Counts
from kshark.tables.capture_summary import CaptureSummary, Offers

_FETCHES: Final = frozenset({FETCH, SHARE_FETCH})
_SHARE: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})

#: Client id, API key and version of requests on one connection.
_Asked = tuple[str, int, int]


class Collector:
    """Count one capture.

    `page` takes events, `finding` and `session` results of the analysis after them; `close` returns the counts.
    """

    def __init__(self, capture: str, registry: Registry) -> None:
        self._capture = capture
        self._errors = ErrorCodes(registry)
        self._to = Collected()
        #: The capture as a row, with the clusters of brokers.
        self._summary = CaptureSummary()
        #: Counts that wait for clusters: requests by broker, offered versions by broker, requests by broker and caller.
        self._brokers: Counts[str] = Counts(limits.STATISTICS_ROWS)
        self._offers: Counts[tuple[str, Offers]] = Counts(limits.STATISTICS_ROWS)
        self._clients: Counts[tuple[str, Caller]] = Counts(limits.STATISTICS_ROWS)
        #: Counts that wait until the client of their connection is fully known.
        self._asked: dict[int, tuple[Flow, Counter[_Asked], Counter[tuple[Member, str, int | None]]]] = {}

    def feed(self, event: Event) -> None:
        if type(event) is Exchange:
            self._exchange(event)
        elif type(event) is Message:
            if event.weird is not UNSET:
                for code in event.weird or ():
                    self.weird(code, event.size)
        elif type(event) is Weird:
            self.weird(event.code, event.size, event.times)
        elif type(event) is Gap:
            self._to.gaps[event.reason, "gaps"] += 1
            self._to.gaps[event.reason, "bytes"] += max(0, event.size)
        elif type(event) is Closed:
            self._closed(event.flow)

    def page(self, events: Iterable[Event]) -> None:
        page = [*events]
        self._summary.page(page)
        for event in page:
            self.feed(event)

    def weird(self, code: str, size: int, times: int = 1) -> None:
        self._to.weirds[code, "times"] += times
        self._to.weirds[code, "bytes"] += size

    def close(self) -> Collected:
        """Return the counts; connections without an end count with the data known so far."""
        for flow in list(self._asked):
            self._settle(flow)
        to = self._to
        for broker, count in self._brokers.items():
            to.brokers.add(self._server(broker), count)
        for (broker, offered), count in self._offers.items():
            to.offers.add((self._server(broker), offered), count)
        for (broker, caller), count in self._clients.items():
            to.clients.add(caller._replace(cluster=self._cluster(broker)), count)
        to.brokers.others += self._brokers.others
        to.offers.others += self._offers.others
        to.clients.others += self._clients.others
        to.captures[self._capture] = self._summary
        return to

    def _cluster(self, broker: str) -> str:
        return self._summary.clusters.of(broker) or ""

    def _server(self, broker: str) -> Server:
        return Server(self._cluster(broker), broker)

    # -- exchanges

    def _exchange(self, exchange: Exchange) -> None:
        to, request, response = self._to, exchange.request, exchange.response
        to.outcomes[exchange.outcome] += 1
        if request is None or not isinstance(request.api_key, int) or not isinstance(request.version, int):
            return
        key = request.api_key
        client_id = request.client_id if isinstance(request.client_id, str) else ""
        waiting = self._asked.get(exchange.flow.id)
        if waiting is None:
            waiting = self._asked[exchange.flow.id] = (exchange.flow, Counter(), Counter())
        waiting[1][client_id, key, request.version] += 1
        self._brokers.add(request.broker)
        if response is None:
            to.unanswered[key] += exchange.outcome == "unanswered"
        else:
            if isinstance(response.latency_ns, int):
                to.latency[key, key in _FETCHES and waited_in_full(request.body, response.latency_ns)].add(
                    response.latency_ns
                )
            for code in self._errors.of(response.body, key, request.version):
                to.errors[key, code] += 1
            if key == API_VERSIONS:
                self._offered(request.broker, response.body)
        if key in _SHARE:
            self._step(request, response, client_id, waiting[2])

    def _offered(self, broker: str, body: Any) -> None:
        """Count the offered versions; a response with an error lists only ApiVersions."""
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) == 0 and offered is not UNSET and offered is not None:
            self._offers.add((broker, tuple(sorted((api.api_key, api.max_version) for api in offered))))

    def _step(
        self, request: Message, response: Message | None, client_id: str, steps: Counter[tuple[Member, str, int | None]]
    ) -> None:
        body: Any = request.body
        group_id, member_id = getattr(body, "group_id", UNSET), getattr(body, "member_id", UNSET)
        epoch = getattr(body, "share_session_epoch", UNSET)
        if not isinstance(epoch, int):
            return
        member = Member(self._capture, request.broker, _text(group_id), _text(member_id))
        error = None if response is None else getattr(response.body, "error_code", None)
        error = error if isinstance(error, int) else None
        steps[member, client_id, error] += 1
        sample = self._to.refused if error else self._to.accepted
        sample.add(request.packet, member, Tick(request.time_ns, request.packet, str(request.api), epoch, error))

    # -- connections

    def _closed(self, flow: Flow) -> None:
        to = self._to
        for quantity, count in (
            ("connections", 1),
            ("bytes", sum(flow.stream_bytes)),
            ("gaps", flow.gaps),
            ("older", flow.opened_by is None),
        ):
            to.connections[flow.service, quantity] += count
        self._settle(flow.id)

    def _settle(self, flow_id: int) -> None:
        """Count the waiting requests of a connection, now that its client is known."""
        waiting = self._asked.pop(flow_id, None)
        if waiting is None:
            return
        flow, asked, steps = waiting
        software = flow.software or ""
        host = host_of(flow.client)
        for (client_id, key, version), count in asked.items():
            self._clients.add((flow.broker, Caller(client_id, software, host)), count)
            self._to.apis.add((key, version, software), count)
        for (member, client_id, error), count in steps.items():
            self._to.steps.add((member, Caller(client_id, software, host), error), count)

    # -- results of the analysis

    def finding(self, finding: Finding) -> None:
        to, cluster = self._to, self._cluster(finding.broker)
        self._summary.finding(finding)
        kind = Kind(finding.verdict, finding.code, finding.cause or "")
        caller = Caller(finding.client_id or "", finding.software or "", host_of(finding.client), cluster)
        to.kinds[kind, finding.blame] += 1
        to.shown.add(kind, CapturedFinding(self._capture, finding, cluster))
        to.of_clusters.add((cluster, finding.verdict))
        names = [("cause", finding.cause or finding.code)]
        if finding.client or finding.client_id:  # events may be about a broker alone
            to.of_clients.add((caller, finding.verdict))
            names.append(("client", caller.client_id or caller.host))
        if finding.group_id is not None:
            to.of_groups.add((GroupName(cluster, finding.group_id), finding.verdict))
            names.append(("group", finding.group_id))
            if finding.member_id is not None:
                to.of_members.add(
                    (Member(self._capture, finding.broker, finding.group_id, finding.member_id), finding.verdict)
                )
        if finding.verdict == "unknown":
            to.reasons[finding.unknown_because or "unknown"] += 1
        for dimension, name in names:
            to.times.add(finding.time_ns, (dimension, name, finding.verdict))

    def session(self, session: ShareSession) -> None:
        self._summary.sessions += 1
        self._to.sessions.append((self._capture, session))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
