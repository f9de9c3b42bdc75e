"""Rows that wait until they fill a block."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kshark.analysis.results.error_codes import ErrorCodes
from kshark.records import RecordsField
from kshark.registry import Registry
from kshark.tables import exchanges
from kshark.tables.blocks import Block, Row
from kshark.tables.columns import Table

#: Rows, and bytes of messages or records, of a full block.
ROWS: Final = 1024
BYTES: Final = 1 << 20
#: Rows of records that are converted at once.
RECORDS: Final = 4096


class PendingRows:
    """Rows of each table, and complete exchanges, until they fill a block.

    Tables with long rows count bytes too.
    """

    def __init__(self, tables: Mapping[str, Table], *, records: bool, columns: Collection[str] | None = None) -> None:
        """`columns`: those of `exchanges` that the caller uses; None: all."""
        #: True if records are rows too.
        self.with_records = records
        self.rows: Final[dict[str, list[Row]]] = {name: [] for name in tables}
        self.exchanges: list[exchanges.Complete] = []
        self._codes = ErrorCodes(Registry())
        self._columns = columns
        #: Opened records fields in these exchanges.
        self.opened: list[RecordsField] = []
        #: Indexes of the size columns in rows of records.
        self._sizes: Final = [tables["records"].position(name) for name in ("key_size", "value_size")]
        #: The number of exchanges that were measured, and the bytes of their messages.
        self._counted = self._bytes = 0

    def full(self) -> Iterator[tuple[str, Block]]:
        """Return the full blocks of all tables."""
        # Opened records take more memory than the bytes of their messages: they do not wait.
        if len(self.exchanges) >= ROWS or (self.with_records and self.opened) or self._long():
            yield from self._exchanges()
        for name, rows in self.rows.items():
            if name == "records" and (len(rows) >= ROWS or self._bytes_of(rows) >= BYTES):
                yield name, _block(rows)
            # exactly ROWS rows: the size of a page is chance and must not decide where a block ends
            while len(rows) >= ROWS:
                yield name, Block.of(rows[:ROWS])
                del rows[:ROWS]

    def rest(self) -> Iterator[tuple[str, Block]]:
        """Return all other rows, as blocks."""
        if self.exchanges:
            yield from self._exchanges()
        for name, rows in self.rows.items():
            if rows:
                yield name, _block(rows)

    def records(self) -> Iterator[tuple[str, Block]]:
        """Return the records so far if they are many: a page may hold millions."""
        rows = self.rows["records"]
        if len(rows) >= RECORDS:
            yield "records", _block(rows)

    def _bytes_of(self, records: list[Row]) -> int:
        """Return the bytes of the keys and values in rows of `records`."""
        key, value = self._sizes
        return sum([(row[key] or 0) + (row[value] or 0) for row in records])

    def _long(self) -> bool:
        """True if the messages of the exchanges are long; each exchange is measured only once."""
        self._bytes += exchanges.size(self.exchanges[self._counted :])
        self._counted = len(self.exchanges)
        return self._bytes >= BYTES

    def _exchanges(self) -> Iterator[tuple[str, Block]]:
        if self.exchanges:  # none where the caller uses only other tables
            with exchanges.closed(self.opened):
                for block in exchanges.blocks(self.exchanges, self._codes, self._columns):
                    yield "exchanges", block
        self.exchanges.clear()
        self.opened.clear()
        self._counted = self._bytes = 0


def _block(rows: list[Row]) -> Block:
    """Return the waiting rows of a table as a block."""
    block = Block.of(rows)
    rows.clear()
    return block
