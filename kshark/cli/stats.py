"""`kshark stats`: counts of what a capture contains."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from kshark import limits
from kshark.analysis import TRANSACTION_APIS
from kshark.analysis.results.breakdown import KEYS, Breakdown
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Statistics
from kshark.api_keys import API_VERSIONS
from kshark.cli.apis import registry
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format, close_to
from kshark.cli.shown import add_filter, display_filter, filtered, only_passing
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.flows import FlowCounting
from kshark.metrics import APIS, ListedMetrics, ShareCounting, listed
from kshark.model import Event, Exchange
from kshark.names import TopicNames
from kshark.output.breakdown import breakdown_lines
from kshark.output.flows import flow_lines
from kshark.output.metrics import metric_lines
from kshark.output.sink import Sink
from kshark.output.statistics import print_statistics
from kshark.pipeline import Options
from kshark.units import counted, number
from kshark_dissectors.topics import NAMING_APIS

if TYPE_CHECKING:
    from kshark.conditions.filter import Filter

EXAMPLES = (
    "kshark stats trace.pcap",
    "kshark stats trace.pcap -T json | jq '.share_groups'",
    "kshark stats trace.pcap --since +60s --until +120s",
    "kshark stats trace.pcap --by client,error --every 1m",
    "kshark stats trace.pcap --by topic --every 30s -Y 'kafka.api == Produce'",
    "kshark stats trace.pcap --flows",
    "kshark stats trace.pcap --share",
    "kshark stats trace.pcap --share -T json | jq '.groups[].members[] | select(.trouble)'",
)

#: Words for which `--every` is meant, and the longest interval.
_TIMES: Final = frozenset({"time", "second", "minute", "hour", "day", "interval"})
_LONGEST_NS: Final = 366 * 86_400 * 1_000_000_000


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
    shown.add_argument(
        "--by",
        metavar="KEY,...",
        help=f"requests, errors, bytes, records and latency by {', '.join(KEYS)}",
    )
    parser.add_argument(
        "--every",
        metavar="DURATION",
        help="with or without --by: a row for each interval of this length, by the clock: 30s, 1m, 1h",
    )


def _options(args: Namespace, wanted: Filter | None) -> Options:
    """Return the pipeline options: bodies of counted exchanges, and those that name the client software."""
    if _breaks_down(args):
        bodies = None if wanted is None else wanted.apis | NAMING_APIS | {API_VERSIONS}
        return Options(records="counted", payload=False, bodies=bodies, knows=False)
    if args.share:
        return Options(records="checked", payload=False, bodies=APIS | TRANSACTION_APIS)
    if args.flows:
        return Options(records=False, bodies=frozenset(), transport=True)
    bodies = None if wanted is None else wanted.apis | {API_VERSIONS}
    return Options(records="counted", payload=False, bodies=bodies, knows=False)


def run(args: Namespace) -> int:
    if args.verbose and not args.flows:
        raise UsageError("-V shows both directions of connections; write stats --flows -V")
    keys(args)
    every_ns(args)
    show = _share if args.share else _flows if args.flows else _by if _breaks_down(args) else _all
    for _ in each(args, filtered(_options(args, display_filter(args)), args), show, stops=True):
        pass
    return 0


def _breaks_down(args: Namespace) -> bool:
    return args.by is not None or args.every is not None


def keys(args: Namespace) -> list[str]:
    """Return the keys of `--by`, each once; partitions come with their topic. Raises UsageError for an unknown key."""
    named = [] if args.by is None else [word.strip().lower() for word in args.by.split(",") if word.strip()]
    if args.by is not None and not named:
        raise UsageError(f"--by accepts one or more of {', '.join(KEYS)}")
    for word in named:
        if word not in KEYS:
            advice = "; time is --every 1m" if word in _TIMES else close_to(word, KEYS)
            raise UsageError(f'--by: no "{word}"{advice} (accepted: {", ".join(KEYS)})')
    if "partition" in named and "topic" not in named:
        named.insert(named.index("partition"), "topic")
    return [*dict.fromkeys(named)]


def every_ns(args: Namespace) -> int | None:
    """Return the length of an interval; None without `--every`. Raises UsageError for text that is not a duration."""
    if args.every is None:
        return None
    if args.flows or args.share:
        raise UsageError("--every is for stats --by; write stats --by client --every 1m")
    from kshark.conditions.moments import duration_of  # only needed if a duration is given

    try:
        length_ns = duration_of(args.every.strip(), "s")
    except ValueError:
        length_ns = 0
    if not 0 < length_ns <= _LONGEST_NS:
        raise UsageError(f'--every: "{args.every}" is not a duration; write 30s, 1m or 1h')
    return length_ns


def _by(source: Source, args: Namespace, sink: Sink) -> None:
    wanted, breakdown = display_filter(args), Breakdown(registry(args), keys(args), every_ns(args))
    connections: set[int] = set()
    for page in source:
        shown = page if wanted is None else only_passing(wanted, page, connections)
        if wanted is not None:
            breakdown.learn(page)
        breakdown.page(filter(source.shows, shown) if args.since is not None else shown)
    rows = breakdown.rows()
    if breakdown.others():
        print(
            f"kshark: more than {number(limits.BREAKDOWN_ROWS)} rows: {counted(breakdown.others(), 'request')} of "
            f"further ones are counted together as {OTHERS}; use fewer keys, longer intervals or -Y",
            file=sys.stderr,
        )
    if args.format == "json":
        sink.json([{"file": source.name, **row} for row in rows] if args.each else rows)
    else:
        lines = breakdown_lines(
            breakdown.summary(), source.shown_packets, breakdown.keys, breakdown.every_ns, rows, sink.width
        )
        sink.lines(lines)


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
        print_statistics(summary, source.shown_packets, sink)


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
