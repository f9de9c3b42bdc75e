"""`kshark check`: findings of the rule catalogue, then the verdict."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Any

from kshark.analysis import APIS, Analyzer, in_packet_order
from kshark.anomaly import CATALOGUE
from kshark.cli.parser import Parser, add_captures, add_format, add_jobs, close_to
from kshark.cli.source import Source, print_notes, sources
from kshark.errors import UsageError
from kshark.model import Finding
from kshark.output.findings import Tally, finding_lines
from kshark.output.sink import Sink
from kshark.pipeline import Options

EXAMPLES = (
    "kshark check trace.pcap",
    "kshark check trace.pcap -T json | tail -1",
    "kshark check captures/ --each -q",
    "kshark check trace.pcap --select EPOCH_SKIP_AHEAD,SESSION_UNKNOWN",
    "kshark check trace.pcap --ignore SESSION_NOT_CLOSED || echo 'somebody broke a rule'",
)

Chosen = Callable[[Finding], bool]


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_selection(parser)
    add_jobs(parser)
    parser.epilog = (
        f"{parser.epilog}\nexit code: 1 if a rule was broken (unknowns and notes do not count), 2 if no capture can be read, else 0.\n"
    )


def add_selection(parser: Parser) -> None:
    """`--select` and `--ignore`."""
    parser.add_argument("--select", action="append", default=[], metavar="CODE,...", help="only findings with these codes")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODE,...", help="no findings with these codes")


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    chosen = selection(args)
    violated = False
    for source in sources(args, Options(records=False, bodies=APIS)):
        if args.each and args.format == "text":
            sink.text(f"== {source.name}\n")
        tally = _check(source, args, chosen, sink)
        print_notes(source, heading=args.each)
        violated = violated or tally.verdicts["violation"] > 0
    return int(violated)


def _check(source: Source, args: Namespace, chosen: Chosen, sink: Sink) -> Tally:
    if args.jobs > 1:
        from kshark.cli.relayed import analysed  # multiprocessing, 15 ms

        found, seen = analysed(source, args)
    else:
        analyzer = Analyzer()
        found = [finding for page in source for finding in analyzer.page(page) if chosen(finding)]
        found += filter(chosen, analyzer.close())
        seen = dict(analyzer.summary())
    found = in_packet_order(filter(source.shows, found))
    tally = Tally()
    for finding in found:
        tally.add(finding)
    if not args.quiet:
        show(found, args, sink)
    verdict(tally, seen, args, sink, source.name if args.each else None)
    return tally


def show(findings: Iterable[Finding], args: Namespace, sink: Sink) -> None:
    if args.format == "json":
        sink.json(list(findings))
    else:
        sink.lines([line for finding in findings for line in finding_lines(finding, sink.width)])


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
        if code not in CATALOGUE:
            raise UsageError(f'no code "{code}"{close_to(code, CATALOGUE)} (kshark explain lists them)')
    return codes
