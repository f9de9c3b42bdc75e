"""Create the parts of a report, one per capture, in tasks: from the capture's packets, or from its rows in tables.

One task reads a capture; small captures share a task.
"""

from __future__ import annotations

import pickle
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kshark.capture.paths import absolute
from kshark.cli.parser import ports
from kshark.cli.period import Period
from kshark.cli.reporting import OPTIONS, Part, Read, Reporting, read_part
from kshark.cli.shown import display_filter, filtered
from kshark.cli.source import Source
from kshark.errors import UnreadableInput
from kshark.model import Event
from kshark.pipeline import Options
from kshark.report.names import base_names
from kshark.tables.captures import Named
from kshark.tables.events import BEFORE, MESSAGES, EventTimeline
from kshark_spark.rows import Batches, batch_of, collected
from kshark_spark.session import cores_of
from kshark_spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshark_spark.tables import Tables

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
    spark: SparkSession, captures: Mapping[str, Sequence[str]], args: Namespace
) -> Iterator[Read | UnreadableInput]:
    """Yield the part of each capture, in order, from the packets in its files; or why it could not be read."""
    named = [(name, [absolute(file) for file in files]) for name, files in captures.items()]
    options = replace(OPTIONS, tls_keys=args.tls_keys, max_request_bytes=args.max_request_bytes)
    work = partial(_part, captures, needed_options(args), options)
    return results(spark, named, work, cores_of(spark, args.cores), "read captures")


def parts_of_tables(tables: Tables, captures: Mapping[str, Sequence[str]], args: Namespace, tasks: int) -> list[Part]:
    """Return the part of each capture, from its rows in the tables."""
    needed = needed_options(args)
    shown = dict(zip(captures, base_names([*captures]), strict=True))
    gathered = _in_time(tables).repartition(max(1, min(tasks, len(captures))), "capture")
    pickled = gathered.sortWithinPartitions("capture", *_TIME).mapInArrow(_from_rows(shown, captures, needed), PARTS)
    parts = {capture: pickle.loads(part) for capture, part in collected(pickled, "count events")}
    # a capture without events has no rows
    return [parts.get(name) or Reporting(shown[name], needed).close(files) for name, files in captures.items()]


def faults_of(faults: DataFrame, captures: Collection[str]) -> list[UnreadableInput]:
    """Return why captures could not be read, from the table `faults`; a later export may have read some of them."""
    rows = sorted(set(collected(faults.select("capture", "detail"), "read faults")))
    return [UnreadableInput(detail) for name, detail in rows if name not in captures]


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


class _Source(Source):
    """A capture in a task; the driver reports the files that are left out."""

    def _leave_out(self, error: UnreadableInput) -> None:
        self.faults.append(error)


def _part(captures: Mapping[str, Sequence[str]], args: Namespace, options: Options, capture: Named) -> Read:
    """Create the part of a capture; it names the absolute paths of its files for a worker."""
    name, places = capture
    source = _Source(places, args, filtered(options, args), leaves_out=sum(map(len, captures.values())) > 1)
    return read_part(name, source, args, captures[name])


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
