"""Parts of a report, one a capture, made by tasks: from the capture's packets, or from its rows in the tables.

Small captures share a task. Of a large one the tasks of its shares and of its buckets count what they see, and the
driver adds it up; where a part of it is asked for, one task reads it."""

from __future__ import annotations

import pickle
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import compress, groupby
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kshark.analysis import Listed, ListedSession, PackedSessions, in_packet_order
from kshark.capture.numbering import Locate
from kshark.capture.paths import absolute
from kshark.cli.apis import registry
from kshark.cli.check import selection
from kshark.cli.parser import ports
from kshark.cli.period import Period
from kshark.cli.reporting import OPTIONS, Part, Reporting, part_of
from kshark.cli.shown import display_filter, filtered
from kshark.cli.source import Source
from kshark.facts import Fact, Question
from kshark.model import Event, Opened
from kshark.output.parquet_findings import FindingRows
from kshark.pipeline import Options
from kshark.registry import Registry
from kshark.report.collected import Collected
from kshark.report.collector import Collector
from kshark.report.summing import Origin
from kshark.tables.captures import grouped
from kshark.tables.events import BEFORE, MESSAGES, EventTimeline, PositionedEvent
from kshark_spark.large import Analysed, analysed
from kshark_spark.plan import Plan, Sizes, are_shared_out, located
from kshark_spark.rows import Batches, batch_of, collected, read_all, results
from kshark_spark.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

DEFAULT: Final = Sizes()
#: A pickled Part for each capture.
PARTS: Final = "capture string, part binary"
#: The tables that tell what happened.
_TOLD_BY: Final = ("exchanges", "flows", "weirds")
#: The order of events, as kshark.tables.events.position_of has it.
_TIME: Final = ("packet", "phase", "flow_packet", "place")
#: What workers have to know of a command line.
_ASKED: Final = (
    "select",
    "ignore",
    "format",
    "display_filter",
    "dissectors",
    "since",
    "until",
    "decode_as",
    "tls_keys",
)
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("part", pa.binary())])


def parts_of_captures(
    spark: SparkSession, captures: Mapping[str, Sequence[str]], args: Namespace, sizes: Sizes = DEFAULT
) -> list[Part]:
    """The part of each capture, from the packets in its files. Raises UnreadableInput for one that cannot be read."""
    places = {name: [absolute(file) for file in files] for name, files in captures.items()}
    cores = cores_of(spark)
    shared_out = [] if is_restricted(args) else are_shared_out([*places.values()], cores, sizes)
    large = dict(compress(places.items(), shared_out))
    tasks = grouped([(name, files) for name, files in places.items() if name not in large], cores)
    known, options = asked(args), replace(OPTIONS, tls_keys=args.tls_keys)
    made = results(
        spark,
        tasks,
        lambda task: [(name, _part(name, captures[name], files, known, options)) for name, files in task],
        len(tasks),
    )
    found = {name: part for parts in read_all(made) for name, part in parts}
    apart = read_all(
        analysed(spark, [*large.values()], options, sizes, partial(_Share, [*large]), partial(_Bucket, [*large]))
    )
    found |= {name: _joined(name, captures[name], one, known) for name, one in zip(large, apart, strict=True)}
    return [found[name] for name in captures]


def parts_of_tables(tables: Tables, captures: Mapping[str, Sequence[str]], args: Namespace, tasks: int) -> list[Part]:
    """The part of each capture, from the rows of the tables that tell what happened."""
    known = asked(args)
    gathered = _in_time(tables).repartition(max(1, min(tasks, len(captures))), "capture")
    told = gathered.sortWithinPartitions("capture", *_TIME).mapInArrow(_from_rows(captures, known), PARTS)
    found = {capture: pickle.loads(part) for capture, part in collected(told)}
    # a capture in which nothing happened has no rows
    return [found.get(name) or Reporting(name, known).close(files) for name, files in captures.items()]


def _in_time(tables: Tables) -> DataFrame:
    """The rows, each in the column of its table, with their capture and what they are sorted by (_TIME)."""
    from pyspark.sql import functions as F

    first, position = (
        F.substring_index("flow_id", ":", -1).cast("bigint"),
        F.coalesce("request_position", "response_position"),
    )
    place = {
        "exchanges": (MESSAGES, position),
        "flows": (BEFORE, F.lit(-1)),
        "weirds": (BEFORE, F.coalesce("position", F.lit(-1))),
    }
    rows = (
        tables[name].select(
            "capture",
            "packet",
            F.lit(phase).alias("phase"),
            first.alias("flow_packet"),
            at.alias("place"),
            F.struct("*").alias(name),
        )
        for name, (phase, at) in place.items()
    )
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), rows)


