"""Record batches and legacy message sets: the content of a records field.

`reader` opens it in two phases, `writer` writes it.
"""

from kshark.records.batch import (
    AnyRecord,
    Batch,
    Control,
    LegacyBatch,
    OpenedRecord,
    ProducedBatch,
    Record,
    RecordsField,
    RecordSizes,
    TransactionBatch,
    UnknownBatch,
)
from kshark.records.counting import make_reader
from kshark.records.produced import same_records
from kshark.records.reader import NOTHING_KEPT, Kept, Opening, RecordsReader
from kshark.records.spans import produced_of, spans_of
from kshark.records.transactions import transactions_in

__all__ = [
    "NOTHING_KEPT",
    "AnyRecord",
    "Batch",
    "Control",
    "Kept",
    "LegacyBatch",
    "OpenedRecord",
    "Opening",
    "ProducedBatch",
    "Record",
    "RecordSizes",
    "RecordsField",
    "RecordsReader",
    "TransactionBatch",
    "UnknownBatch",
    "make_reader",
    "produced_of",
    "same_records",
    "spans_of",
    "transactions_in",
]
