"""Record batches and legacy message sets: what a records field holds, opened in two phases (reader), and written (writer)."""

from kshark.records.batch import Batch, Control, LegacyBatch, Record, RecordsField, RecordSizes, UnknownBatch
from kshark.records.reader import RecordsReader, make_reader

__all__ = [
    "Batch",
    "Control",
    "LegacyBatch",
    "Record",
    "RecordSizes",
    "RecordsField",
    "RecordsReader",
    "UnknownBatch",
    "make_reader",
]
