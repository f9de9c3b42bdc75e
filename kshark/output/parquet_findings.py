"""The findings table as one Parquet file of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from kshark.model import Closed, Event, Finding, Opened
from kshark.output.parquet import arrow_schema, record_batch
from kshark.tables import TABLES, Rows

_TABLE: Final = TABLES["findings"]


class FindingsFile:
    """Findings of one capture after the other: `begin`, pages of events (they tell where connections begin), then `findings`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(f".{path.name}.unfinished")
        self._schema = arrow_schema(_TABLE)
        self._rows = Rows("")
        self._writer = pq.ParquetWriter(self._unfinished, self._schema, compression="zstd", store_schema=False)

    def begin(self, capture: str) -> None:
        """The next capture's events follow."""
        self._rows.begin(capture)

    def page(self, events: Iterable[Event]) -> None:
        self._write(event for event in events if isinstance(event, (Opened, Closed)))

    def findings(self, findings: Iterable[Finding]) -> None:
        """All of the capture, in their order."""
        self._write(findings)

    def close(self) -> None:
        """The file is there only when it is complete."""
        for name, block in self._rows.rest():
            if name == _TABLE.name:
                self._writer.write_batch(record_batch(self._schema, block))
        self._writer.close()
        os.replace(self._unfinished, self._path)

    def _write(self, events: Iterable[Event | Finding]) -> None:
        for name, block in self._rows.page(events):
            if name == _TABLE.name:
                self._writer.write_batch(record_batch(self._schema, block))
