"""Count the records of a records field by the headers of its batches, for consumers that need no more."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kshark.records.batch import HEADER, LOG_OVERHEAD, RecordsField
from kshark.records.reader import COLUMNS_FROM, NEVER, NOTHING_KEPT, Kept, Opening, RecordsReader

#: Length, magic and number of records in the header of a batch. Source: Kafka class DefaultRecordBatch.
_SIZES: Final = Struct(">8xi4xb40xi")
_HEADER_BYTES: Final = HEADER.size


class CountingReader(RecordsReader):
    """Reader that sets `count` instead of `batches`; checksums are not verified.

    A field with anything else than batches of magic 2 is opened as with "headers". A last batch that the broker cut off
    is not counted.
    """

    def __init__(self, *, payload: bool) -> None:
        super().__init__(opened="headers", payload=payload)

    def __call__(
        self, buffer: bytes, start: int, end: int, aligned: bool = True, *, kept: Kept = NOTHING_KEPT
    ) -> RecordsField:
        count = _counted(buffer, start, end) if aligned else None
        if count is None:
            return super().__call__(buffer, start, end, aligned, kept=kept)
        return RecordsField(end - start, count=count)


def _counted(buffer: bytes, start: int, end: int) -> int | None:
    """Return the number of records in a field; None if it has anything else than batches of magic 2."""
    position, count = start, 0
    while position + _HEADER_BYTES <= end:
        length, magic, records = _SIZES.unpack_from(buffer, position)
        after = position + LOG_OVERHEAD + length
        if magic != 2 or records < 0 or after < position + _HEADER_BYTES:
            return None
        if after > end:
            break
        count += records
        position = after
    return None if position == start < end else count


def make_reader(records: Opening, payload: bool, *, exact: bool = False) -> RecordsReader:
    """Return the reader for a run's options: how far batches are opened, and whether with payload.

    `exact`: one record after another.
    """
    if records == "counted":
        return CountingReader(payload=payload)
    return RecordsReader(opened=records, payload=payload, columns_from=NEVER if exact else COLUMNS_FROM, alone=exact)
