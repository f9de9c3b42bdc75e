"""Create the parts of a report, one per capture, in tasks: from the capture's packets, or from its rows in tables.

Small captures share a task. For a large capture, the tasks of its shares and buckets count their events, and the driver
adds the counts. If only a part of it is requested, one task reads it.
"""

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

from kshark.analysis import Listed, ListedSession, PackedSessions
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
from kshark.report.names import base_names
from kshark.report.summing import Origin
from kshark.tables.captures import grouped
from kshark.tables.events import BEFORE, MESSAGES, EventTimeline, PositionedEvent
from kshark_spark.large import Analysed, analysed
from kshark_spark.plan import Plan, Sizes, are_split, located
from kshark_spark.rows import Batches, batch_of, collected, read_all, results
from kshark_spark.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

DEFAULT: Final = Sizes()
#: A pickled Part for each capture.
PARTS: Final = "capture string, part binary"
#: The tables from which events are rebuilt.
_SOURCES: Final = ("exchanges", "flows", "weirds")
#: Columns for the order of events, as in kshark.tables.events.place_of.
_TIME: Final = ("packet", "phase", "flow_packet", "place")
#: Options of a command line that workers need.
_OPTIONS: Final = (
    "select",
    "ignore",
    "format",
    "display_filter",
    "dissectors",
    "since",
    "until",
    "decode_as",
    "max_request_bytes",
    "tls_keys",
)
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("part", pa.binary())])


def parts_of_captures(
    spark: SparkSession, captures: Mapping[str, Sequence[str]], args: Namespace, sizes: Sizes = DEFAULT
) -> list[Part]:
    """Return the part of each capture, from the packets in its files. Raises UnreadableInput if one cannot be read."""
    places = {name: [absolute(file) for file in files] for name, files in captures.items()}
    cores = cores_of(spark)
    is_large = [] if is_restricted(args) else are_split([*places.values()], cores, sizes)
    large = dict(compress(places.items(), is_large))
    tasks = grouped([(name, files) for name, files in places.items() if name not in large], cores)
    needed, options = (
        needed_options(args),
        replace(OPTIONS, tls_keys=args.tls_keys, max_request_bytes=args.max_request_bytes),
    )
    made = results(
        spark,
        tasks,
        lambda task: [(name, _part(name, captures[name], files, needed, options)) for name, files in task],
        len(tasks),
    )
    parts = {name: part for task in read_all(made) for name, part in task}
    of_large = read_all(
        analysed(spark, [*large.values()], options, sizes, partial(_Share, [*large]), partial(_Bucket, [*large]))
    )
    parts |= {
        name: _joined(name, captures[name], capture, needed) for name, capture in zip(large, of_large, strict=True)
    }
    return [parts[name] for name in captures]


def parts_of_tables(tables: Tables, captures: Mapping[str, Sequence[str]], args: Namespace, tasks: int) -> list[Part]:
    """Return the part of each capture, from its rows in the tables."""
    needed = needed_options(args)
    shown = dict(zip(captures, base_names([*captures]), strict=True))
    gathered = _in_time(tables).repartition(max(1, min(tasks, len(captures))), "capture")
    pickled = gathered.sortWithinPartitions("capture", *_TIME).mapInArrow(_from_rows(shown, captures, needed), PARTS)
    parts = {capture: pickle.loads(part) for capture, part in collected(pickled)}
    # a capture without events has no rows
    return [parts.get(name) or Reporting(shown[name], needed).close(files) for name, files in captures.items()]


def _in_time(tables: Tables) -> DataFrame:
    """Return the rows, each in a column named for its table, with their capture and the columns of _TIME."""
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
    return reduce(lambda rows, other: rows.unionByName(other, allowMissingColumns=True), rows)


def needed_options(args: Namespace) -> Namespace:
    """Return the options of a command line that workers need."""
    return Namespace(**{name: getattr(args, name) for name in _OPTIONS})


def is_restricted(args: Namespace) -> bool:
    """True if only a part of the captures is requested, or ports are named. Raises UsageError and FilterError."""
    Period(args.since, args.until)
    return bool(args.since or args.until or ports(args) or display_filter(args))


# -- in a task


