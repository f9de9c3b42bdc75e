"""`kshark groups`: groups of all types, their members and coordinators, and administration requests."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from kshark.api_keys import API_VERSIONS
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.shown import add_filter, display_filter, filtered
from kshark.cli.source import Source
from kshark.groups import APIS, OFFSET_APIS, GroupKey, Groups
from kshark.model import Exchange
from kshark.output.groups import group_lines, total_line
from kshark.output.sink import Sink
from kshark.output.spans import folded
from kshark.pipeline import Options
from kshark_dissectors.topics import NAMING_APIS

EXAMPLES = (
    "kshark groups trace.pcap",
    "kshark groups trace.pcap -V --until +30s",
    "kshark groups trace.pcap -T json | jq '.operations[] | select(.outcome != \"done\")'",
    "kshark groups trace.pcap --rebalances",
    "kshark groups trace.pcap -T json | jq '.members[] | select(.ended.how == \"fenced\")'",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_filter(parser, "only groups named in a request or response that passes the filter")
    parser.add_argument(
        "--rebalances",
        action="store_true",
        help="every rebalance: who caused it, how long it took and partitions stood still, and for whom it waited",
    )
    parser.add_argument(
        "-V",
        dest="verbose",
        action="store_true",
        help="every change of each group: state, epochs, members; and requests that described it",
    )


def run(args: Namespace) -> int:
    read = Options(records=False, bodies=APIS | OFFSET_APIS | NAMING_APIS | {API_VERSIONS}, embedded=True)
    # Headers of batches show how many offsets a Produce takes, and with that the ends of partitions. Records of the
    # coordinators' logs stand beside the operations that wrote them.
    opened = replace(filtered(read, args), records=args.verbose or "headers", payload=args.verbose)
    for _ in each(args, opened, _show, stops=True):
        pass
    return 0


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    names = {} if source.names is None else source.names.by_id
    groups, wanted, passed = Groups(names), display_filter(args), set[GroupKey]()
    for page in source:
        for event in page:
            changed = groups.feed(event)
            if changed and wanted is not None and isinstance(event, Exchange) and wanted.takes(event):
                passed.update(changed)
    groups.close()
    listed = groups.listed(names, None if wanted is None else passed, rebalances=args.rebalances)
    if args.format == "json":
        sink.json([] if args.quiet else listed)
        return
    if not args.quiet:
        several = len({group.cluster_id for group in listed}) > 1
        for group in listed:
            sink.lines(group_lines(group, sink.width, verbose=args.verbose, clusters=several))
    sink.lines(folded(total_line(listed, groups.left_out), sink.width, 2))
