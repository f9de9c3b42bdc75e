"""`kshark read`: every message."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from kshark.cli.apis import registry
from kshark.cli.parser import Parser, add_captures, add_format, add_jobs, add_payload, count
from kshark.cli.source import Source, print_notes, sources
from kshark.errors import UsageError
from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.fields import COMMON, Fields, fields_lines, opens
from kshark.output.lines import MessageLines
from kshark.output.sink import Sink
from kshark.output.tree import Trees
from kshark.pipeline import Options

EXAMPLES = (
    "kshark read trace.pcap",
    "kshark read trace.pcap -V -c 1",
    "kshark read trace.pcap -T json --no-payload | jq .body",
    "kshark read trace.pcap -T fields -e frame.number -e kafka.api -e kafka.error_code",
    "kshark read trace.pcap --since +10s --until +20s",
    "kshark read -r monday.pcap -r tuesday.pcap -d tcp.port==9095,kafka",
)

Print = Callable[[Sequence[Message]], None]


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json", "fields")
    parser.add_argument("-V", dest="verbose", action="store_true", help="every field of every message, as a tree")
    parser.add_argument(
        "-e", dest="fields", action="append", default=[], metavar="FIELD", help="print this field (repeatable, with -T fields)"
    )
    parser.add_argument("-c", dest="count", type=count, metavar="N", help="stop after N messages")
    add_payload(parser)
    add_jobs(parser)


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    printer = printing(args, sink)
    for source in sources(args, options(args), printing=True):
        if args.each and args.format == "text" and not args.quiet:
            sink.text(f"== {source.name}\n")
        if args.jobs > 1 and args.count is None:  # -c stops in the middle of what others would be doing
            _print_of_many(source, args, sink)
        else:
            _print(source, args, printer(source.names))
        print_notes(source, heading=args.each)
    return 0


def options(args: Namespace) -> Options:
    """What has to be read: of `-T fields` with common fields only, no body at all."""
    named = [name for name in args.fields if name not in COMMON]
    if args.quiet or args.format == "fields":
        records = args.records and not args.quiet and any("records" in name or "batches" in name for name in named)
        bodies = None if named and not args.quiet else frozenset[int]()
        return Options(records=records, payload=args.payload, bodies=bodies, embedded=bodies is None and opens(named))
    return Options(records=args.records, payload=args.payload, embedded=True)


def _print(source: Source, args: Namespace, write: Print) -> None:
    left = args.count
    for page in source:
        messages = [event for event in page if isinstance(event, Message)]
        if args.since:
            messages = list(filter(source.shows, messages))
        if args.each:
            for message in messages:
                message.file = source.name
        if left is not None:
            messages = messages[:left]
            left -= len(messages)
        if messages and not args.quiet:
            write(messages)
        if left == 0:
            return


def _print_of_many(source: Source, args: Namespace, sink: Sink) -> None:
    from kshark.cli.jobs import printed  # multiprocessing, 15 ms

    with closing(printed(source, args, sink)) as batches:
        for data in batches:
            sink.bytes(data)


def printing(args: Namespace, sink: Sink, lines: MessageLines | None = None) -> Callable[[TopicNames | None], Print]:
    """How messages are printed, by `-T`, `-V`, `-e`; each capture has topic names of its own. `lines`: they are made already."""
    if args.fields and args.format != "fields":
        raise UsageError("-e needs -T fields")
    known = registry(args)
    match args.format:
        case "json":
            return lambda names: sink.json
        case "fields":
            if not args.fields:
                raise UsageError("-T fields needs -e FIELD; kshark explain fields lists them")
            fields = Fields(known)
            text_of = fields_lines([fields.find(name) for name in args.fields])
            return lambda names: lambda messages: sink.text(text_of(messages))
        case _ if args.verbose:
            return lambda names: partial(_trees, sink, Trees(known, names))
        case _:
            return lambda names: partial(_lines, sink, lines or MessageLines(known, sink.width, names))


def _trees(sink: Sink, trees: Trees, messages: Sequence[Message]) -> None:
    sink.lines([line for message in messages for line in trees.of(message)])


def _lines(sink: Sink, lines: MessageLines, messages: Sequence[Message]) -> None:
    if sink.bare:
        sink.text(lines.text(messages))
    else:
        sink.lines([lines.of(message) for message in messages], crop=True)
