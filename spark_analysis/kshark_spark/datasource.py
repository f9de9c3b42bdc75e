"""`spark.read.format("kshark")`: tables of captures as DataFrames, by Spark's Python data source API.

`kshark_spark.register(spark)` makes it known to a session. Options are those of `kshark export`:

| option | meaning |
|---|---|
| table | the table's name: exchanges (the default), share_requests, findings ...: `kshark explain tables` |
| table | several names, separated by commas, or `*` for all tables: one read of them all (kshark_spark.selection) |
| each | true: every file is a separate capture; otherwise all files form one capture |
| each_folder | true: the files of each folder form one capture |
| since, until | only events in that period |
| decode_as | ports to treat as Kafka, separated by commas: 9093,9094 |
| max_request_bytes | socket.request.max.bytes of the brokers, if it is not the default |
| dissector | files with your own APIs, separated by commas |
| no_payload | true: keys, values and header values of records are left out |
| strict | true: a capture that cannot be read is an error |
| filters | true: conditions of `where` are applied before rows are made; needs the setting kshark_spark.FILTERS |

One task reads a whole capture; several small captures share a task. A capture that cannot be read is a row in the table
`faults` and a line on the worker's stderr, with its rows up to there; an error if nothing else is read. The workers
open the paths themselves, including those of object stores (`s3://bucket/captures/`).
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kshark.analysis import AnalysisResult
from kshark.capture.captures import expand
from kshark.capture.files import sizes_of
from kshark.capture.host import host_of
from kshark.cli import export
from kshark.cli.each import divided
from kshark.cli.parser import Parser
from kshark.cli.source import Source, leave_out
from kshark.errors import UnreadableInput, UsageError
from kshark.face import analysed
from kshark.model import Event
from kshark.output.manifest import capture_of
from kshark.output.parquet_part import ended
from kshark.pipeline import Options
from kshark.tables import COMMON, OF_RECORDS, Block, Rows
from kshark.tables.captures import capture_names, name_of_fault
from kshark_spark.bounds import Bounds
from kshark_spark.selection import Selection, ddl_of
from kshark_spark.tasks import failed, spread

#: Tables with results of the analysis, which takes half of the time of a read that needs it.
JUDGED_TABLES: Final = frozenset({"findings", "sessions", "steps", "captures"})
#: Columns of `exchanges` that need no bodies of messages.
HEADER_COLUMNS: Final = frozenset(
    (
        *(column.name for column in COMMON),
        *("api_key", "api", "api_version", "correlation_id", "client_id", "proxy", "outcome", "latency_ns"),
        *(f"{side}_{name}" for side in ("request", "response") for name in ("packet", "first_packet", "knows_packet")),
        *(f"{side}_{name}" for side in ("request", "response") for name in ("ts_ns", "bytes")),
        *("given_up_packet", "after_request_packet"),
    )
)
#: Options with one value, options with several values, and options that are true or false.
_ONE: Final = {
    "since": "--since",
    "until": "--until",
    "tls_keys": "--tls-keys",
    "max_request_bytes": "--max-request-bytes",
}
_SEVERAL: Final = {"dissector": "--dissector"}
_SWITCHES: Final = {
    "each": "--each",
    "each_folder": "--each-folder",
    "no_payload": "--no-payload",
    "secrets": "--secrets",
}
_OTHERS: Final = ("path", "paths", "table", "decode_as", "strict", "filters")


class KsharkDataSource(DataSource):
    """Tables of captures."""

    #: True if the session passes the conditions of `where`.
    has_filters = False

    @classmethod
    def name(cls) -> str:
        return "kshark"

    def schema(self) -> str:
        return ddl_of(self._table())

    def reader(self, schema: StructType) -> DataSourceReader:
        given = {name.lower(): value for name, value in self.options.items()}
        has_filters = is_true("filters", given.pop("filters", str(self.has_filters)))
        is_strict = is_true("strict", given.pop("strict", "false"))
        kind = FilteredReader if has_filters else CaptureReader
        return kind(arguments(given), Selection.of(self._table(), schema), is_strict=is_strict)

    def _table(self) -> str:
        return str(self.options.get("table", "exchanges"))


@dataclass
class CaptureFiles(InputPartition):
    """The captures that one task reads: name and files of each.

    `left_out`: files that are no captures. `is_only`: the read has no other capture.
    """

    captures: list[tuple[str, list[str]]]
    left_out: list[UnreadableInput] = field(default_factory=list)
    is_only: bool = False


class CaptureReader(DataSourceReader):
    """Reads the selected tables and columns."""

    def __init__(self, args: Namespace, selection: Selection, *, is_strict: bool = False) -> None:
        self._args, self._selection, self._is_strict = args, selection, is_strict
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        left_out: list[UnreadableInput] = []
        files = [str(path) for path in expand(self._args.files, self._left_out(left_out))]
        captures = divided(files, self._args.each)
        named = [*zip(capture_names(captures), captures, strict=True)]
        kept = [capture for capture in named if self._bounds.allows("capture", capture[0])]
        numbers = spread(sizes_of([files for _, files in kept]), os.cpu_count() or 1)
        tasks = [
            CaptureFiles([kept[number] for number in sorted(task)], is_only=len(captures) == 1)
            for task in numbers
            if task
        ]
        return [*tasks, CaptureFiles([], left_out)] if left_out and "faults" in self._selection.columns else tasks

    def _left_out(self, errors: list[UnreadableInput]) -> Callable[[UnreadableInput], None] | None:
        """Return what to do with files that are not captures; None: the first one is an error."""

        def note(error: UnreadableInput) -> None:
            leave_out(self._args, error)
            errors.append(error)

        return None if self._is_strict else note

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, CaptureFiles):  # Spark passes this if there is no partition
            return
        tables = [name for name in self._selection.columns if self._bounds.allows("table", name)]
        for name, files in partition.captures:
            for table, block in self._blocks(name, files, tables, fails=partition.is_only and tables != ["faults"]):
                if table in tables and (batch := self._selection.batch(table, block)) is not None:
                    yield batch
        rows = Rows("")
        for error in partition.left_out:
            rows.fault(name_of_fault(error), error)
        for table, block in rows.rest():
            if (batch := self._selection.batch(table, block)) is not None:
                yield batch

    def _blocks(
        self, name: str, files: list[str], tables: Sequence[str], *, fails: bool
    ) -> Iterator[tuple[str, Block]]:
        """Yield the rows of one capture, at least those of the tables. `fails`: raise UnreadableInput."""
        columns = {table: self._selection.columns[table] for table in tables}
        rows = Rows(
            name, records=not {*tables}.isdisjoint(OF_RECORDS), wanted=self._bounds.wanted(tables), columns=columns
        )
        begun = perf_counter()
        try:
            if self._bounds.may_contain(files):
                source = Source(
                    files,
                    self._args,
                    options_of(self._args, columns),
                    leaves_out=len(files) > 1 and not self._is_strict,
                )
                for page in self._pages(source, columns):
                    yield from rows.page(page)
                for error in source.faults:
                    rows.fault(name_of_fault(error), error)
                if "captures" in tables:
                    capture = capture_of(name, files, {})
                    rows.end(ended(capture, source.shown_packets or 0, host_of(files), perf_counter() - begun))
        except Exception as error:
            if fails or self._is_strict:
                raise
            wrong = error if isinstance(error, UnreadableInput) else failed(name, error)
            leave_out(self._args, wrong)
            rows.fault(name, wrong)
        yield from rows.rest()

    def _pages(
        self, source: Source, columns: Mapping[str, Collection[str]]
    ) -> Iterator[Iterable[Event | AnalysisResult]]:
        """Yield the events of a capture, with the results of the analysis if a table has rows of them."""
        is_judged = not JUDGED_TABLES.isdisjoint(columns)
        shown = source.shows if self._args.since else lambda _: True
        for page, results in analysed(source) if is_judged else zip(source, repeat(())):
            yield filter(shown, page)
            yield filter(shown, results)


class FilteredReader(CaptureReader):
    """Does not make rows that conditions of `where` exclude. Spark refuses it without the setting FILTERS."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds.add(filters, self._selection.columns if self._selection.blocks is not None else ())
        return filters


