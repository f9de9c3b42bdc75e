"""`kshark stats`: what a capture holds, counted."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from kshark.analysis.statistics import Statistics
from kshark.api_keys import API_VERSIONS
from kshark.cli.apis import registry
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.shown import add_filter, display_filter, filtered, only_passing
from kshark.cli.source import print_notes, sources
from kshark.output.sink import Sink
from kshark.output.statistics import print_statistics
from kshark.pipeline import Options

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter

EXAMPLES = (
    "kshark stats trace.pcap",
    "kshark stats trace.pcap -T json | jq '.share_groups'",
    "kshark stats trace.pcap --since +60s --until +120s",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_filter(parser, "count only messages that pass, exchanges with one, and their connections")


def _options(wanted: Filter | None) -> Options:
    """Bodies of exchanges that are counted, and those that name the clients' software."""
    return Options(records=False, bodies=None if wanted is None else wanted.apis | {API_VERSIONS})


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    wanted = display_filter(args)
    for source in sources(args, filtered(_options(wanted), args)):
        statistics = Statistics(registry(args))
        connections: set[int] = set()
        for page in source:
            for event in filter(source.shows, page if wanted is None else only_passing(wanted, page, connections)):
                statistics.feed(event)
        found = statistics.summary()
        if args.format == "json":
            sink.json([{"file": source.name, **found} if args.each else found])
        else:
            if args.each:
                sink.text(f"== {source.name}\n")
            print_statistics(found, source.packets, sink)
        print_notes(source, heading=args.each)
    return 0
