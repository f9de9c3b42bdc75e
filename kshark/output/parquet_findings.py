"""The findings table as a separate Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kshark.model import Closed, Event, Finding, Opened
from kshark.output.parquet import arrow_schema, record_batch
from kshark.output.parquet_files import GROUP_ROWS
from kshark.tables import TABLES, Block, Rows

_TABLE: Final = TABLES["findings"]


class FindingRows:
    """The rows of one capture's findings.

    Takes the capture's pages, for the connections; `close` takes its findings, in their order.
    """

    def __init__(self, capture: str) -> None:
        self._schema = arrow_schema(_TABLE)
        self._rows = Rows(capture)

    def page(self, events: Iterable[Event]) -> None:
        for _ in self._rows.page(event for event in events if isinstance(event, (Opened, Closed))):
            pass  # rows of other tables

    def close(self, findings: Iterable[Finding]) -> list[pa.RecordBatch]:
        blocks = [*self._rows.page(findings), *self._rows.rest()]
        return [self._batch(block) for name, block in blocks if name == _TABLE.name]

    def _batch(self, block: Block) -> pa.RecordBatch:
        return record_batch(self._schema, block)


class FindingsFile:
    """A file of findings, one capture after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(f".{path.name}.unfinished")
        self._schema = arrow_schema(_TABLE)
        self._writer = pq.ParquetWriter(self._unfinished, self._schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows; they wait until there are enough for a row group."""
        self._held += batches
        if sum(map(len, self._held)) >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Complete the file; only then it appears."""
        self._write()
        self._writer.close()
        os.replace(self._unfinished, self._path)

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held = []
