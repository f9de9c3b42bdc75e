"""Parts of a report, one a capture, made by tasks: from the capture's packets, or from its rows in the tables."""

from __future__ import annotations

import os
import pickle
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kshark.capture import open_captures
from kshark.cli.reporting import OPTIONS, Part, Reporting
from kshark.model import Event
from kshark.pipeline import Engine
from kshark.tables.events import Timeline
from spark_analysis.export import grouped
from spark_analysis.rows import Batches, batch_of, read_all, results
from spark_analysis.session import cores_of
from spark_analysis.steps import TIME, in_time
from spark_analysis.tables import NEEDED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A pickled Part for each capture.
PARTS: Final = "capture string, part binary"
_SCHEMA: Final = pa.schema([("capture", pa.string()), ("part", pa.binary())])


def parts_of_captures(spark: SparkSession, captures: Mapping[str, Sequence[str]], args: Namespace) -> list[Part]:
    """The part of each capture, from the packets in its files. Raises UnreadableInput for one that cannot be read."""
    places = [(name, [os.path.abspath(file) for file in files]) for name, files in captures.items()]
    tasks = grouped(places, cores_of(spark))
    known = asked(args)
    made = results(spark, tasks, lambda task: [_part(name, captures[name], files, known) for name, files in task], len(tasks))
    return [part for parts in read_all(made) for part in parts]


def parts_of_tables(rows: DataFrame, captures: Mapping[str, Sequence[str]], args: Namespace, tasks: int) -> list[Part]:
    """The part of each capture, from the rows of the tables that tell what happened."""
    known = asked(args)
    gathered = in_time(rows).select("capture", *TIME, *NEEDED).repartition(max(1, min(tasks, len(captures))), "capture")
    told = gathered.sortWithinPartitions("capture", *TIME).mapInArrow(_from_rows(captures, known), PARTS)
    found = {row.capture: pickle.loads(row.part) for row in told.collect()}
    # a capture in which nothing happened has no rows
    return [found.get(name) or Reporting(name, known).close(files) for name, files in captures.items()]


def asked(args: Namespace) -> Namespace:
    """What workers have to know of a command line."""
    return Namespace(select=args.select, ignore=args.ignore, format=args.format, display_filter=None, dissectors=[])


# -- in a task


def _part(name: str, files: Sequence[str], places: Sequence[str], args: Namespace) -> Part:
    """`places` is where a worker finds the files, whatever its folder."""
    reporting, captures = Reporting(name, args), open_captures(places)
    for page in Engine(OPTIONS).pages(captures):
        reporting.page(page)
    captures.numbering.names = files
    return reporting.close(files, captures.numbering.locate if len(files) > 1 else None)


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
        self._timeline = Timeline()
        self._reporting = Reporting(name, args)

    def page(self, rows: Iterable[dict[str, Any]]) -> None:
        events: list[Event] = []
        for row in rows:
            for table in NEEDED:
                if row[table] is not None:
                    events += self._timeline.feed(table, row[table])
            weird = row["weirds"]
            if weird is not None and weird["kind"] == "message" and weird["exchange"] is None:
                self._reporting.weird(weird["code"], weird["size_bytes"])  # the message has no row
        self._reporting.page(events)

    def close(self) -> pa.RecordBatch:
        self._reporting.page([*self._timeline.close()])
        part = self._reporting.close(self._files, None if len(self._files) == 1 else nowhere)
        return batch_of(_SCHEMA, [(self.name, pickle.dumps(part))])


def nowhere(packet: int) -> None:
    """Rows do not tell which of several files a packet is in."""
