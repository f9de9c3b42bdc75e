"""Find the batches of transactions in a records field, with their markers.

A transaction's batches lie before its marker, a control batch of the same producer; a producer has one transaction at a
time (KIP-98). A field may begin inside a transaction and end before its marker.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import UNSET

from kshark import limits
from kshark.records.batch import Batch, Record, RecordsField, TransactionBatch
from kshark.records.loop import VARINT, VARLONG, BrokenRecord, signed

#: The types of markers. Kafka: ControlRecordType.
ABORT: Final = 0
COMMIT: Final = 1
#: In place of a type: a batch with records of a transaction, and a marker that could not be read.
RECORDS: Final = -1
UNREAD: Final = -2
#: The key of a control record: version and type.
_KEY: Final = struct.Struct(">hh")


def marker_type(buffer: bytes, start: int, stop: int) -> int:
    """Return the type of the control record at `buffer[start:stop]`; UNREAD if it cannot be read."""
    try:
        _, position = signed(buffer, start, stop, VARINT)  # the record's length
        _, position = signed(buffer, position + 1, stop, VARLONG)  # the timestamp, after the attributes
        _, position = signed(buffer, position, stop, VARINT)  # the offset
        _, position = signed(buffer, position, stop, VARINT)  # the length of the key
    except BrokenRecord:
        return UNREAD
    if position + _KEY.size > stop:
        return UNREAD
    type: int = _KEY.unpack_from(buffer, position)[1]
    return type


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
