"""`spark.readStream.format("kshark")`: read a folder of rotated captures as one continuous capture.

Options besides those of `spark.read` (`each`, `since` and `until` have no meaning here):

| option | meaning |
|---|---|
| state | a folder for this stream only, which the driver and all workers can access |
| settled | seconds without a change after which the newest file of a series is complete; default: 10 |
| final | true: all existing files are complete, and the capture ends with them; findings at the end are reported |

With `table` `*` a micro-batch has blocks of all tables but `captures` (kshark_spark.selection), decoded once;
`kshark_spark.frames.write_tables` writes them from `foreachBatch`.

A micro-batch has the files that were completed since the last one. One task reads it: the engine continues from the
snapshot of the previous batch, and writes a new one. An offset is the number of accepted files; the state folder lists
them. So a batch that runs again, after a failure or because its rows are requested twice, produces the same rows. If a
snapshot is missing, the files since the previous one are read again.

A finding is reported before an event that begins or is decided later: its `event_code` is null then. Findings that an
event may excuse (kshark.incidents.EXCUSABLE) wait for the end of the capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from time import time_ns
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kshark.capture.merge import Lane, merge
from kshark.capture.numbering import Numbering
from kshark.capture.paths import is_remote, named
from kshark.cli.apis import registry
from kshark.cli.parser import ports
from kshark.errors import UnreadableInput, UsageError
from kshark.model import Event, Moment, PacketBatch, Weird
from kshark.pipeline import Engine
from kshark.run import Listing
from kshark.snapshot import load, save
from kshark.tables import OF_RECORDS, Block, Rows
from kshark_spark import state
from kshark_spark.datasource import KsharkDataSource, arguments, is_true, options_of
from kshark_spark.rotation import File, arrived
from kshark_spark.rows import few_collections
from kshark_spark.selection import Selection

_OWN: Final = ("state", "settled", "final")
#: Options that split captures, or limit their period.
_WITHOUT: Final = ("each", "each_folder", "since", "until", "strict", "filters")
_SETTLED_S: Final = 10
_SECOND_NS: Final = 1_000_000_000

#: `taken`: number of accepted files; `final`: true if the capture ended with them.
Offset = dict[str, Any]
#: The state that continues from batch to batch.
StreamRun = tuple[Engine, Listing, Rows]


class KsharkSource(KsharkDataSource):
    """Tables of captures, and of a continuous capture."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RotatedReader(self.options, Selection.of(self._table(), schema))


class FilteredSource(KsharkSource):
    """The source for sessions that pass the conditions of `where`."""

    has_filters = True


@dataclass
class MicroBatch(InputPartition):
    """A micro-batch: the files after the snapshot of the first `begin` files.

    Earlier batches already returned the rows of the first `reread` of them.
    """

    begin: int
    files: list[File]
    reread: int
    final: bool


