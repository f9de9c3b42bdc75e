"""Record batches and legacy message sets: what a records field holds, opened in two phases (reader), and written
(writer)."""

from kshark.records.batch import (
    AnyRecord,
    Batch,
    Control,
    LegacyBatch,
    OpenedRecord,
    Record,
    RecordsField,
    RecordSizes,
    UnknownBatch,
)
from kshark.records.reader import Opening, RecordsReader, make_reader
from kshark.records.spans import spans_of

__all__ = [
    "AnyRecord",
    "Batch",
    "Control",
    "LegacyBatch",
    "OpenedRecord",
    "Opening",
    "Record",
    "RecordSizes",
    "RecordsField",
    "RecordsReader",
    "UnknownBatch",
    "make_reader",
    "spans_of",
]
