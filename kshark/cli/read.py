"""`kshark read`: every message."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kshark.attributes import ATTRIBUTES, Attribute, Values
from kshark.cli.apis import registry
from kshark.cli.each import captures_of, each
from kshark.cli.parser import Parser, add_captures, add_format, add_payload, count
from kshark.cli.segments import print_batches, segments_of
from kshark.cli.shown import add_filter, display_filter, fields, filtered, with_needs
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.sink import Sink
from kshark.pipeline import Options
from kshark_dissectors.topics import NAMING_APIS

if TYPE_CHECKING:
    from kshark.output.lines import MessageLines
    from kshark.output.tree import Trees

EXAMPLES = (
    "kshark read trace.pcap",
    "kshark read trace.pcap -V -c 1",
    "kshark read trace.pcap -T json --no-payload | jq .body",
    "kshark read trace.pcap -T fields -e frame.number -e kafka.api -e kafka.error_code",
    "kshark read trace.pcap -Y 'kafka.error_code == INVALID_SHARE_SESSION_EPOCH'",
    "kshark read trace.pcap --since +10s --until +20s",
    "kshark read trace.pcap -Y 'kafka.client_id == billing-3' -w billing-3.pcapng",
    "kshark read -r monday.pcap -r tuesday.pcap -d tcp.port==9095,kafka",
    "kshark read __consumer_offsets-12/00000000000000000000.log",
)

Print = Callable[[Sequence[Message]], None]


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json", "fields")
    parser.add_argument(
        "-V",
        dest="verbose",
        action="store_true",
        help="every field of every message, as a tree (metrics in PushTelemetry with kshark[otlp] installed)",
    )
    parser.add_argument(
        "-e",
        dest="fields",
        action="append",
        default=[],
        metavar="FIELD",
        help="print this field (repeatable, with -T fields)",
    )
    add_filter(parser, "only messages that pass the filter")
    parser.add_argument("-c", dest="count", type=count, metavar="N", help="stop after N messages")
    parser.add_argument(
        "-w",
        dest="output",
        metavar="FILE",
        help="write the packets of these messages, with their answers or requests, as pcapng; - for standard output",
    )
    add_payload(parser)


def run(args: Namespace) -> int:
    if (segments := segments_of(args)) is not None:
        return print_batches(segments, args)
    if args.output is not None:
        return _write(args)
    printing(args, Sink(sys.stdout))  # report a wrong option before reading anything
    for _ in each(args, options(args), _print, printing=True, headings=not args.quiet):
        pass
    return 0


def _write(args: Namespace) -> int:
    from kshark.cli.writing import need_writable, write_messages  # only needed with -w

    display_filter(args)  # report a wrong option before reading anything
    captures = captures_of(args)
    need_writable(args, captures)
    for _ in each(args, options(args), write_messages, captures=captures):
        pass
    return 0


def options(args: Namespace) -> Options:
    """Return the pipeline options.

    Bodies are not decoded if the message cannot pass the filter, or if only header fields are used.
    """
    wanted = display_filter(args)
    shown = None if wanted is None else wanted.apis
    if args.output is None and not args.quiet and args.format != "fields":
        read = Options(
            payload=args.payload,
            secrets=args.secrets,
            bodies=None if shown is None else shown | NAMING_APIS,
            embedded=True,
        )
    else:
        read = Options(records=False, payload=args.payload, secrets=args.secrets, bodies=frozenset())
        if args.output is None and not args.quiet and not _are_attributes(args.fields):
            needs = fields(args).needs(args.fields)
            read = with_needs(read, needs if shown is None else needs._replace(bodies=needs.bodies & shown))
    read = filtered(read, args)
    return replace(read, knows=False, records=read.records if args.records else False)


def _print(source: Source, args: Namespace, sink: Sink) -> None:
    left, wanted, write = args.count, display_filter(args), printing(args, sink)(source.names)
    for page in source:
        messages = [event for event in page if type(event) is Message]
        if args.since:
            messages = list(filter(source.shows, messages))
        if wanted is not None:
            messages = wanted.passing(messages)
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
        del page, messages  # their memory is used again by the next page


def printing(args: Namespace, sink: Sink) -> Callable[[TopicNames | None], Print]:
    """Return a function that makes a printer from a capture's topic names, as `-T`, `-V` and `-e` say."""
    if args.fields and args.format != "fields":
        raise UsageError("-e needs -T fields")
    apis = registry(args)
    match args.format:
        case "json":
            return lambda names: sink.json
        case "fields":
            if not args.fields:
                raise UsageError("-T fields needs -e FIELD; kshark explain fields lists them")
            from kshark.output.fields import fields_lines  # only needed here

            text_of = fields_lines(_readers(args))
            return lambda names: lambda messages: sink.text(text_of(messages))
        case _ if args.verbose:
            from kshark.output.tree import Trees

            return lambda names: partial(_trees, sink, Trees(apis, names))
        case _:
            from kshark.output.lines import MessageLines

            return lambda names: partial(_lines, sink, MessageLines(apis, sink.width, names))


def _are_attributes(names: Sequence[str]) -> bool:
    return ATTRIBUTES.keys() >= {*names}


def _readers(args: Namespace) -> list[Values]:
    if _are_attributes(args.fields):
        return [Attribute(ATTRIBUTES[name]) for name in args.fields]
    return [fields(args).reader(name) for name in args.fields]


def _trees(sink: Sink, trees: Trees, messages: Sequence[Message]) -> None:
    sink.lines([line for message in messages for line in trees.of(message)])


def _lines(sink: Sink, lines: MessageLines, messages: Sequence[Message]) -> None:
    if sink.bare:
        sink.text(lines.text(messages))
    else:
        sink.lines([lines.of(message) for message in messages], crop=True)