def asked(args: Namespace) -> Namespace:
    """What workers have to know of a command line."""
    return Namespace(**{name: getattr(args, name) for name in _ASKED})


def is_restricted(args: Namespace) -> bool:
    """Whether a part of the captures is asked for, or ports are named. Raises UsageError and FilterError for what
    cannot be."""
    Period(args.since, args.until)
    return bool(args.since or args.until or ports(args) or display_filter(args))


# -- in a task


def _part(name: str, files: Sequence[str], places: Sequence[str], args: Namespace, options: Options) -> Part:
    """`places` is where a worker finds the files, whatever its folder."""
    source = Source(places, args, filtered(options, args))
    reporting = Reporting(name, args, source.shows, source.tells)
    for page in source:
        reporting.page(page)
    return reporting.close(
        files, source.locate and partial(_renamed, source.locate, dict(zip(places, files, strict=True)))
    )


def _renamed(locate: Locate, names: Mapping[str, str], packet: int) -> tuple[str, int] | None:
    """The file as it was named, and the packet's number there."""
    found = locate(packet)
    return found and (names[found[0]], found[1])


class _Share:
    """Counts what happens on a share's connections (kshark.parallel.decoding.Beside)."""

    taught: Sequence[Fact] = ()
    asked: Sequence[Question] = ()

    def __init__(self, names: Sequence[str], plan: Plan, facts: Sequence[Fact]) -> None:
        collector = Collector(names[plan.number], Registry())
        self.page, self.close = collector.page, collector.close


class _Bucket:
    """Counts a bucket's share sessions (kshark_spark.buckets.Lister)."""

    def __init__(
        self, names: Sequence[str], plan: Plan, facts: Sequence[Fact], common: Sequence[PositionedEvent]
    ) -> None:
        self._collector = Collector(names[plan.number], Registry())
        self._over = PackedSessions()

    def page(self, listed: Sequence[Listed]) -> None:
        self._over.add(one for one in listed if isinstance(one, ListedSession))

    def close(self) -> Collected:
        for session in self._over:
            self._collector.session(session)
        return self._collector.close()


def _joined(name: str, files: Sequence[str], capture: Analysed, args: Namespace) -> Part:
    """The part of a capture that many tasks have read; `files` as they were named."""
    plan, parts, found = capture
    collector, rows = Collector(name, registry(args)), FindingRows(name)
    collector.page(parts.weirds)
    rows.page(event for _, event in parts.common if isinstance(event, Opened))
    findings = in_packet_order(filter(selection(args), found.findings))
    topics = {
        topic_id: name
        for topic_id, name in parts.names.items()
        if topic_id in {finding.topic_id for finding in findings}
    }
    locate = partial(located, plan.ranges, dict(zip(plan.files, files, strict=True))) if len(files) > 1 else None
    part = part_of(Origin(name, files, locate, topics), collector, rows, findings, capture.observed)
    return part._replace(
        collected=reduce(add, [part.collected, *(share.beside for share in parts.shares), *found.made])
    )


def _from_rows(captures: Mapping[str, Sequence[str]], args: Namespace) -> Callable[[Batches], Batches]:
    """What a worker does with rows, sorted by capture and time."""

    def make(batches: Batches) -> Batches:
        current: _Told | None = None
        for batch in batches:
            for name, rows in groupby(batch.to_pylist(), key=itemgetter("capture")):
                if current is None or name != current.name:
                    if current is not None:
                        yield current.close()
                    current = _Told(name, captures[name], args)
                current.page(rows)
        if current is not None:
            yield current.close()

    return make


class _Told:
    """One capture as its rows tell it."""

    def __init__(self, name: str, files: Sequence[str], args: Namespace) -> None:
        self.name = name
        self._files = files
        self._timeline = EventTimeline()
        self._reporting = Reporting(name, args)

    def page(self, rows: Iterable[dict[str, Any]]) -> None:
        events: list[Event] = []
        for row in rows:
            for table in _TOLD_BY:
                if row[table] is not None:
                    events += self._timeline.feed(table, row[table])
        self._reporting.page(events)

    def close(self) -> pa.RecordBatch:
        self._reporting.page([*self._timeline.close()])
        part = self._reporting.close(self._files, None if len(self._files) == 1 else nowhere)
        return batch_of(_SCHEMA, [(self.name, pickle.dumps(part))])


def nowhere(packet: int) -> None:
    """Rows do not tell which of several files a packet is in."""
