"""A capture judged: its pages in; findings, share sessions and everything that a verdict line says out.

    run = Run(registry)
    for page in pages:
        print(run.page(page))  # findings, as they are proved
    run.close()
    run.findings, run.observed  # all of them, in the order of packets; what they were found in

The Analyzer alone is enough for whoever needs no more than findings, sessions or records in flight."""

from __future__ import annotations

from collections.abc import Callable

from kshark.analysis import Analyzer, Observed, Observer, PackedFindings, PackedSessions
from kshark.model import Event, Finding, Message
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS


class Run:
    """Judge one capture, whose events come page by page in the order of the time line.

    `shows`: only findings that pass are returned and kept. `keeps`: findings are kept, `sessions`: share sessions too.
    `coverage`: it is counted; `named`: names of topics are learned."""

    def __init__(
        self,
        registry: Registry,
        *,
        shows: Callable[[Finding], bool] | None = None,
        keeps: bool = True,
        sessions: bool = False,
        coverage: bool = False,
        named: bool = False,
    ) -> None:
        self._analyzer = Analyzer(sessions=sessions, coverage=coverage)
        self._observer = Observer(registry, coverage=coverage)
        self._names = TopicNames(registry) if named else None
        self._shows = shows
        self._keeps = keeps
        #: Topics that findings are about, in their order.
        self._about: dict[str, None] = {}
        self.findings = PackedFindings()
        #: Those that are over; after `close` all.
        self.sessions = PackedSessions()

    def page(self, page: list[Event]) -> list[Finding]:
        """Return the findings that these events prove."""
        if self._names is not None:
            for event in page:
                if type(event) is Message and event.api_key in NAMING_APIS:
                    self._names.learn(event)
        self._observer.page(page)
        return self._proved(self._analyzer.page(page))

    def close(self) -> list[Finding]:
        """End the capture, and return the findings that only its end proves."""
        return self._proved(self._analyzer.close())

    @property
    def observed(self) -> Observed:
        """What was seen and judged so far."""
        observed = self._observer.observed
        observed.sessions = self._analyzer.summary()["sessions"]
        observed.coverage = self._analyzer.coverage
        return observed

    @property
    def topics(self) -> dict[str, str]:
        """Names, by id, of the topics that findings are about, as far as they are known by now."""
        known = {} if self._names is None else self._names.by_id
        return {topic_id: known[topic_id] for topic_id in self._about if topic_id in known}

    def _proved(self, found: list[Finding]) -> list[Finding]:
        self._observer.explain(found)
        self.sessions.add(self._analyzer.listed())
        if self._shows is not None:
            found = [*filter(self._shows, found)]
        if self._keeps:
            self.findings.add(found)
            self._about.update((finding.topic_id, None) for finding in found if finding.topic_id is not None)
        return found
