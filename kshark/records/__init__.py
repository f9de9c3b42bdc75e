"""Record batches and legacy message sets: the content of a records field.

`reader` opens it in two phases, `writer` writes it.
"""

from kshark.records.aborted import aborted_in
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
from kshark.records.counting import make_reader
from kshark.records.reader import Opening, RecordsReader
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
    "aborted_in",
    "make_reader",
    "spans_of",
]
