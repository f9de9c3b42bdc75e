"""`kshark events`: the timeline of a capture."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kshark.cli.apis import registry
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format, close_to
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.output.sink import Sink
from kshark.output.spans import API, CODE, DIM, ERROR, PLAIN, VALUE, WARN, Line, folded
from kshark.pipeline import JUDGED
from kshark.timeline import KINDS, Entry, Timeline
from kshark.units import clock, counted, duration, number, safe

EXAMPLES = (
    "kshark events trace.pcap",
    "kshark events trace.pcap --kind event,leader,coordinator",
    "kshark events trace.pcap -T json | jq 'select(.code == \"BROKER_SILENT\")'",
)
_TIME: Final = 14
_STYLES: Final = {"event": VALUE, "capture": WARN, "session": VALUE}


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND,...",
        help=f"only entries of these kinds: {', '.join(KINDS)}",
    )


def run(args: Namespace) -> int:
    _kinds(args)  # report a wrong option before reading anything
    for _ in each(args, replace(JUDGED, embedded=True), _show):
        pass
    return 0


def _kinds(args: Namespace) -> set[str]:
    """Return the kinds of `--kind`; all by default. Raises UsageError for an unknown one."""
    kinds = {kind.strip() for text in args.kind for kind in text.split(",") if kind.strip()}
    for kind in sorted(kinds - {*KINDS}):
        raise UsageError(f'no kind "{kind}"{close_to(kind, KINDS)} (accepted: {", ".join(KINDS)})')
    return kinds or {*KINDS}


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    timeline = Timeline(registry(args))
    for page in source:
        timeline.page(page)
    kinds = _kinds(args)
    entries = [entry for entry in timeline.close() if entry.kind in kinds and source.includes_time(entry.time_ns)]
    if timeline.left_out:
        note = f"{number(timeline.left_out)} more entries are not listed; select a shorter period: --since, --until"
        print(f"kshark: {note}", file=sys.stderr)
    if args.format == "json":
        sink.json(() if args.quiet else entries)
        return
    if not args.quiet:
        for entry in entries:
            sink.lines(entry_lines(entry, sink.width))
    sink.lines(folded(total_line(entries), sink.width, 2))


def entry_lines(entry: Entry, width: int | None) -> Iterator[Line]:
    """Return the lines of an entry: time, kind, text, duration."""
    line: Line = [
        (f"{clock(entry.time_ns, 3)}  ", DIM),
        (f"{entry.kind:<{_TIME}}  ", API),
        (safe(entry.text), _STYLES.get(entry.kind, PLAIN)),
    ]
    if entry.code is not None:
        line.append((f"  {entry.code}", ERROR if entry.verdict == "violation" else CODE))
    if entry.verdict == "unknown":
        line.append((" (not proved)", WARN))
    if entry.count > 1:
        line.append((f", {number(entry.count)} times", PLAIN))
    if entry.until_ns is not None and entry.until_ns > entry.time_ns:
        line.append((f", {duration(entry.until_ns - entry.time_ns)}", DIM))
    if not entry.about:
        line.append((f" · packet {entry.packet}", DIM))
    yield from folded(line, width, _TIME + 16)


def total_line(entries: Sequence[Entry]) -> Line:
    """Return `12 entries: 3 event, 4 leader, 5 member`."""
    kinds = Counter(entry.kind for entry in entries)
    by_kind = ", ".join(f"{number(kinds[kind])} {kind}" for kind in KINDS if kinds[kind])
    return [(counted(len(entries), "entry", "entries"), API), (f": {by_kind}" if by_kind else "", PLAIN)]
