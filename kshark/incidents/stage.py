"""The stage: events of the time line in, incidents out as findings, as soon as they are over or decided."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.clock import packet_time
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.results.observed import Refusal
from kshark.api_keys import METADATA
from kshark.incidents.due import Due
from kshark.incidents.explanations import Explanations
from kshark.incidents.incident import Incident
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import so_far
from kshark.incidents.watcher import Awaited, Watcher
from kshark.incidents.watchers import WATCHERS
from kshark.model import ByMessage, Closed, Event, Exchange, Finding, Gap, HalfClosed, Message, Opened, Tick, Weird
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS

#: The refused exchanges of a page, by id(), with their error codes (kshark.analysis.Observer.page).
Refusals = Mapping[int, Sequence[PlacedCode]]
_NO_REFUSALS: Final[Refusals] = {}
#: The packets after a silence in which TCP timestamps may prove it, and some more: they are counted before this stage.
_PROVED_WITHIN: Final = 2 * limits.SILENCE_PACKETS


class Incidents:
    """Recognise the incidents of one capture. Its events come page by page, in the order of the time line.

    `complete`: the capture holds all traffic of its clients.
    """

    def __init__(
        self, registry: Registry, watchers: Iterable[type[Watcher]] = WATCHERS, *, complete: bool = False
    ) -> None:
        self._scene = Scene(registry, complete=complete)
        self._due: Due[Awaited] = Due()
        #: A time without any event until then is a pause; 0 before the first event.
        self._quiet_ns = 0
        #: The time of the last tick.
        self._now_ns = 0
        #: The incidents so far, for the findings that they explain.
        self.explanations: Final = Explanations()
        #: Error codes that incidents explain, counted, since the reader emptied it last.
        self.refusals: Final[Counter[Refusal]] = Counter()
        self._watchers = [watcher(self._scene, self._due) for watcher in watchers]
        #: Incidents whose times are not proved so far: a later packet may prove them.
        self._unproved: deque[Incident] = deque()
        #: By API, as far as it was seen.
        self._of_requests: dict[Any, tuple[Watcher, ...]] = {}
        self._of_exchanges: dict[Any, tuple[Watcher, ...]] = {}
        self._of_refusals = tuple(watcher for watcher in self._watchers if watcher.refusals)
        self._of_events: Final[dict[type, tuple[Watcher, ...]]] = {
            kind: tuple(watcher for watcher in self._watchers if kind in watcher.kinds)
            for kind in (Opened, HalfClosed, Closed, Gap)
        }

    def page(self, events: Iterable[Event], refusals: Refusals = _NO_REFUSALS) -> list[Finding]:
        """Return the incidents that these events decide."""
        incidents: list[Incident] = []
        findings: list[Finding] = []
        for event in events:
            kind = type(event)
            if kind is Message:
                if event.kind == "request":  # type: ignore[union-attr]
                    self._request(event, incidents)  # type: ignore[arg-type]
            elif kind is Exchange:
                self._exchange(event, refusals, incidents)  # type: ignore[arg-type]
            elif kind is Weird:
                self._weird(event, incidents)  # type: ignore[arg-type]
            elif kind in self._of_events:
                self._event(event, incidents)
            elif kind is Tick:
                findings += self._tick(event.time_ns, incidents)  # type: ignore[union-attr]
            if incidents:  # what the clock proves may change with the next event
                findings += self._decided(incidents)
                incidents.clear()
        return findings

    def _tick(self, now_ns: int, incidents: list[Incident]) -> list[Finding]:
        """Let time pass without a packet: report what was due, and the incidents that no later packet can prove.

        The scene stays at its packet. Thus the next packet finds it as if there had been no tick.
        """
        scene, self._now_ns = self._scene, now_ns
        if now_ns > self._due.next_ns:
            with scene.at(now_ns):
                for awaited in self._due.passed(now_ns):
                    incidents += awaited.missed()
        settled: list[Incident] = []
        while self._unproved and scene.packet > self._unproved[0].shown_until + _PROVED_WITHIN:
            settled.append(self._unproved.popleft())
        return self._reported(settled)

    def lasting(self) -> list[Finding]:
        """Return the incidents that last until now, the last packet or tick, or that only the end of the capture
        decides: up to limits.LASTING of them.

        They are as that end would give them, and are no findings before it: they may end in another way.
        """
        with self._scene.at(self._now_ns):
            every = chain.from_iterable(watcher.lasting() for watcher in self._watchers)
            findings = [incident.finding() for incident in islice(every, limits.LASTING)]
        return [replace(finding, argument=so_far(finding.argument)) for finding in findings]

    def may_excuse(self, finding: Finding) -> bool:
        """True if an incident that is not reported yet may excuse a finding of some time ago."""
        code, packet = finding.code, finding.packet
        return any(
            watcher.may_excuse(finding)
            for watcher in self._watchers
            if any(code in row.excuses for row in watcher.rows)
        ) or any(code in it.row.excuses and it.since.packet <= packet for it in self._unproved)

    def close(self) -> list[Finding]:
        """End the capture, and return the incidents that last, or that only its end decides."""
        last = [incident for watcher in self._watchers for incident in watcher.close()]
        unproved, self._unproved = self._unproved, deque()
        return self._reported([*unproved, *last])

    def _decided(self, incidents: Iterable[Incident]) -> list[Finding]:
        """Return the findings of incidents, without those whose times are not proved."""
        certain: list[Incident] = []
        for incident in incidents:
            is_weak = incident.because is None and incident.weakness() is not None
            waits = is_weak and len(self._unproved) < limits.INCIDENTS
            (self._unproved if waits else certain).append(incident)
        return self._reported(certain)

    def _reported(self, incidents: Iterable[Incident]) -> list[Finding]:
        findings = []
        for incident in incidents:
            finding = incident.finding()
            if finding.unknown_because == "gap":
                until = incident.since if incident.until is None else incident.until
                finding.unknown_because = self._scene.drops.reason(incident.since.packet, until.packet)
            self.explanations.add(incident, finding)
            if incident.refusals:
                self.refusals.update(incident.refusals)
            findings.append(finding)
        return findings

    def _at(self, packet: int, time_ns: int, incidents: list[Incident]) -> None:
        """Move to a packet, and report first what was due before it and did not come."""
        before_ns = self._scene.now[1]
        if time_ns <= before_ns:
            self._scene.now = packet_time((packet, before_ns))
            return
        self._scene.now = packet_time((packet, time_ns))
        if time_ns > self._due.next_ns or time_ns > self._quiet_ns:
            self._passed(time_ns, incidents)
        self._quiet_ns = time_ns + limits.QUIET_NS

    def _passed(self, time_ns: int, incidents: list[Incident]) -> None:
        """Note a pause before the current packet, and report what was due and did not come."""
        if self._quiet_ns and time_ns > self._quiet_ns:
            self._scene.pauses.append((self._quiet_ns - limits.QUIET_NS, time_ns))
        for awaited in self._due.passed(time_ns):
            incidents += awaited.missed()

    def _request(self, request: Message, incidents: list[Incident]) -> None:
        self._at(request.packet, request.time_ns, incidents)
        opened, flow, api_key = self._scene.open, request.flow, request.api_key
        requests = opened.get(flow)
        if requests is None:
            requests = opened[flow] = ByMessage()
        requests[id(request)] = (request,)
        watchers = self._of_requests.get(api_key)
        if watchers is None:
            watchers = self._of_requests[api_key] = self._watching(api_key, "requests")
        for watcher in watchers:
            incidents += watcher.request(request)

    def _exchange(self, exchange: Exchange, refusals: Refusals, incidents: list[Incident]) -> None:
        request, response = exchange.request, exchange.response
        scene, message = self._scene, exchange.response or exchange.request
        assert message is not None
        if response is not None:
            self._at(response.packet, response.time_ns, incidents)
            if response.api_key in NAMING_APIS:
                self._name(response)
            scene.throttle(response)
        if request is not None and (requests := scene.open.get(request.flow)) is not None:
            requests.pop(id(request), None)
        watchers = self._of_exchanges.get(message.api_key)
        if watchers is None:
            watchers = self._of_exchanges[message.api_key] = self._watching(message.api_key, "apis")
        for watcher in watchers:
            if found := watcher.exchange(exchange):
                incidents += found
        if refusals and (codes := refusals.get(id(exchange))) is not None:
            for watcher in self._of_refusals:
                incidents += watcher.refused(exchange, codes)
        if response is not None:
            scene.answered[response.flow] = scene.now
        else:
            scene.gave_up(exchange)

    def _name(self, response: Message) -> None:
        """Learn names of topics, and the brokers of a cluster."""
        self._scene.names.learn(response)
        if response.api_key == METADATA:
            self._scene.brokers.metadata(response)

    def _event(self, event: Any, incidents: list[Incident]) -> None:
        self._at(event.packet, event.time_ns, incidents)
        flow = event.flow
        if type(event) is Opened:
            self._scene.flows[flow.id] = flow
        incidents += chain.from_iterable(watcher.event(event) for watcher in self._of_events[type(event)])
        if type(event) is Closed:
            self._scene.forget(flow.id)

    def _weird(self, weird: Weird, incidents: list[Incident]) -> None:
        self._scene.note(weird)
        for watcher in self._watchers:
            if weird.code in watcher.weirds:
                incidents += watcher.event(weird)
        self._scene.settle(weird)

    def _watching(self, api: Any, of: str) -> tuple[Watcher, ...]:
        """Return the watchers whose attribute `of`, a set of APIs, has this API, or is None."""
        takes = ((watcher, getattr(watcher, of)) for watcher in self._watchers)
        return tuple(watcher for watcher, apis in takes if apis is None or api in apis)