def _part(name: str, files: Sequence[str], places: Sequence[str], args: Namespace, options: Options) -> Part:
    """Create the part of a capture; `places`: absolute paths of the files for a worker."""
    source = Source(places, args, filtered(options, args))
    reporting = Reporting(name, args, source.shows, source.includes_time)
    for page in source:
        reporting.page(page)
    return reporting.close(
        files, source.locate and partial(_renamed, source.locate, dict(zip(places, files, strict=True)))
    )


def _renamed(locate: Locate, names: Mapping[str, str], packet: int) -> tuple[str, int] | None:
    """Return the file as named on the command line, and the packet's number there."""
    location = locate(packet)
    return location and (names[location[0]], location[1])


class _Share:
    """Count the events of a share's connections (kshark.parallel.decoding.PageReader)."""

    taught: Sequence[Fact] = ()
    asked: Sequence[Question] = ()

    def __init__(self, names: Sequence[str], plan: Plan, facts: Sequence[Fact]) -> None:
        collector = Collector(names[plan.number], Registry())
        self.page, self.close = collector.page, collector.close


class _Bucket:
    """Count a bucket's share sessions (kshark_spark.buckets.Lister)."""

    def __init__(
        self, names: Sequence[str], plan: Plan, facts: Sequence[Fact], common: Sequence[PositionedEvent]
    ) -> None:
        self._collector = Collector(names[plan.number], Registry())
        self._over = PackedSessions()

    def page(self, listed: Sequence[Listed]) -> None:
        self._over.add(item for item in listed if isinstance(item, ListedSession))

    def close(self) -> Collected:
        for session in self._over:
            self._collector.session(session)
        return self._collector.close()


def _joined(name: str, files: Sequence[str], capture: Analysed, args: Namespace) -> Part:
    """Return the part of a capture that many tasks have read; `files`: as named on the command line."""
    plan, parts, judged = capture
    collector, rows = Collector(name, registry(args)), FindingRows(name)
    collector.page(parts.weirds)
    rows.page(event for _, event in parts.common if isinstance(event, Opened))
    findings = [*filter(selection(args), judged.findings)]
    topics = {
        topic_id: name
        for topic_id, name in parts.names.items()
        if topic_id in {finding.topic_id for finding in findings}
    }
    locate = partial(located, plan.ranges, dict(zip(plan.files, files, strict=True))) if len(files) > 1 else None
    part = part_of(Origin(name, files, locate, topics), collector, rows, findings, capture.observed, judged.outcomes)
    return part._replace(
        collected=reduce(add, [part.collected, *(share.beside for share in parts.shares), *judged.made])
    )


def _from_rows(
    shown: Mapping[str, str], captures: Mapping[str, Sequence[str]], args: Namespace
) -> Callable[[Batches], Batches]:
    """Return the function that workers apply to rows, sorted by capture and time. `shown`: names in the report."""

    def make(batches: Batches) -> Batches:
        current: _CaptureFromRows | None = None
        for batch in batches:
            for name, rows in groupby(batch.to_pylist(), key=itemgetter("capture")):
                if current is None or name != current.name:
                    if current is not None:
                        yield current.close()
                    current = _CaptureFromRows(name, shown[name], captures[name], args)
                current.page(rows)
        if current is not None:
            yield current.close()

    return make


class _CaptureFromRows:
    """Create the part of one capture from its rows. `shown`: its name in the report."""

    def __init__(self, name: str, shown: str, files: Sequence[str], args: Namespace) -> None:
        self.name = name
        self._files = files
        self._timeline = EventTimeline()
        self._reporting = Reporting(shown, args)

    def page(self, rows: Iterable[dict[str, Any]]) -> None:
        events: list[Event] = []
        for row in rows:
            for table in _SOURCES:
                if row[table] is not None:
                    events += self._timeline.feed(table, row[table])
        self._reporting.page(events)

    def close(self) -> pa.RecordBatch:
        self._reporting.page([*self._timeline.close()])
        part = self._reporting.close(self._files, None if len(self._files) == 1 else nowhere)
        return batch_of(_SCHEMA, [(self.name, pickle.dumps(part))])


def nowhere(packet: int) -> None:
    """Return None: rows do not name the file of a packet."""