def arguments(options: Mapping[str, str]) -> Namespace:
    """Convert the options to a command line of `kshark export`. Raises UsageError for an unknown option."""
    names = (*_ONE, *_SEVERAL, *_SWITCHES, *_OTHERS)
    unknown = [name for name in options if name.lower() not in names]
    if unknown:
        raise UsageError(f'no option "{unknown[0]}"; there are {", ".join(sorted({*names} - {"paths"}))}')
    given = {name.lower(): value for name, value in options.items()}
    words = [word for name, option in _ONE.items() if name in given for word in (option, given[name])]
    words += [
        word for name, option in _SEVERAL.items() for value in _split(given.get(name)) for word in (option, value)
    ]
    words += [word for port in _split(given.get("decode_as")) for word in ("-d", f"tcp.port=={port},kafka")]
    words += [option for name, option in _SWITCHES.items() if is_true(name, given.get(name, "false"))]
    parser = Parser("export", "tables of captures", ())
    export.arguments(parser)
    return parser.parse([*words, "--", *paths(given)])


def paths(options: Mapping[str, str]) -> list[str]:
    """Return the paths given to `load`. Raises UsageError without one."""
    files: list[str] = msgspec.json.decode(options["paths"], type=list[str]) if "paths" in options else []
    files += [options["path"]] if "path" in options else []
    if not files:
        raise UsageError("no captures named; load(PATH) accepts a file, a folder or a list of them")
    return files


def options_of(args: Namespace, columns: Mapping[str, Collection[str]]) -> Options:
    """Return how far messages are decoded for these tables and columns."""
    if columns.keys() == {"exchanges"} and HEADER_COLUMNS.issuperset(columns["exchanges"]):
        return Options(records=False, bodies=frozenset())
    return Options(
        records="headers" if columns.keys().isdisjoint(OF_RECORDS) else True,
        payload=args.payload,
        embedded=True,
        secrets=args.secrets,
    )


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def is_true(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f'{name} is true or false, not "{text}"')
    return text.lower() == "true"
