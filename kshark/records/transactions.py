"""Find the batches of transactions in a records field, with their markers, and those that were aborted.

A transaction's batches lie before its marker, a control batch of the same producer; a producer has one transaction at a
time (KIP-98). A field may begin inside a transaction and end before its marker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from kshark import limits
from kshark.records.batch import Batch, Record, RecordsField, TransactionBatch

#: The types of markers. Kafka: ControlRecordType.
ABORT: Final = 0
COMMIT: Final = 1
#: In place of a type: a batch with records of a transaction, and a marker that could not be read.
RECORDS: Final = -1
UNREAD: Final = -2
#: The key of a control record: version and type.
_KEY: Final = struct.Struct(">hh")
#: Most bytes of a variable-length integer.
_LONGEST: Final = 10

Offsets = tuple[int, int]


def marker_type(buffer: bytes, start: int, stop: int) -> int:
    """Return the type of the control record at `buffer[start:stop]`; UNREAD if it cannot be read."""
    position = _after_number(buffer, start, stop)  # the record's length
    position = None if position is None else position + 1  # attributes
    for _ in ("timestamp", "offset", "length of the key"):
        position = None if position is None else _after_number(buffer, position, stop)
    if position is None or position + _KEY.size > stop:
        return UNREAD
    type: int = _KEY.unpack_from(buffer, position)[1]
    return type


def _after_number(buffer: bytes, position: int, stop: int) -> int | None:
    for at in range(position, min(position + _LONGEST, stop)):
        if buffer[at] < 0x80:
            return at + 1
    return None


def transactions_in(field: RecordsField) -> list[TransactionBatch]:
    """Return the batches of transactions in a field, however far it was opened."""
    if field.batches is UNSET:
        return [] if field.transactions is UNSET else field.transactions
    batches: list[TransactionBatch] = []
    for batch in field.batches:
        if type(batch) is Batch and batch.transactional and batch.crc_ok and len(batches) < limits.RECORD_SPANS:
            type_ = _opened_type(batch) if batch.control else RECORDS
            last = batch.base_offset + batch.last_offset_delta
            batches.append((batch.base_offset, last, batch.producer_id, batch.producer_epoch, type_))
    return batches


def _opened_type(batch: Batch) -> int:
    key = batch.records[0].key if batch.records and isinstance(batch.records[0], Record) else None
    return int(_KEY.unpack_from(key)[1]) if isinstance(key, bytes) and len(key) >= _KEY.size else UNREAD


def aborted_of(batches: Iterable[TransactionBatch]) -> list[Offsets]:
    """Return the offsets of aborted batches, of all batches of a field in their order."""
    open_batches: dict[int, list[Offsets]] = {}
    aborted: list[Offsets] = []
    for first, last, producer_id, _, type_ in batches:
        if type_ == RECORDS:
            open_batches.setdefault(producer_id, []).append((first, last))
        else:
            ended = open_batches.pop(producer_id, [])
            aborted += ended if type_ == ABORT else ()
    return aborted
