"""`kshark sessions`: share sessions, one for each opening by a member of a group at a broker."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator

from kshark.analysis import APIS, Analyzer, PackedSessions, ShareSession
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.resting import Packets
from kshark.cli.shown import add_filter, display_filter, filtered
from kshark.cli.source import Source
from kshark.model import Exchange
from kshark.output.sessions import session_lines, steps_lines, total_line
from kshark.output.sink import Sink
from kshark.output.spans import folded
from kshark.pipeline import Options
from kshark.units import number

EXAMPLES = (
    "kshark sessions trace.pcap",
    "kshark sessions trace.pcap -V",
    "kshark sessions trace.pcap -T json | jq 'select(.rejected != {})'",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_filter(parser, "only sessions with a request or response that passes the filter")
    parser.add_argument(
        "-V",
        dest="verbose",
        action="store_true",
        help="a row for every request: its epoch, the expected epoch, the outcome",
    )


def run(args: Namespace) -> int:
    for _ in each(args, filtered(Options(records=False, bodies=APIS), args), _show, stops=True):
        pass
    return 0


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    wanted, passed, every = display_filter(args), Packets(), PackedSessions()
    analyzer = Analyzer(sessions=True, steps=args.verbose or wanted is not None)
    for page in source:
        analyzer.page(page)  # findings are `kshark check`'s
        for event in page:
            if wanted is not None and isinstance(event, Exchange) and event.request is not None and wanted.takes(event):
                passed.add(event.request.packet)
        every.add(analyzer.listed())
    analyzer.close()
    every.add(analyzer.listed())
    if left_out := int(analyzer.summary()["sessions"]) - len(every):
        note = (
            f"{number(left_out)} more share sessions are neither listed nor counted below; select a shorter period: "
            f"--since, --until"
        )
        print(f"kshark: {note}", file=sys.stderr)
    sessions = ShownSessions(every, source, None if wanted is None else passed, steps=args.verbose)
    if args.format == "json":
        sink.json(() if args.quiet else sessions)
        return
    if args.verbose and not args.quiet:
        sink.lines(line for session in sessions for line in steps_lines(session, sink.width))
    elif not args.quiet:
        sink.lines(session_lines(sessions, sink.width))
    sink.lines(folded(total_line(sessions), sink.width, 2))


class ShownSessions:
    """The sessions of a period; with a filter, those with a step in `passed`. Steps are removed unless requested."""

    def __init__(self, every: PackedSessions, source: Source, passed: Packets | None, *, steps: bool) -> None:
        self._every = every
        self._source = source
        self._passed = passed
        self._steps = steps

    def __iter__(self) -> Iterator[ShareSession]:
        for session in self._every:
            if session.closed is not None and not self._source.includes_time(session.closed.time_ns):
                continue
            if self._passed is not None:
                if session.steps is None or not any(self._passed.has(step.packet) for step in session.steps):
                    continue
                session.steps = session.steps if self._steps else None
            yield session
