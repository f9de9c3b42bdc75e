"""`spark.read.format("kshark")`: a table of captures as a DataFrame, by Spark's Python data source API.

Spark finds it by the module pyspark_kshark. Options are those of `kshark export`:

| option | meaning |
|---|---|
| table | the table's name: exchanges (the default), share_requests, findings ...: `kshark explain tables` |
| each | true: every file is a separate capture; otherwise all files form one capture |
| since, until | only events in that period |
| decode_as | ports to treat as Kafka, separated by commas: 9093,9094 |
| max_request_bytes | socket.request.max.bytes of the brokers, if it is not the default |
| dissector | files with your own APIs, separated by commas |
| no_payload | true: keys, values and header values of records are left out |

One task reads a whole capture; several small captures share a task. A capture that cannot be read is an error; in the
table `faults` it is a row. The workers open the paths themselves, including those of object stores
(`s3://bucket/captures/`).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kshark.capture.files import sizes_of
from kshark.capture.host import host_of
from kshark.cli import export
from kshark.cli.each import captures_of
from kshark.cli.parser import Parser
from kshark.cli.source import Source
from kshark.errors import UnreadableInput, UsageError
from kshark.face import analysed
from kshark.output.manifest import capture_of
from kshark.output.parquet import arrow_schema, record_batch
from kshark.output.parquet_part import ended
from kshark.pipeline import Options
from kshark.tables import TABLES, Rows
from kshark.tables.captures import capture_names

#: Bytes of the captures that one task reads, or one larger capture.
TASK_BYTES: Final = 64 << 20
#: Options with one value, options with several values, and options that are true or false.
_ONE: Final = {
    "since": "--since",
    "until": "--until",
    "tls_keys": "--tls-keys",
    "max_request_bytes": "--max-request-bytes",
}
_SEVERAL: Final = {"dissector": "--dissector"}
_SWITCHES: Final = {"each": "--each", "no_payload": "--no-payload", "secrets": "--secrets"}
_OTHERS: Final = ("path", "paths", "table", "decode_as")


class KsharkDataSource(DataSource):
    """Tables of captures."""

    @classmethod
    def name(cls) -> str:
        return "kshark"

    def schema(self) -> str:
        return TABLES[self._table()].ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        return CaptureReader(arguments(self.options), self._table(), schema.names)

    def _table(self) -> str:
        table: str = self.options.get("table", "exchanges")
        if table not in TABLES:
            raise UsageError(f'no table "{table}"; there are {", ".join(TABLES)}')
        return table


@dataclass
class CaptureFiles(InputPartition):
    """The captures that one task reads: name and files of each."""

    captures: list[tuple[str, list[str]]]


class CaptureReader(DataSourceReader):
    """Reads the requested columns of one table."""

    def __init__(self, args: Namespace, table: str, columns: Sequence[str]) -> None:
        self._args, self._table, self._columns = args, table, list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        captures = captures_of(self._args)
        tasks: list[CaptureFiles] = []
        filled = TASK_BYTES
        for name, files, size in zip(capture_names(captures), captures, sizes_of(captures), strict=True):
            if filled + size > TASK_BYTES:
                tasks.append(CaptureFiles([]))
                filled = 0
            tasks[-1].captures.append((name, files))
            filled += size
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CaptureFiles)
        schema = arrow_schema(TABLES[self._table])
        for name, files in partition.captures:
            rows = Rows(name, records=self._table == "records")
            source = Source(files, self._args, options_of(self._args, self._table))
            for blocks in self._blocks(name, source, rows):
                for table, block in blocks:
                    if table == self._table:
                        yield record_batch(schema, block).select(self._columns)

    def _blocks(self, name: str, source: Source, rows: Rows) -> Iterator[Any]:
        shown, begun = source.shows if self._args.since else lambda _: True, perf_counter()
        try:
            for page, results in analysed(source):
                yield rows.page(filter(shown, page))
                yield rows.page(filter(shown, results))
            if self._table == "captures":
                capture = capture_of(name, source.files, {})
                rows.end(ended(capture, source.packets, host_of(source.files), perf_counter() - begun))
        except UnreadableInput as error:
            if self._table != "faults":
                raise
            rows.fault(name, error)
        yield rows.rest()


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


def options_of(args: Namespace, table: str) -> Options:
    return Options(
        records=True if table == "records" else "headers", payload=args.payload, embedded=True, secrets=args.secrets
    )


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def is_true(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f'{name} is true or false, not "{text}"')
    return text.lower() == "true"
