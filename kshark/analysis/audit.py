"""The analysis and the observer over the same pages: findings, and what they were found in."""

from __future__ import annotations

from kshark.analysis.analyzer import Analyzer
from kshark.analysis.results.observed import Observed, Observer
from kshark.analysis.results.sessions import Listed
from kshark.model import Event, Finding
from kshark.registry import Registry


class Audit:
    """`page` takes events and gives the findings proved by them, `close` the rest; then `observed` is whole.

    `sessions`: whether `listed` gives share sessions, as Analyzer's does; `coverage`: whether that is counted.
    """

    def __init__(self, registry: Registry, *, sessions: bool = False, coverage: bool = False) -> None:
        self._analyzer = Analyzer(sessions=sessions, coverage=coverage)
        self._observer = Observer(registry, coverage=coverage)

    def page(self, page: list[Event]) -> list[Finding]:
        self._observer.page(page)
        return self._explained(self._analyzer.page(page))

    def close(self) -> list[Finding]:
        return self._explained(self._analyzer.close())

    def listed(self) -> list[Listed]:
        return self._analyzer.listed()

    @property
    def observed(self) -> Observed:
        """What was seen so far."""
        self._observer.observed.sessions = self._analyzer.summary()["sessions"]
        self._observer.observed.coverage = self._analyzer.coverage
        return self._observer.observed

    def _explained(self, findings: list[Finding]) -> list[Finding]:
        self._observer.explain(findings)
        return findings
