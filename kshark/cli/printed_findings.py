"""Print findings: those of a file at its end in packet order, those of a pipe as soon as they are proved."""

from __future__ import annotations

from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from kshark.analysis import PackedFindings
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.headlines import Headlines
from kshark.model import Finding
from kshark.output.catalogue import codes_of_rules
from kshark.output.findings import FindingCounts, Sort, finding_lines, sort_of
from kshark.output.json_findings import explained_by, json_findings
from kshark.output.sink import Sink

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
        self._sorts: set[Sort] = set()

    def print(self, proved: Iterable[Finding], topics: Mapping[str, str]) -> None:
        for finding in proved:
            self._printed += self._prints_all
            if self._source.shows(finding) and sort_of(finding) not in self._sorts:
                self._source.place((finding,))
                show((finding,), self._args, self._sink, topics)
                if not self._prints_all:
                    self._sorts.add(sort_of(finding))

    def rest(self, findings: PackedFindings) -> ShownFindings:
        """Return the findings that were not printed, if all are printed."""
        return ShownFindings(findings, self._source, self._printed)


def rule_codes(given: list[str]) -> set[str]:
    """Return the codes of an option for codes of rules. Raises UsageError for a code that is not in the catalogue."""
    codes = codes_of_rules(given)
    if given and not codes:
        raise UsageError(
            "--select, --ignore and --details accept codes, as in: --select EPOCH_REPLAY,DOUBLE_ACK (kshark explain "
            "lists them)"
        )
    return codes


class Printed(Struct, frozen=True):
    """Findings that were printed: their counts, and their headlines."""

    counts: FindingCounts
    headlines: Headlines

    def add(self, finding: Finding) -> None:
        self.counts.add(finding)
        self.headlines.add(finding)


def collected(
    findings: Iterable[Finding], args: Namespace, sink: Sink, rest: Iterable[Finding] | None = None
) -> Printed:
    """Collect findings for the first screen, and print them if the format is JSON. `rest`: those not printed before.

    `findings` are read more than once.
    """
    printed = Printed(FindingCounts(), Headlines(rule_codes(args.select)))
    every = _adding(printed.add, findings)
    if args.format != "json" or args.quiet:
        deque(every, maxlen=0)
    elif rest is None:
        sink.json(json_findings(every, explained_by(findings)))
    else:
        deque(every, maxlen=0)
        sink.json(json_findings(rest, explained_by(findings)))
    return printed


def print_details(findings: Iterable[Finding], args: Namespace, sink: Sink, topics: Mapping[str, str]) -> None:
    """Print the findings that `-V` or `--details` asks for, below the first screen."""
    if args.format == "json" or args.quiet or not (args.verbose or args.details):
        return
    chosen = details(args)
    sink.lines([[]])
    show((finding for finding in findings if chosen(finding)), args, sink, topics)


def details(args: Namespace) -> Callable[[Finding], bool]:
    """Return the predicate of the findings to print. Raises UsageError for an unknown code of `--details`."""
    if args.format == "json" or args.verbose:
        return lambda _: True
    codes = rule_codes(args.details)
    return lambda finding: finding.code in codes


def _adding(add: Callable[[Finding], object], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each finding after adding it."""
    for finding in findings:
        add(finding)
        yield finding


def show(findings: Iterable[Finding], args: Namespace, sink: Sink, topics: Mapping[str, str] = _NO_NAMES) -> None:
    """Print each finding. `topics`: names by id, for text output; JSON has the ids."""
    if args.format == "json":
        sink.json(json_findings(findings))
    else:
        sink.lines(line for finding in findings for line in finding_lines(finding, sink.width, topics))
