"""Find the records of aborted transactions in a records field.

A transaction's batches lie before its marker, a control batch of the same producer; a producer has one transaction at a
time (KIP-98). A field may begin inside a transaction and end before its marker: what it does not show is not found.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import UNSET

from kshark import limits
from kshark.records.batch import Batch, Record, RecordsField

#: The type of an abort marker. Kafka: ControlRecordType.
ABORT: Final = 0
#: The key of a control record: version and type.
_KEY: Final = struct.Struct(">hh")
#: Most bytes of a variable-length integer.
_LONGEST: Final = 10

Offsets = tuple[int, int]


class Transactions:
    """The transactions of one field; feed its batches in their order."""

    def __init__(self) -> None:
        #: Batches of transactions without a marker so far, by producer id.
        self._open: dict[int, list[Offsets]] = {}
        self.aborted: list[Offsets] = []

    def data(self, producer_id: int, first: int, last: int) -> None:
        """Take a batch of a transaction."""
        self._open.setdefault(producer_id, []).append((first, last))

    def marker(self, producer_id: int, type: int | None) -> None:
        """Take a marker; its type is None if it could not be read."""
        ended = self._open.pop(producer_id, [])
        if type == ABORT and len(self.aborted) + len(ended) <= limits.RECORD_SPANS:
            self.aborted += ended


def marker_type(buffer: bytes, start: int, stop: int) -> int | None:
    """Return the type of the control record at `buffer[start:stop]`; None if it cannot be read."""
    position = _after_number(buffer, start, stop)  # the record's length
    position = None if position is None else position + 1  # attributes
    for _ in ("timestamp", "offset", "length of the key"):
        position = None if position is None else _after_number(buffer, position, stop)
    if position is None or position + _KEY.size > stop:
        return None
    type: int = _KEY.unpack_from(buffer, position)[1]
    return type


def _after_number(buffer: bytes, position: int, stop: int) -> int | None:
    for at in range(position, min(position + _LONGEST, stop)):
        if buffer[at] < 0x80:
            return at + 1
    return None


def aborted_in(field: RecordsField) -> list[Offsets]:
    """Return the offsets of aborted batches of a field, however far it was opened."""
    if field.batches is UNSET:
        return [] if field.aborted is UNSET else field.aborted
    transactions = Transactions()
    for batch in field.batches:
        if type(batch) is not Batch or not batch.transactional or not batch.crc_ok:
            continue
        if batch.control:
            transactions.marker(batch.producer_id, _opened_type(batch))
        else:
            transactions.data(batch.producer_id, batch.base_offset, batch.base_offset + batch.last_offset_delta)
    return transactions.aborted


def _opened_type(batch: Batch) -> int | None:
    key = batch.records[0].key if batch.records and isinstance(batch.records[0], Record) else None
    return _KEY.unpack_from(key)[1] if isinstance(key, bytes) and len(key) >= _KEY.size else None
