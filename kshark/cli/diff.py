"""`kshark diff`: two captures, before and after a change: what got worse."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Final

from kshark.capture.captures import expand
from kshark.capture.log_lines import LogLines
from kshark.capture.paths import STANDARD_INPUT
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.check import NOTHING_JUDGED, Checking, add_selection, coverage_of, judging, options, selection
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_restrictions
from kshark.cli.printed_findings import ShownFindings
from kshark.cli.shown import add_filter, display_filter, filtered, only_passing
from kshark.cli.source import Source, leave_out, print_notes
from kshark.cli.tls import add_tls_keys
from kshark.diff import Comparison, Counting, Profile, compare, screen, summary_lines, tables
from kshark.errors import UsageError
from kshark.headlines import capture_headlines
from kshark.output.catalogue import judged
from kshark.output.findings import FindingCounts
from kshark.output.sink import Sink
from kshark.units import safe

EXAMPLES = (
    "kshark diff before.pcap after.pcap",
    "kshark diff before/ after/ -V",
    "kshark diff --before old-*.pcap --after new-*.pcap",
    "kshark diff before.pcap after.pcap -T json | jq 'select(.is_worse)'",
    "kshark diff before.pcap after.pcap -Y 'kafka.client_id == billing-3' --threshold 1.5",
)
_TEST: Final = (
    "Captures differ in length: rates are compared, of 1,000 requests or answers of the same API. A difference counts\n"
    "if the factor reaches --threshold, the side with more has 5 occurrences, and the chance of it is below 0.005 if\n"
    "nothing changed: the binomial test of two rates (Chernoff's bound), in which a burst counts as one occurrence.\n"
    "Percentiles are tested by the number of latencies above the mean of both; p50 needs 10 answers in each capture,\n"
    "p99 needs 100, and both a difference of 1 ms. Clients are compared by the name of their software, whatever the\n"
    "version. A rule that one of the captures never put to the test is not comparable (check --coverage shows these).\n"
    "Only broken rules, events, errors, lost answers, latency, throttling, lost share sessions and rebalances can get\n"
    "worse; notes and findings that are not proved are shown apart.\n\n"
    "exit code: 1 if something got worse, 2 if a capture cannot be read, 3 if nothing can be compared, else 0.\n"
)
_LOG_AND_PACKETS: Final = (
    "one is a request log: it has no records and no requests without an answer, and the network is not in its latencies"
)
_THRESHOLD: Final = 2.0
#: What the threshold of a factor must exceed.
_NO_CHANGE: Final = 1.0


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="CAPTURE",
        help="two captures, before and after: a file, a folder (one capture), or -",
    )
    for name in ("before", "after"):
        parser.add_argument(f"--{name}", nargs="+", metavar="FILE", help=f"the files of the capture {name}, several")
    add_format(parser, "text", "json")
    parser.add_argument("-V", dest="verbose", action="store_true", help="also all rows, as tables (text)")
    parser.add_argument(
        "--threshold",
        type=_factor,
        default=_THRESHOLD,
        metavar="FACTOR",
        help="how many times a rate or a latency must grow or shrink to count (2)",
    )
    add_selection(parser)
    add_filter(parser, "compare only messages that pass, and findings based on one (the whole captures are judged)")
    parser.add_argument("--records", action="store_true", help="decode record batches and count their records")
    add_restrictions(parser)
    add_max_request_bytes(parser)
    add_tls_keys(parser)
    add_dissectors(parser)
    parser.add_argument("-n", action="store_true", help="no name resolution: kshark never does any")
    parser.add_argument("-q", dest="quiet", action="store_true", help="only the closing summary, no items")
    parser.epilog = f"{parser.epilog}\n{_TEST}"


def _factor(text: str) -> float:
    """Parse an argument that is a factor above 1."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not _NO_CHANGE < factor < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not a factor above 1; write 2, or 1.5')
    return factor


def run(args: Namespace) -> int:
    selection(args)  # report a wrong option before reading anything
    display_filter(args)
    captures = _captures(args)
    with judging():
        (before, first), (after, second) = (_profile(args, files, number) for number, files in enumerate(captures))
    if (first is None) != (second is None):
        print(f"kshark: {_LOG_AND_PACKETS}", file=sys.stderr)
    comparison = compare(before, after, registry(args), args.threshold)
    _print(comparison, args, Sink(sys.stdout, lambda: second))
    if comparison.why_not:
        return NOTHING_JUDGED
    return 1 if comparison.worse else 0


def _captures(args: Namespace) -> list[list[str]]:
    """Return the files of both captures. Raises UsageError if there are not two."""
    if args.before or args.after:
        if args.files or not (args.before and args.after):
            raise UsageError("--before and --after name all files: kshark diff --before FILE... --after FILE...")
        named = [args.before, args.after]
    else:
        if len(args.files) != len(("before", "after")):
            raise UsageError(
                f"diff compares two captures, and {len(args.files)} are named; write kshark diff BEFORE AFTER, or for "
                f"captures of several files --before FILE... --after FILE..."
            )
        named = [[file] for file in args.files]
    if all(STANDARD_INPUT in files for files in named):
        raise UsageError("only one of the captures can come from standard input (-)")
    return [[str(path) for path in expand(files, partial(leave_out, args))] for files in named]


def _profile(args: Namespace, files: Sequence[str], number: int) -> tuple[Profile, LogLines | None]:
    """Read a capture, and return its profile, and its lines if it is a request log."""
    several = len(files) > 1
    source = Source(files, args, filtered(options(args), args), number=number, progress=True, leaves_out=several, of=2)
    wanted, checking = display_filter(args), Checking(args, named=False, coverage=True)
    counting = Counting(registry(args), source.title)
    connections: set[int] = set()
    for page in source:
        checking.page(page)
        shown = page if wanted is None else only_passing(wanted, page, connections)
        counting.page(filter(source.shows, shown) if args.since is not None else shown)
    checking.close()
    source.has_verdict = True
    counts = FindingCounts()
    for finding in ShownFindings(checking.findings, source):
        counts.add(finding)
        counting.finding(finding)
    source.notes.leave_out(judged(counts.codes))
    print_notes(source, heading=True)
    remarks = [headline.text for headline in capture_headlines(checking.observed, counts)]
    observed = checking.observed
    profile = counting.close(observed, coverage_of(observed, args), remarks, has_keys=bool(args.tls_keys))
    return profile, source.log_lines


def _print(comparison: Comparison, args: Namespace, sink: Sink) -> None:
    if comparison.why_not:
        print(f"kshark: nothing could be compared: {safe(comparison.why_not)}", file=sys.stderr)
    if args.format == "json":
        sink.json([*([] if args.quiet else comparison.rows), comparison.summary()])
    elif not comparison.why_not:
        sink.lines((summary_lines if args.quiet else screen)(comparison, sink.width))
        if args.verbose and not args.quiet:
            sink.lines(tables(comparison, sink.width))
