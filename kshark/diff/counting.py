"""Count one capture for its profile: events of the time line, and findings."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis import Observed, RuleCoverage
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import ErrorCodes
from kshark.analysis.results.statistics import LONG_POLLS, Waits, throttled
from kshark.api_keys import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
)
from kshark.diff.profile import (
    ALL,
    ANSWERS,
    ERRORS,
    FINDINGS,
    HEARTBEATS,
    OF_SOFTWARE,
    REBALANCES,
    REOPENED,
    REQUESTS,
    THROTTLED,
    UNANSWERED,
    FindingKey,
    FirstSeen,
    Profile,
)
from kshark.model import Closed, Event, Exchange, Finding, Message
from kshark.registry import Registry
from kshark.releases import releases_offering
from kshark_dissectors.enums import ErrorCode

_HEARTBEATS: Final = frozenset({HEARTBEAT, CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT})
#: Fields of heartbeat responses that give a new assignment.
_ASSIGNMENTS: Final = ("assignment", "active_tasks")


class Counting:
    """Count the pages of a capture, then its findings; `close` returns the profile."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._errors = ErrorCodes(registry)
        self._profile = Profile(name)
        self._waits = Waits()
        #: By connection, the requests that got no answer: packet and API key.
        self._open: dict[int, list[tuple[int, int]]] = {}
        #: Members that opened a share session: broker, group and member.
        self._opened: set[tuple[str, Any, Any]] = set()
        #: Names of software, by name and version.
        self._names: dict[str, str] = {}

    def page(self, events: Iterable[Event]) -> None:
        profile = self._profile
        for event in events:
            if type(event) is Message:
                first_ns, last_ns = profile.times or (event.time_ns, event.time_ns)
                profile.times = min(first_ns, event.time_ns), max(last_ns, event.time_ns)
            elif type(event) is Exchange:
                self._exchange(event)
            elif type(event) is Closed:
                self._closed(event)

    def finding(self, finding: Finding) -> None:
        key = FindingKey(finding.code, finding.verdict, finding.cause, *self._party(finding))
        self._profile.counts.add((FINDINGS, key), finding.packet)
        if key not in self._profile.first and len(self._profile.first) < limits.STATISTICS_ROWS:
            self._profile.first[key] = FirstSeen(finding.packet, finding.argument)

    def close(
        self, observed: Observed, rules: Iterable[RuleCoverage], remarks: Iterable[str], *, has_keys: bool = False
    ) -> Profile:
        """Return the profile. `observed`: the counts of its check; `rules`: how often each was put to the test;
        `remarks`: sentences about the capture; `has_keys`: a key log was given."""
        profile = self._profile
        listed = [*rules]
        profile.tested = {rule.code: rule.tested for rule in listed}
        profile.unproved = {rule.code: rule.unknown for rule in listed}
        profile.has_clock = not observed.defects["CLOCK_STOPPED"]
        profile.remarks = [*remarks]
        if profile.counts.left_out:
            profile.remarks.append("It has more kinds of requests, errors and findings than kshark compares.")
        profile.why_not = observed.why_empty(has_keys=has_keys) or ""
        if not profile.requests and not profile.why_not:
            profile.why_not = "it has no request to compare"
        return profile

    # -- exchanges

    def _exchange(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request is None or not isinstance(request.api_key, int) or not isinstance(request.version, int):
            return
        api_key, packet, counts = request.api_key, request.packet, self._profile.counts
        counts.add(ALL, packet)
        counts.add((REQUESTS, api_key), packet)
        self._software(exchange, request, api_key, request.version)
        self._profile.bytes[0] += request.size
        if response is not None:
            self._profile.bytes[1] += response.size
            self._answer(request, response, api_key, request.version)
        elif exchange.outcome == "unanswered" and not exchange.flow.gaps:
            self._open.setdefault(exchange.flow.id, []).append((packet, api_key))

    def _software(self, exchange: Exchange, request: Message, api_key: int, version: int) -> None:
        flow = exchange.flow
        name = flow.software_name or ""
        if name and (software := flow.software) and len(self._names) < limits.STATISTICS_ROWS:
            self._names[software] = name
        self._profile.count_software(name, flow.software_version or "", api_key, version)
        self._profile.counts.add((OF_SOFTWARE, api_key, name), request.packet)

    def _answer(self, request: Message, response: Message, api_key: int, version: int) -> None:
        """Count an answer; the errors and what else it has only if its body was read to the end."""
        packet, counts, body = request.packet, self._profile.counts, response.body
        codes = frozenset(self._errors.of(body, api_key, version))
        if isinstance(response.latency_ns, int):
            self._latency(request, response.latency_ns, codes)
        if not is_whole(response):
            return
        counts.add((ANSWERS, api_key), packet)
        for code in codes:
            counts.add((ERRORS, api_key, code), packet)
        if throttle_ms := throttled(body):
            self._waits.throttle(response, throttle_ms)
            counts.add((THROTTLED, api_key), packet)
        if api_key == API_VERSIONS:
            self._offer(body)
        elif api_key in _HEARTBEATS:
            counts.add(HEARTBEATS, packet)
            if _rebalances(body, codes):
                counts.add(REBALANCES, packet)
        elif api_key == SHARE_FETCH and not codes and is_whole(request):
            self._share_session(request)

    def _latency(self, request: Message, latency_ns: int, codes: frozenset[int]) -> None:
        api_key: Any = request.api_key
        wait_ns: int | None = None
        work_ns: int | None = latency_ns
        if api_key in LONG_POLLS or self._waits.muted_until:
            wait_ns, work_ns = self._waits.of(request, latency_ns, codes)
        if work_ns is not None:
            self._profile.work.add(api_key, request.packet, work_ns)
        if wait_ns is not None:
            self._profile.wait.add(api_key, request.packet, wait_ns)

    def _offer(self, body: Any) -> None:
        """Count the releases that fit the versions that a broker offers; an error lists only ApiVersions."""
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) == 0 and offered is not UNSET and offered is not None:
            release = _release(tuple(sorted((api.api_key, api.max_version) for api in offered)))
            if release:
                self._profile.releases[release] += 1

    def _share_session(self, request: Message) -> None:
        """Count a share session that a member opened again."""
        body: Any = request.body
        if body.share_session_epoch == 0:
            key = request.broker, body.group_id, body.member_id
            if key in self._opened:
                self._profile.counts.add(REOPENED, request.packet)
            elif len(self._opened) < limits.STATISTICS_ROWS:
                self._opened.add(key)

    def _closed(self, closed: Closed) -> None:
        """Count the requests whose connection the broker ended instead of an answer. Clients close with requests open
        when they stop."""
        pending = self._open.pop(closed.flow.id, ())
        if closed.side is not None and closed.flow.sender(closed.side) == "broker" and not closed.flow.gaps:
            for packet, api_key in pending:
                self._profile.counts.add((UNANSWERED, api_key), packet)

    def _party(self, finding: Finding) -> tuple[str, str]:
        """Return the blamed role, and the name of a blamed client's software; empty texts if nobody is blamed."""
        if finding.verdict != "violation" or finding.blame == "unknown":
            return "", ""
        return finding.blame, self._names.get(finding.software or "", "") if finding.blame == "client" else ""


def _rebalances(body: Any, codes: frozenset[int]) -> bool:
    """True if a heartbeat's response makes a member change its partitions."""
    if ErrorCode.REBALANCE_IN_PROGRESS in codes:
        return True
    return any(getattr(body, name, None) not in (None, UNSET) for name in _ASSIGNMENTS)


@lru_cache(maxsize=256)
def _release(offered: tuple[tuple[int, int], ...]) -> str:
    """Return the releases that offer these highest versions: `4.2 or 4.3`; empty if none does."""
    return " or ".join(releases_offering(dict(offered)))
