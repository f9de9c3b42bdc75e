"""`kshark report`: the findings and what they stand among, as a page for people, as JSON and as Parquet."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.analysis import in_packet_order
from kshark.cli.apis import registry
from kshark.cli.check import EXIT_CODES, Checking, add_selection, selection, verdict
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.shown import add_filter, filtered
from kshark.cli.source import Source, print_notes, sources
from kshark.errors import UsageError
from kshark.output.findings import Tally
from kshark.output.sink import Sink
from kshark.pipeline import Options
from kshark.report.collected import Collected
from kshark.report.collector import Collector
from kshark.report.summing import Origin, summed
from kshark.tables.captures import capture_names

if TYPE_CHECKING:
    from kshark.output.parquet_findings import FindingsFile

EXAMPLES: Final = (
    "kshark report trace.pcap -o report",
    "kshark report captures/ --each -o report",
    "kshark report trace.pcap -o report --since 14:03 --until 14:20 --ignore SESSION_NOT_CLOSED",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    parser.add_argument("-o", dest="folder", metavar="DIR", help="the folder of the report; an earlier report in it is replaced")
    add_format(parser, "text", "json")
    add_selection(parser)
    add_filter(parser, "only findings that rest on a message that passes (the whole capture is judged and counted)")
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}"


def run(args: Namespace) -> int:
    if args.folder is None:
        raise UsageError("no folder given for the report; name one with -o DIR")
    selection(args)  # what is asked for is right, before anything is read
    from kshark.report.folder import DATA, FINDINGS, PAGE, prepare, write
    from kshark.report.page import html  # its packages are asked for before anything is read, too

    try:
        from kshark.output.parquet_findings import FindingsFile
    except ImportError:
        raise UsageError("a report needs pyarrow: pip install 'kshark[report]'") from None
    from kshark.report.facts import to_json

    captures = list(sources(args, filtered(Options(records=False), args)))
    folder = Path(args.folder)
    prepare(folder)
    sink, tallies, counts, origins = Sink(sys.stdout), [], Collected(), []
    findings = FindingsFile(folder / FINDINGS)
    for name, source in zip(capture_names([source.files for source in captures]), captures, strict=True):
        collected, origin, tally = _collected(name, source, args, findings, sink)
        counts += collected
        origins.append(origin)
        tallies.append(tally)
    findings.close()
    report = summed(counts, origins, registry(args))
    write(folder / DATA, to_json(report))
    write(folder / PAGE, html(report).encode("utf-8", "backslashreplace"))
    if not args.quiet:
        print(f"kshark: {folder / PAGE}, {DATA} and {FINDINGS}", file=sys.stderr)
    return int(any(tally.verdicts["violation"] for tally in tallies))


def _collected(name: str, source: Source, args: Namespace, file: FindingsFile, sink: Sink) -> tuple[Collected, Origin, Tally]:
    """Counts one capture, writes its findings and prints its verdict."""
    checking, collector = Checking(args, named=True, sessions=True), Collector(name, registry(args))
    file.begin(name)
    for page in source:
        checking.page(page)
        collector.page(filter(source.shows, page))
        file.page(page)
    checked = checking.close()
    found = in_packet_order(filter(source.shows, checked.findings))
    tally = Tally()
    for finding in found:
        tally.add(finding)
        collector.finding(finding)
    for session in checking.sessions():
        if session.closed is None or source.tells(session.closed.time_ns):
            collector.session(session)
    file.findings(found)
    if args.each and args.format == "text":
        sink.text(f"== {source.name}\n")
    verdict(tally, checked.seen, args, sink, source.name if args.each else None)
    print_notes(source, heading=args.each)
    return collector.close(), Origin(name, source.files, source.locate, checked.topics), tally
