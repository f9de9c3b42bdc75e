"""The tables of an export as Arrow tables in memory, without files."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from kshark.analysis import AnalysisResult
from kshark.capture.host import host_of
from kshark.errors import UsageError, close_to
from kshark.model import Event
from kshark.output.manifest import capture_of
from kshark.output.parquet import arrow_schema, coded, record_batch
from kshark.output.parquet_part import ended
from kshark.tables import OF_RECORDS, TABLES, Block, Rows
from kshark.tables.captures import capture_names


class ArrowTables:
    """The tables of one capture of some files. `page` takes its events and results, `close` returns the tables."""

    def __init__(self, files: Sequence[str], only: Iterable[str], *, records: bool) -> None:
        """`only`: the names of the wanted tables, all if there is none. Raises UsageError for an unknown one."""
        wanted = [*only]
        for name in wanted:
            if name not in TABLES:
                raise UsageError(f'no table "{name}"{close_to(name, TABLES)} (kshark explain tables lists them)')
            if name in OF_RECORDS and not records:
                raise UsageError(f"the table {name} needs the records of batches: give records=True")
        self._names = wanted or [name for name in TABLES if records or name not in OF_RECORDS]
        self._begun = time.perf_counter()
        self._files = files
        (name,) = capture_names([files])
        self._capture = capture_of(name, files, {})
        columns = {name: [column.name for column in TABLES[name].columns] for name in wanted} if wanted else None
        self._rows = Rows(name, records=records, columns=columns)
        self._batches: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._schemas = {name: arrow_schema(TABLES[name]) for name in self._names}

    def page(self, events: Iterable[Event | AnalysisResult]) -> None:
        self._add(self._rows.page(events))

    def close(self, packets: int) -> dict[str, pa.Table]:
        """End the capture, which has so many packets."""
        seconds = time.perf_counter() - self._begun
        self._rows.end(ended(self._capture, packets, host_of(self._files), seconds))
        self._add(self._rows.rest())
        return {name: self._table(name) for name in self._names}

    def _add(self, blocks: Iterator[tuple[str, Block]]) -> None:
        for name, block in blocks:
            if name in self._schemas:
                self._batches[name].append(record_batch(coded(self._schemas[name]), block))

    def _table(self, name: str) -> pa.Table:
        """Return the rows of a table, with the schema that its Parquet file has."""
        schema = self._schemas[name]
        made = pa.Table.from_batches(self._batches[name], coded(schema))
        return made.cast(schema) if made.num_rows else schema.empty_table()
