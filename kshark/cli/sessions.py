"""`kshark sessions`: share sessions, one per (broker, group, member) and opening."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator

from msgspec import UNSET

from kshark.analysis import APIS, Analyzer, Listed, ShareSession, sessions_of
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.resting import Packets
from kshark.cli.shown import add_filter, display_filter, filtered
from kshark.cli.source import Source, print_notes, sources
from kshark.model import Exchange
from kshark.output.sessions import session_lines, steps_lines, total_line
from kshark.output.sink import Sink
from kshark.output.spans import folded
from kshark.output.units import number
from kshark.pipeline import Options

EXAMPLES = (
    "kshark sessions trace.pcap",
    "kshark sessions trace.pcap -V",
    "kshark sessions trace.pcap -T json | jq 'select(.rejected != {})'",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_filter(parser, "only sessions with a request or an answer that passes")
    parser.add_argument("-V", dest="verbose", action="store_true", help="a row for every request: its epoch, the one expected, the outcome")


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    for source in sources(args, filtered(Options(records=False, bodies=APIS), args)):
        if args.each and args.format == "text":
            sink.text(f"== {source.title}\n")
        _show(source, args, sink)
        print_notes(source, heading=args.each)
    return 0


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    wanted, passed = display_filter(args), Packets()

    analyzer = Analyzer(sessions=True, steps=args.verbose or wanted is not None)

    def listed() -> Iterator[Listed]:
        for page in source:
            analyzer.page(page)  # findings are `kshark check`'s
            for event in page:
                if wanted is not None and isinstance(event, Exchange) and event.request is not None and wanted.takes(event):
                    passed.add(event.request.packet)
            yield from analyzer.listed()
        analyzer.close()
        yield from analyzer.listed()

    every = sessions_of(listed())
    if left_out := int(analyzer.summary()["sessions"]) - len(every):
        note = f"{number(left_out)} more share sessions are not listed, nor counted below; look at less at a time: --since, --until"
        print(f"kshark: {note}", file=sys.stderr)
    sessions = [session for session in every if session.closed is None or source.tells(session.closed.time_ns)]
    if wanted is not None:
        sessions = list(_of_steps(sessions, passed, shown=args.verbose))
    if args.format == "json":
        sink.json([] if args.quiet else sessions)
        return
    if args.verbose and not args.quiet:
        sink.lines(line for session in sessions for line in steps_lines(session, sink.width))
    elif not args.quiet:
        sink.lines(session_lines(sessions, sink.width))
    sink.lines(folded(total_line(sessions), sink.width, 2))


def _of_steps(sessions: Iterable[ShareSession], passed: Packets, *, shown: bool) -> Iterator[ShareSession]:
    """The sessions with a step that passed; steps that nobody asked for leave again."""
    for session in sessions:
        if session.steps is not UNSET and any(passed.has(step.packet) for step in session.steps):
            session.steps = session.steps if shown else UNSET
            yield session
