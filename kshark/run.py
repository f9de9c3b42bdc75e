"""One judged capture: its pages in; findings, share sessions and the contents of a verdict line out.

    run = Run(registry)
    for page in pages:
        print(run.page(page))  # findings, as they are proved
    run.close()
    run.findings, run.observed  # all findings, in the order of packets; the counts of the capture

The Analyzer is enough for findings, sessions or records in flight alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kshark.analysis import (
    AnalysisResult,
    Analyzer,
    By,
    Change,
    ClientCoverage,
    Listed,
    MemberKey,
    Observed,
    Observer,
    Outcomes,
    PackedFindings,
    PackedSessions,
    Parties,
    PlacedCode,
    ReadByClient,
    by_client,
    joined_outcomes,
)
from kshark.incidents import EXCUSABLE, EXPLAINABLE, WATCHERS, WITH_RECORDS, ExcusableFindings, Incidents
from kshark.incidents.watchers import JUDGED
from kshark.model import Event, Finding, Message, Tick
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS


class Run:
    """Judge one capture. Its events come page by page in the order of the time line.

    `shows`: return and keep only findings for which it is true. `keeps`: keep findings. `sessions`: keep share sessions
    too. `listing`: return sessions and their requests by `listed`, and keep no sessions. `coverage`: count it; as
    Parties: also by client. `named`: learn the names of topics. `complete`: the capture holds all traffic of its
    clients. `records`: batches come opened, with the keys of their records. `on_change` is called with every change of
    records of share partitions."""

    def __init__(
        self,
        registry: Registry,
        *,
        shows: Callable[[Finding], bool] | None = None,
        keeps: bool = True,
        sessions: bool = False,
        listing: bool = False,
        coverage: bool | Parties = False,
        named: bool = False,
        complete: bool = False,
        records: bool = False,
        on_change: Callable[[Change], object] | None = None,
    ) -> None:
        #: What is known of share sessions and of records in flight.
        self.analyzer = Analyzer(
            sessions=sessions or listing, steps=listing, coverage=coverage, complete=complete, on_change=on_change
        )
        self._is_listing = listing
        watchers = (*WATCHERS, *WITH_RECORDS) if records else WATCHERS
        self._incidents = Incidents(registry, watchers, complete=complete)
        self._observer = Observer(registry, judged=JUDGED, coverage=bool(coverage))
        self._reads = ReadByClient(coverage) if isinstance(coverage, Parties) else None
        self._names = TopicNames(registry) if named else None
        self._shows = shows
        self._keeps = keeps
        #: The error codes in the responses of the last page, by id() of their exchange.
        self.refusals: Mapping[int, list[PlacedCode]] = {}
        #: Ids of the topics in findings, in their order.
        self._topic_ids: dict[str, None] = {}
        self.findings = PackedFindings(shown=self._incidents.explanations.explained)
        #: Findings that an incident may excuse.
        self._excusable = ExcusableFindings(self._incidents)
        #: Sessions that ended; after `close` all sessions.
        self.sessions = PackedSessions()

    def page(self, page: list[Event]) -> list[Finding]:
        """Return the findings that these events prove.

        Those that an incident may excuse are returned later: in a running capture with one of its ticks, else by
        `close`.
        """
        if self._names is not None:
            for event in page:
                if type(event) is Message and event.api_key in NAMING_APIS:
                    self._names.learn(event)
        self.refusals = refusals = self._observer.page(page)
        if self._reads is not None:
            self._reads.page(page)
        findings = self.analyzer.page(page)
        self._observer.explain(findings)
        proved = self._proved([*findings, *self._incidents.page(page, refusals)])
        last = page[-1] if page else None
        if type(last) is Tick and (certain := [*self._excusable.certain(last.time_ns)]):
            return [*proved, *self._certain(certain)]
        return proved

    def close(self) -> list[Finding]:
        """End the capture, and return the findings that only its end proves."""
        last = self.analyzer.close()
        self._observer.explain(last)
        findings = self._proved([*last, *self._incidents.close()])
        return [*findings, *self._certain([*self._excusable.close()])]

    def lasting(self) -> list[Finding]:
        """Return the incidents that last until now, or that only the end of the capture decides, as that would give
        them: up to limits.LASTING.

        They become findings when they end, with the same code and first packet: then it is known how they ended. Time
        goes on by the ticks of a running capture. Once a second is often enough: with 10,000 requests without an answer
        it takes 0.1 s.
        """
        lasting = [self._incidents.explanations.explained(finding) for finding in self._incidents.lasting()]
        return [*filter(self._shows, lasting)] if self._shows is not None else lasting

    def listed(self) -> list[Listed]:
        """Return the share sessions that ended and the requests since the last call."""
        return self.analyzer.listed()

    @property
    def observed(self) -> Observed:
        """The counts of the capture so far."""
        observed = self._observer.observed
        observed.sessions = self.analyzer.summary()["sessions"]
        observed.coverage = self.analyzer.coverage
        if self._reads is not None and self._reads.parties.passes is not None:
            observed.counted_read = self._reads.total
        return observed

    def clients(self, by: By) -> list[ClientCoverage]:
        """Return the coverage by client or by software so far; an empty list if that is not counted."""
        return [] if self._reads is None else by_client(by, self._reads, self.analyzer.coverage_of_parties)

    @property
    def outcomes(self) -> dict[MemberKey, Outcomes]:
        """How the members of share groups fared so far."""
        return joined_outcomes([self.analyzer.outcomes.of])

    @property
    def names(self) -> Mapping[str, str]:
        """Names of topics by id, as far as they are known by now; none if they are not learned."""
        return {} if self._names is None else self._names.by_id

    @property
    def topics(self) -> dict[str, str]:
        """Names, by id, of the topics in findings, as far as they are known by now."""
        names = self.names
        return {topic_id: names[topic_id] for topic_id in self._topic_ids if topic_id in names}

    def _proved(self, findings: list[Finding]) -> list[Finding]:
        self._observer.observed.explained.update(self._incidents.refusals)
        self._incidents.refusals.clear()
        if not self._is_listing:
            self.sessions.add(self.analyzer.listed())
        if self._shows is not None:
            findings = [*filter(self._shows, findings)]
        if not EXCUSABLE.isdisjoint([finding.code for finding in findings]):
            self._excusable.add([finding for finding in findings if finding.code in EXCUSABLE])
            findings = [finding for finding in findings if finding.code not in EXCUSABLE]
        return self._certain(findings)

    def _certain(self, findings: list[Finding]) -> list[Finding]:
        """Keep findings, and return them with the incidents so far that explain them."""
        if self._keeps:
            self.findings.add(findings)
            self._topic_ids.update((finding.topic_id, None) for finding in findings if finding.topic_id is not None)
        return [self._incidents.explanations.explained(finding) for finding in findings]


class Listing:
    """Findings, share sessions and their requests of one capture, for tables. Its events come as for Run.

    `waits`: return findings that an incident may explain only at the end, with the incident. Otherwise, only those that
    it may excuse wait: for captures without an end.
    """

    def __init__(self, registry: Registry, *, waits: bool = True) -> None:
        self._analyzer = Analyzer(sessions=True, steps=True)
        self._incidents = Incidents(registry)
        self._observer = Observer(registry, judged=JUDGED)
        self._waiting = PackedFindings()
        self._waits_for = EXPLAINABLE if waits else EXCUSABLE

    def page(self, page: list[Event]) -> list[AnalysisResult]:
        """Return the results that these events prove."""
        refusals = self._observer.page(page)
        return self._certain([*self._analyzer.page(page), *self._incidents.page(page, refusals)])

    def close(self) -> list[AnalysisResult]:
        """End the capture, and return the rest."""
        results = self._certain([*self._analyzer.close(), *self._incidents.close()])
        return [*map(self._incidents.explanations.explained, self._waiting), *results]

    def _certain(self, findings: list[Finding]) -> list[AnalysisResult]:
        self._waiting.add(finding for finding in findings if finding.code in self._waits_for)
        certain = [finding for finding in findings if finding.code not in self._waits_for]
        return [*map(self._incidents.explanations.explained, certain), *self._analyzer.listed()]
