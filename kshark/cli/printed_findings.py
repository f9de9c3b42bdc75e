"""Print findings: those of a file at its end in packet order, those of a pipe as soon as they are proved."""

from __future__ import annotations

from argparse import Namespace
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from kshark.analysis import PackedFindings
from kshark.cli.source import Source
from kshark.model import Finding
from kshark.output.findings import FindingCounts, Sort, alike, finding_lines, sort_of
from kshark.output.sink import Sink
from kshark.output.spans import DIM
from kshark.output.troubles import Troubles
from kshark.output.units import number

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class ShownFindings:
    """Iterable over the findings of a capture that are shown, in packet order, with the files of their packets."""

    def __init__(self, findings: PackedFindings, source: Source, printed: int = 0) -> None:
        """Leave out the first `printed` findings in the order in which they were proved."""
        self._findings = findings
        self._source = source
        self._printed = printed

    def __iter__(self) -> Iterator[Finding]:
        for finding in filter(self._source.shows, self._findings.since(self._printed)):
            self._source.place((finding,))
            yield finding


class EarlyFindings:
    """Print findings of a pipe as soon as they are proved: all of them, or in text the first of each kind."""

    def __init__(self, source: Source, args: Namespace, sink: Sink) -> None:
        self._source = source
        self._args = args
        self._sink = sink
        self._prints_all = args.verbose or args.format == "json"
        #: Number of printed findings if all are printed, else the kinds of which one was printed.
        self._printed = 0
        self.sorts: set[Sort] = set()

    def print(self, proved: Iterable[Finding], topics: Mapping[str, str]) -> None:
        for finding in proved:
            self._printed += self._prints_all
            if self._source.shows(finding) and sort_of(finding) not in self.sorts:
                self._source.place((finding,))
                show((finding,), self._args, self._sink, topics)
                if not self._prints_all:
                    self.sorts.add(sort_of(finding))

    def rest(self, findings: PackedFindings) -> ShownFindings:
        """Return the findings that were not printed, if all are printed."""
        return ShownFindings(findings, self._source, self._printed)


def print_findings(
    findings: Iterable[Finding],
    args: Namespace,
    sink: Sink,
    topics: Mapping[str, str],
    rest: Iterable[Finding] | None = None,
    printed: Container[Sort] = (),
) -> FindingCounts:
    """Print findings and return their tally.

    Text has the clients in trouble, then one example of each kind or all findings; JSON has every finding. `findings`
    may be iterated twice. `rest`: findings that were not printed before. `printed`: kinds of which one was printed
    before.
    """
    tally, troubles = FindingCounts(), Troubles()
    counted = _adding(tally.add, findings)
    if args.format == "json" and not args.quiet and rest is None:
        show(counted, args, sink)
        return tally
    if args.format == "json" or args.quiet:
        deque(counted, maxlen=0)
        show(() if args.quiet or rest is None else rest, args, sink)
        return tally
    sorts = alike(_adding(troubles.add, counted))
    sink.lines(troubles.lines(sink.width))
    if args.verbose:
        show(findings if rest is None else rest, args, sink, topics)
        return tally
    fresh = (kind for kind in sorts if sort_of(kind.first) not in printed)
    lines = (finding_lines(kind.first, sink.width, topics, kind) for kind in fresh)
    sink.lines(chain.from_iterable(lines))
    if len(sorts) < (count := tally.verdicts.total()):
        sink.lines([[(f"-V shows all {number(count)} findings", DIM)]])
    return tally


def _adding(add: Callable[[Finding], object], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each finding after adding it."""
    for finding in findings:
        add(finding)
        yield finding


def show(findings: Iterable[Finding], args: Namespace, sink: Sink, topics: Mapping[str, str] = _NO_NAMES) -> None:
    """Print each finding. `topics`: names by id, for text output; JSON has the ids."""
    if args.format == "json":
        sink.json(findings)
    else:
        sink.lines(line for finding in findings for line in finding_lines(finding, sink.width, topics))