class RotatedReader(DataSourceStreamReader):
    """Reads the selected tables and columns."""

    def __init__(self, options: Mapping[str, str], selection: Selection) -> None:
        given = {name.lower(): value for name, value in options.items()}
        for name in _WITHOUT:
            if name in given:
                raise UsageError(f"a stream has no option {name}: it is one continuous capture")
        if [*selection.columns] == ["captures"]:
            raise UsageError("a stream has no end, and a row of captures is written at the end; export its files")
        if "state" not in given:
            raise UsageError('a stream needs a folder for its state; name one with option("state", DIR)')
        self._of = {name: value for name, value in given.items() if name not in _OWN}
        self._args = arguments(self._of)
        self._paths = [_local(path) for path in self._args.files]
        self._folder = Path(_local(given["state"]))
        self._settled_ns = (
            0 if (final := is_true("final", given.get("final", "false"))) else _seconds(given.get("settled"))
        )
        self._final = final
        self._selection = selection

    @cached_property
    def _state(self) -> state.State:
        return state.State(self._folder, self._of)

    # -- in the driver

    def initialOffset(self) -> Offset:
        return {"taken": 0, "final": False}

    def latestOffset(self) -> Offset:  # type: ignore[override]  # PySpark 4.1 has only this form
        self._state.accept(arrived(self._paths, self._state.accepted, time_ns(), self._settled_ns))
        return {"taken": len(self._state.files), "final": self._final}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start == end:
            return []
        if start["final"]:
            raise UsageError("this stream ended with final; a new stream needs a new checkpoint and state folder")
        if end["taken"] > len(self._state.files) or start["taken"] > end["taken"]:
            raise UsageError(
                f"{self._folder}: the state does not match the checkpoint; start again with new folders for both"
            )
        begin = self._state.last_snapshot(start["taken"])
        return [MicroBatch(begin, self._state.files[begin : end["taken"]], start["taken"] - begin, end["final"])]

    def commit(self, end: Offset) -> None:
        self._state.forget(end["taken"])

    # -- in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, MicroBatch):  # Spark passes this if there is no partition
            return
        few_collections()
        run = self._run(partition.begin)
        for _ in played(run, partition.files[: partition.reread]):
            pass
        for table, block in played(run, partition.files[partition.reread :], final=partition.final):
            if (batch := self._selection.batch(table, block)) is not None:
                yield batch
        if not partition.final:
            state.write(state.snapshot(self._folder, partition.begin + len(partition.files)), save(*run))

    def _run(self, begin: int) -> StreamRun:
        apis = registry(self._args)
        if begin:
            engine, listing, rows = load(state.snapshot(self._folder, begin).read_bytes(), apis)
            return engine, listing, rows
        options = replace(
            options_of(self._args, self._selection.columns),
            kafka_ports=ports(self._args),
            tls_keys=self._args.tls_keys,
            max_request_bytes=self._args.max_request_bytes,
        )
        return (
            Engine(options, apis),
            Listing(apis, waits=False),
            Rows(_name(self._paths[0]), records=not self._selection.columns.keys().isdisjoint(OF_RECORDS)),
        )


def played(run: StreamRun, files: Sequence[File], *, final: bool = False) -> Iterator[tuple[str, Block]]:
    """Yield the table rows from these files; `final`: the capture ends with them."""
    engine, listing, rows = run

    def pages() -> Iterator[list[Event]]:
        for item in _items(files, engine.front.link.end):
            yield from engine.feed(item)
        if final:
            yield from engine.close()

    for page in pages():
        yield from rows.page(page)
        yield from rows.page(listing.page(page))
    if final:
        yield from rows.page(listing.close())
    yield from rows.rest()


def _items(files: Sequence[File], end: Moment) -> Iterator[PacketBatch | Weird]:
    """Yield the packets after `end`, merged by time, and a weird for each unreadable file."""
    lanes: list[Lane] = []
    for file in files:
        detail, size = f"{file.path}: grew after it was read", file.late
        if not file.late:
            try:
                file.check()
                lanes.append(Lane(file.path, len(lanes), file.size))
                continue
            except UnreadableInput as error:
                detail, size = str(error), file.size
        yield Weird("CAPTURE_UNREAD", "capture", end.packet, end.clock_ns, detail, size=size)
    yield from merge(lanes, Numbering([file.path for file in files]), end.packet)


def _local(path: str) -> str:
    local = str(named(path))
    if is_remote(local):
        raise UsageError(f"{path}: a stream's folders must be local or mounted, not in an object store")
    return local


def _name(path: str) -> str:
    """Return the name of the folder, which names the capture because its files change."""
    pure = PurePath(path)
    return (pure if Path(path).is_dir() else pure.parent).name or "stream"


def _seconds(text: str | None) -> int:
    try:
        return int((_SETTLED_S if text is None else float(text)) * _SECOND_NS)
    except ValueError:
        raise UsageError(f'settled is a number of seconds, not "{text}"') from None
