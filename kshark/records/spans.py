"""Which offsets of a records field have a record, as far as the headers of its batches tell: what is left of a field
that is closed.

A span is the first and the last offset of it, and what is there:

| kind | there |
|---|---|
| `data` | a record for each offset: as many were announced as there are offsets |
| `control` | control batches, which no consumer is handed |
| `holed` | records for some of the offsets: compaction has taken the others (Kafka: LogCleaner) |
| `unread` | nobody knows: wrong checksum, contradicting header, missing bytes, or no batch of magic 2 |

Offsets between two spans have no record. Compressed batches need not be opened for it: their headers count the records,
too."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from kshark import limits
from kshark.records.batch import Batch, OffsetSpan, RecordsField

DATA: Final = "data"
CONTROL: Final = "control"
HOLED: Final = "holed"
UNREAD: Final = "unread"
#: The highest offset.
LAST: Final = (1 << 63) - 1
NOTHING_KNOWN: Final = (0, LAST, UNREAD)


def add(
    spans: list[OffsetSpan], base_offset: int, last_offset_delta: int, count: int, control: bool, crc_ok: bool
) -> None:
    """Adds a batch by its header; of one that does not lie behind those before it, or nowhere, nothing is known, nor of
    them."""
    last, size = base_offset + last_offset_delta, last_offset_delta + 1
    if not 0 <= base_offset <= last < LAST or (spans and base_offset <= spans[-1][1]):
        spans[:] = [NOTHING_KNOWN]
        return
    kind = UNREAD if not crc_ok or not 0 <= count <= size else CONTROL if control else DATA if count == size else HOLED
    if spans:
        first, before, same = spans[-1]
        if same == kind and before == base_offset - 1:
            spans[-1] = (first, last, kind)
            return
        if len(spans) >= limits.RECORD_SPANS:
            spans[-1] = (first, last, UNREAD)
            return
    spans.append((base_offset, last, kind))


def left_open(spans: list[OffsetSpan]) -> list[OffsetSpan]:
    """The spans of a field whose last bytes are no whole batch."""
    behind = spans[-1][1] + 1 if spans else 0
    return spans if behind > LAST else [*spans, (behind, LAST, UNREAD)]


def spans_of(field: RecordsField) -> list[OffsetSpan] | UnsetType:
    """Those of a field; UNSET where nobody has looked at its batches."""
    if field.batches is UNSET or field.spans is not UNSET:
        return field.spans
    spans: list[OffsetSpan] = []
    for batch in field.batches:
        if type(batch) is not Batch:
            return [NOTHING_KNOWN]
        add(spans, batch.base_offset, batch.last_offset_delta, batch.count, batch.control, batch.crc_ok)
    return left_open(spans) if field.partial_bytes else spans
