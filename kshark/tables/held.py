"""What waits to become blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.records import RecordsField
from kshark.tables import exchanges
from kshark.tables.blocks import Block, Row
from kshark.tables.columns import TABLES

#: Rows of a block; bytes of the messages, or of the records, in it.
ROWS: Final = 1024
BYTES: Final = 1 << 20
#: Rows of records that come together.
RECORDS: Final = 4096


class Held:
    """Rows of each table, and exchanges that are complete, until they fill a block; bytes count too where a row may have many."""

    def __init__(self, *, records: bool) -> None:
        #: Whether records are rows too.
        self.with_records = records
        self.rows: Final[dict[str, list[Row]]] = {name: [] for name in TABLES}
        self.exchanges: list[exchanges.Complete] = []
        #: Records fields in them that were opened.
        self.opened: list[RecordsField] = []
        #: How many of them are counted, and the bytes of their messages.
        self._counted = self._bytes = 0

    def full(self) -> Iterator[tuple[str, Block]]:
        """Tables' names and the blocks that are full."""
        # Records that were opened take more than the bytes of their messages: they do not wait.
        if len(self.exchanges) >= ROWS or (self.with_records and self.opened) or self._long():
            yield from self._exchanges()
        for name, rows in self.rows.items():
            if len(rows) >= ROWS or (name == "records" and _bytes(rows) >= BYTES):
                yield name, _block(rows)

    def rest(self) -> Iterator[tuple[str, Block]]:
        """All the others."""
        if self.exchanges:
            yield from self._exchanges()
        for name, rows in self.rows.items():
            if rows:
                yield name, _block(rows)

    def records(self) -> Iterator[tuple[str, Block]]:
        """The records of a page so far, where they are many: it may hold millions."""
        rows = self.rows["records"]
        if len(rows) >= RECORDS:
            yield "records", _block(rows)

    def _long(self) -> bool:
        """Whether the messages of the exchanges are long; each is asked once."""
        self._bytes += exchanges.size(self.exchanges[self._counted :])
        self._counted = len(self.exchanges)
        return self._bytes >= BYTES

    def _exchanges(self) -> Iterator[tuple[str, Block]]:
        with exchanges.closed(self.opened):
            for block in exchanges.blocks(self.exchanges):
                yield "exchanges", block
        self.exchanges.clear()
        self.opened.clear()
        self._counted = self._bytes = 0


def _block(rows: list[Row]) -> Block:
    """The rows as a block, which no longer wait."""
    block = Block.of(rows)
    rows.clear()
    return block


def _bytes(records: list[Row]) -> int:
    """Bytes of the values of rows of `records`."""
    return sum([len(row[-2]) for row in records if row[-2] is not None])
