"""How findings are told: those of a file when all are known, in the order of packets; those of a pipe when they are
proved."""

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


class Shown:
    """What of a capture's findings is shown, each time anew: in the order of packets, with the files that they are
    in."""

    def __init__(self, found: PackedFindings, source: Source, taken: int = 0) -> None:
        """`taken`: without so many that were proved first."""
        self._found = found
        self._source = source
        self._taken = taken

    def __iter__(self) -> Iterator[Finding]:
        for finding in filter(self._source.shows, self._found.since(self._taken)):
            self._source.place((finding,))
            yield finding


class Early:
    """Of a pipe, whose end may be far, findings are told when they are proved: each, or for people the first of each
    sort."""

    def __init__(self, source: Source, args: Namespace, sink: Sink) -> None:
        self._source = source
        self._args = args
        self._sink = sink
        self._each = args.verbose or args.format == "json"
        #: How many were told, where each is; of which sorts, where not.
        self._taken = 0
        self.sorts: set[Sort] = set()

    def tell(self, proved: Iterable[Finding], topics: Mapping[str, str]) -> None:
        for finding in proved:
            self._taken += self._each
            if self._source.shows(finding) and sort_of(finding) not in self.sorts:
                self._source.place((finding,))
                show((finding,), self._args, self._sink, topics)
                if not self._each:
                    self.sorts.add(sort_of(finding))

    def rest(self, found: PackedFindings) -> Shown:
        """Those that were not told, where each is."""
        return Shown(found, self._source, self._taken)


def tell(
    findings: Iterable[Finding],
    args: Namespace,
    sink: Sink,
    topics: Mapping[str, str],
    rest: Iterable[Finding] | None = None,
    told: Container[Sort] = (),
) -> FindingCounts:
    """For people who is in trouble, then what was found, one example of each sort or all of it; JSON has every finding.
    Gives their tally.

    `findings` may be gone through twice. `rest`: those that were not told before, of `told` sorts one was.
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
    lines = (finding_lines(one.first, sink.width, topics, one) for one in sorts if sort_of(one.first) not in told)
    sink.lines(chain.from_iterable(lines))
    if len(sorts) < (count := tally.verdicts.total()):
        sink.lines([[(f"-V shows all {number(count)} findings", DIM)]])
    return tally


def _adding(add: Callable[[Finding], object], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each of them, when it was added."""
    for finding in findings:
        add(finding)
        yield finding


def show(findings: Iterable[Finding], args: Namespace, sink: Sink, topics: Mapping[str, str] = _NO_NAMES) -> None:
    """Each finding. `topics`: names by id, for people; JSON has the ids."""
    if args.format == "json":
        sink.json(findings)
    else:
        sink.lines(line for finding in findings for line in finding_lines(finding, sink.width, topics))
