"""`kshark stats`: counts of what a capture contains."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from kshark.analysis.results.statistics import Statistics
from kshark.api_keys import API_VERSIONS
from kshark.cli.apis import registry
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.shown import add_filter, display_filter, filtered, only_passing
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.flows import FlowCounting
from kshark.metrics import APIS, ListedMetrics, ShareCounting, listed
from kshark.model import Event, Exchange
from kshark.names import TopicNames
from kshark.output.flows import flow_lines
from kshark.output.metrics import metric_lines
from kshark.output.sink import Sink
from kshark.output.statistics import print_statistics
from kshark.pipeline import Options

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter

EXAMPLES = (
    "kshark stats trace.pcap",
    "kshark stats trace.pcap -T json | jq '.share_groups'",
    "kshark stats trace.pcap --since +60s --until +120s",
    "kshark stats trace.pcap --flows",
    "kshark stats trace.pcap --share",
    "kshark stats trace.pcap --share -T json | jq '.groups[].members[] | select(.trouble)'",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    add_filter(parser, "count only messages that pass the filter, their exchanges, and their connections")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--flows",
        action="store_true",
        help="statistics of connections: use of every byte, retransmissions, round trips, and signs of network trouble",
    )
    parser.add_argument(
        "-V", dest="verbose", action="store_true", help="with --flows: all connections, a row for each direction"
    )
    shown.add_argument(
        "--share",
        action="store_true",
        help="statistics of share groups: metrics of KIP-932 by group, member and partition; members without records",
    )


def _options(args: Namespace, wanted: Filter | None) -> Options:
    """Return the pipeline options: bodies of counted exchanges, and those that name the client software."""
    if args.share:
        return Options(records=False, bodies=APIS)
    if args.flows:
        return Options(records=False, bodies=frozenset(), transport=True)
    return Options(records=False, bodies=None if wanted is None else wanted.apis | {API_VERSIONS})


def run(args: Namespace) -> int:
    if args.verbose and not args.flows:
        raise UsageError("-V shows both directions of connections; write stats --flows -V")
    show = _share if args.share else _flows if args.flows else _all
    for _ in each(args, filtered(_options(args, display_filter(args)), args), show, stops=True):
        pass
    return 0


def _all(source: Source, args: Namespace, sink: Sink) -> None:
    wanted = display_filter(args)
    statistics = Statistics(registry(args))
    connections: set[int] = set()
    for page in source:
        for event in filter(source.shows, page if wanted is None else only_passing(wanted, page, connections)):
            statistics.feed(event)
    summary = statistics.summary()
    if args.format == "json":
        sink.json([{"file": source.name, **summary} if args.each else summary])
    else:
        print_statistics(summary, source.packets, sink)


class _ShareCounting:
    """Count share groups from the pages of one capture.

    Sessions and records in flight are tracked over the whole capture. The filter and the period only limit what is
    counted.
    """

    def __init__(self, args: Namespace, source: Source) -> None:
        """Count events in the period of `source`."""
        self._wanted, self._source = display_filter(args), source
        self._names = TopicNames(registry(args))
        self._counting = ShareCounting(self._names, self._counts)

    def page(self, page: list[Event]) -> None:
        self._counting.page(page)

    def close(self) -> ListedMetrics:
        return listed(self._counting.close(), self._names.by_id)

    def _counts(self, event: Event | int) -> bool:
        if isinstance(event, int):
            return self._source.includes_time(event)
        passes = self._wanted is None or not isinstance(event, Exchange) or self._wanted.takes(event)
        return passes and self._source.shows(event)


def _share(source: Source, args: Namespace, sink: Sink) -> None:
    counting = _ShareCounting(args, source)
    for page in source:
        counting.page(page)
    metrics = counting.close()
    if args.format == "json":
        sink.json([{"file": source.name, **asdict(metrics)} if args.each else metrics])
    else:
        sink.lines(metric_lines(metrics, sink.width))


def _flows(source: Source, args: Namespace, sink: Sink) -> None:
    """Print whole connections with an event after `--since`; with a filter, those with an exchange that passes."""
    wanted, counting, chosen = display_filter(args), FlowCounting(), set[int]()

    def counted() -> Iterator[list[Event]]:
        for batch in source.framed():
            counting.batch(batch)
            yield batch

    for page in source.pages(counted()):
        for event in page:
            if isinstance(event, Exchange) and source.shows(event) and (wanted is None or wanted.takes(event)):
                counting.exchange(event)
                chosen.add(event.flow.id)
    flows, summary = counting.close(source.begin_ns, None if wanted is None else chosen)
    listed = [] if args.quiet else flows
    if args.format == "json":
        named = {"file": source.name} if args.each else {}
        sink.json([{**named, **asdict(flow)} for flow in listed] if named else listed)
        sink.json([{**named, "summary": summary}])
    else:
        sink.lines(flow_lines(listed, summary, sink.width, every_side=args.verbose))
