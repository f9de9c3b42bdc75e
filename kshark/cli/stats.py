"""`kshark stats`: what a capture holds, counted."""

from __future__ import annotations

import sys
from argparse import Namespace

from kshark.analysis.statistics import Statistics
from kshark.cli.apis import registry
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.source import print_notes, sources
from kshark.output.sink import Sink
from kshark.output.statistics import print_statistics
from kshark.pipeline import Options

EXAMPLES = (
    "kshark stats trace.pcap",
    "kshark stats trace.pcap -T json | jq '.share_groups'",
    "kshark stats trace.pcap --since +60s --until +120s",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    for source in sources(args, Options(records=False)):
        statistics = Statistics(registry(args))
        for page in source:
            for event in filter(source.shows, page):
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
