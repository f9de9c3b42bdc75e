"""`kshark check`: findings of the rule catalogue, then the verdict."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dissectors.topics import NAMING_APIS
from kshark.analysis import APIS, Analyzer, ShareSession, in_packet_order, sessions_of
from kshark.cli.apis import registry
from kshark.cli.parser import Parser, add_captures, add_format, add_jobs, close_to
from kshark.cli.resting import Resting
from kshark.cli.shown import add_filter, filtered
from kshark.cli.source import Source, print_notes, sources
from kshark.errors import UsageError
from kshark.model import Event, Finding, Message
from kshark.names import TopicNames
from kshark.output.catalogue import CODES
from kshark.output.findings import Tally, finding_lines
from kshark.output.sink import Sink
from kshark.pipeline import Options

EXAMPLES = (
    "kshark check trace.pcap",
    "kshark check trace.pcap -T json | tail -1",
    "kshark check captures/ --each -q",
    "kshark check trace.pcap --select EPOCH_SKIP_AHEAD,SESSION_UNKNOWN",
    "kshark check trace.pcap -Y 'kafka.client_id == billing-3'",
    "kshark check trace.pcap --ignore SESSION_NOT_CLOSED || echo 'somebody broke a rule'",
)
EXIT_CODES: Final = "exit code: 1 if a rule was broken (unknowns and notes do not count), 2 if no capture can be read, else 0.\n"

Chosen = Callable[[Finding], bool]
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_selection(parser)
    add_filter(parser, "only findings that rest on a message that passes (the whole capture is judged)")
    add_jobs(parser)
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}"


def add_selection(parser: Parser) -> None:
    """`--select` and `--ignore`."""
    parser.add_argument("--select", action="append", default=[], metavar="CODE,...", help="only findings with these codes")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODE,...", help="no findings with these codes")


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    selection(args)  # what is asked for is right, before anything is read
    violated = False
    bodies = APIS if args.format == "json" else APIS | NAMING_APIS
    for source in sources(args, filtered(Options(records=False, bodies=bodies), args)):
        if args.each and args.format == "text":
            sink.text(f"== {source.name}\n")
        tally = _check(source, args, sink)
        print_notes(source, heading=args.each)
        violated = violated or tally.verdicts["violation"] > 0
    return int(violated)


class Checked(NamedTuple):
    """What a check found in a capture: chosen findings as they were proved, what was seen, names of the topics they are about."""

    findings: list[Finding]
    seen: dict[str, Any]
    topics: dict[str, str]


class Checking:
    """A check of one capture: takes its pages."""

    def __init__(self, args: Namespace, *, named: bool | None = None, sessions: bool = False) -> None:
        self._chosen = selection(args)
        self._analyzer = Analyzer(sessions=sessions)
        self._found: list[Finding] = []
        self._resting = Resting(args)
        self._names = TopicNames(registry(args))
        #: Who names topics, where names are shown: to people, unless told.
        self._naming = NAMING_APIS if (args.format != "json" if named is None else named) else frozenset[int]()

    def page(self, page: list[Event]) -> None:
        self._found += filter(self._chosen, self._analyzer.page(page))
        self._resting.add(page)
        for event in page if self._naming else ():
            if type(event) is Message and event.api_key in self._naming:
                self._names.learn(event)

    def close(self) -> Checked:
        self._found += filter(self._chosen, self._analyzer.close())
        self._found = list(filter(self._resting.shows, self._found))
        known = self._names.known
        topics = {topic_id: known[topic_id] for finding in self._found if (topic_id := finding.topic_id) in known}
        return Checked(self._found, dict(self._analyzer.summary()), topics)

    def sessions(self) -> list[ShareSession]:
        """Those that are over, after `close` all, where they were asked for."""
        return sessions_of(self._analyzer.listed())


def _check(source: Source, args: Namespace, sink: Sink) -> Tally:
    if args.jobs > 1:
        from kshark.cli import pipelined  # multiprocessing, 15 ms

        checked = pipelined.checked(source, args, Checking)
    else:
        checking = Checking(args)
        for page in source:
            checking.page(page)
        checked = checking.close()
    found = in_packet_order(filter(source.shows, checked.findings))
    tally = Tally()
    for finding in found:
        tally.add(finding)
    if not args.quiet:
        show(found, args, sink, checked.topics)
    verdict(tally, checked.seen, args, sink, source.name if args.each else None)
    return tally


def show(findings: Iterable[Finding], args: Namespace, sink: Sink, topics: Mapping[str, str] = _NO_NAMES) -> None:
    """`topics`: names by id, for people; JSON has the ids."""
    if args.format == "json":
        sink.json(list(findings))
    else:
        sink.lines([line for finding in findings for line in finding_lines(finding, sink.width, topics)])


def verdict(tally: Tally, seen: dict[str, Any], args: Namespace, sink: Sink, name: str | None = None) -> None:
    """The last line: what was found in what was seen."""
    if args.format == "json":
        summary = tally.summary(seen)
        if name is not None:
            summary["summary"]["file"] = name
        sink.json([summary])
    else:
        sink.lines(tally.lines(seen, sink.width))


def selection(args: Namespace) -> Chosen:
    """`--select` and `--ignore`. Raises UsageError for a code that is not in the catalogue."""
    select, ignore = _codes(args.select), _codes(args.ignore)
    return lambda finding: (not select or finding.code in select) and finding.code not in ignore


def _codes(given: list[str]) -> set[str]:
    codes = {code.strip().upper() for text in given for code in text.split(",") if code.strip()}
    for code in sorted(codes):
        if code not in CODES:
            raise UsageError(f'no code "{code}"{close_to(code, CODES)} (kshark explain lists them)')
    return codes
