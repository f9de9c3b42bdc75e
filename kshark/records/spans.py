"""Find the offsets of a records field that have a record, from the headers of its batches.

A closed field keeps only these spans. A span is a first offset, a last offset and a kind:

| kind | offsets in the span |
|---|---|
| `data` | a record for each offset: the header announces as many records as there are offsets |
| `control` | control batches, which are never delivered to a consumer |
| `holed` | records for some of the offsets: compaction has removed the others (Kafka: LogCleaner) |
| `unread` | unknown: wrong checksum, contradicting header, missing bytes, or no batch of magic 2 |

Offsets between two spans have no record. Compressed batches need not be opened: their headers count the records, too.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from kshark import limits
from kshark.records.batch import ATTRIBUTES, Batch, OffsetSpan, ProducedBatch, RecordsField

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
    """Add a batch by its header.

    If the batch does not lie after those before it, or has impossible offsets, nothing is known of the whole field.
    """
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
    """Return the spans of a field whose last bytes are not a whole batch."""
    after = spans[-1][1] + 1 if spans else 0
    return spans if after > LAST else [*spans, (after, LAST, UNREAD)]


def spans_of(field: RecordsField) -> list[OffsetSpan] | UnsetType:
    """Return the spans of a field; UNSET where its batches were not read."""
    if field.batches is UNSET or field.spans is not UNSET:
        return field.spans
    spans: list[OffsetSpan] = []
    for batch in field.batches:
        if type(batch) is not Batch:
            return [NOTHING_KNOWN]
        add(spans, batch.base_offset, batch.last_offset_delta, batch.count, batch.control, batch.crc_ok)
    return left_open(spans) if field.partial_bytes else spans


def produced_of(field: RecordsField) -> list[ProducedBatch] | UnsetType:
    """Return the batches of a field that have a producer id; UNSET where its batches were not read, or have none."""
    if field.batches is UNSET or field.produced is not UNSET:
        return field.produced
    produced = [
        _header_of(batch) for batch in field.batches if type(batch) is Batch and batch.crc_ok and batch.producer_id >= 0
    ]
    return produced[: limits.RECORD_SPANS] or UNSET


def _header_of(batch: Batch) -> ProducedBatch:
    bits = ATTRIBUTES.index((batch.codec, batch.timestamp_type, batch.transactional, batch.control))
    return (
        batch.base_offset, batch.size, batch.crc, bits, batch.last_offset_delta, batch.base_timestamp,
        batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count,
    )  # fmt: skip
