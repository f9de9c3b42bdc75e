"""Read records of many batches at once, as numpy columns.

One step reads a field of all records; Python objects are made only at the end. A batch that does not fit exactly (a
length, a count, an offset) is left to kshark.records.loop, which finds the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np

from kshark.records.batch import LEAST_RECORD, AnyRecord, Record, RecordSizes, RecordsSpan
from kshark.records.loop import NO_HEADERS
from kshark.records.rows import LOST, Bools, HeaderRows, Int64s, Rows
from kshark.records.slices import slices
from kshark.records.walk import record_ends

#: Records read in one step: enough to make numpy's calls cheap, few enough for the processor's cache.
STEP: Final = 16_384
#: Header keys remembered as text, and the longest of them.
NAMES: Final = 4096
NAME_BYTES: Final = 100


def fits_columns(span: RecordsSpan) -> bool:
    """True if the batch's count is possible, and its records are ordinary records, not control records."""
    return 0 < span.batch.count <= (span.stop - span.start) // LEAST_RECORD and not span.batch.control


class Columns:
    """Reader of the spans of one buffer. It makes Record if `payload`, else RecordSizes."""

    def __init__(self, payload: bool) -> None:
        self._payload = payload
        self._make: Callable[..., AnyRecord] = Record if payload else RecordSizes
        self._names = _Names()

    def read(self, buffer: bytes, spans: Sequence[RecordsSpan]) -> list[RecordsSpan]:
        """Fill the batches of spans for which `fits_columns`; return the spans that kshark.records.loop has to read."""
        data = np.frombuffer(buffer, np.uint8)
        batches = [span.batch for span in spans]
        counts = _column(batch.count for batch in batches)
        starts = _column(span.start for span in spans)
        after = np.cumsum(counts)
        first = after - counts
        owner = np.repeat(np.arange(len(spans)), counts)
        ends, whole = record_ends(buffer, data, starts, _column(span.stop for span in spans), counts)
        begins = np.empty_like(ends)
        begins[1:] = ends[:-1]
        begins[first] = starts
        begins[~whole[owner]] = LOST
        offset = _column(batch.base_offset for batch in batches)
        appended = np.array([batch.timestamp_type == "log_append" for batch in batches])
        when = np.where(
            appended,
            _column(batch.max_timestamp for batch in batches),
            _column(batch.base_timestamp for batch in batches),
        )

        budgets = _Budgets(spans)
        if not budgets.afford(counts):
            return list(spans)
        records: list[AnyRecord] = []
        deltas = np.empty_like(ends)
        for low in range(0, len(ends), STEP):
            step = slice(low, low + STEP)
            of = owner[step]
            rows = Rows(data, begins[step], ends[step])
            if rows.headers and not budgets.afford(np.bincount(of, rows.headers.count, len(spans)).astype(np.int64)):
                return list(spans)
            # A record that does not fit gets an offset delta that no batch allows.
            deltas[step] = np.where(rows.fit, rows.offset_delta, -1)
            timestamp = np.where(appended[of], when[of], when[of] + rows.timestamp_delta)
            records += self._records(buffer, rows, offset[of] + rows.offset_delta, timestamp)
        before = np.empty_like(deltas)
        before[1:] = deltas[:-1]
        before[first] = -1
        whole[owner[deltas <= before]] = False
        whole &= deltas[after - 1] <= _column(batch.last_offset_delta for batch in batches)
        for batch, low, high in zip(batches, first.tolist(), after.tolist(), strict=True):
            batch.records = records[low:high]
        return budgets.spend(whole)

    def _records(self, buffer: bytes, rows: Rows, offset: Int64s, timestamp: Int64s) -> Iterable[AnyRecord]:
        return map(
            self._make,
            offset.tolist(),
            timestamp.tolist(),
            rows.key.contents(buffer) if self._payload else rows.key.sizes(),
            rows.value.contents(buffer) if self._payload else rows.value.sizes(),
            self._headers(buffer, rows.headers) if rows.headers else repeat(NO_HEADERS),
        )

    def _headers(self, buffer: bytes, rows: HeaderRows) -> Iterable[Sequence[tuple[str, Any]]]:
        keys = map(self._names.__getitem__, slices(buffer, rows.key.start, rows.key.end))
        pairs = tuple(zip(keys, rows.value.contents(buffer) if self._payload else rows.value.sizes(), strict=True))
        per_record = int(rows.count[0])
        if per_record and (rows.count == per_record).all():
            return zip(*[iter(pairs)] * per_record, strict=True)
        bounds = zip(rows.first.tolist(), (rows.first + rows.count).tolist(), strict=True)
        return [pairs[i:j] if i < j else NO_HEADERS for i, j in bounds]


def _column(values: Iterable[int]) -> Int64s:
    return np.fromiter(values, np.int64)


class _Budgets:
    """Demand of spans on the budgets of their messages: first their records, then their headers as they are counted."""

    def __init__(self, spans: Sequence[RecordsSpan]) -> None:
        self._spans = spans
        budgets = [span.budget for span in spans]
        number = _column(map(id, budgets))
        #: The first span of each message; spans are in the order of their messages.
        self._first = np.concatenate(([0], np.flatnonzero(number[1:] != number[:-1]) + 1))
        self._budgets = [budgets[at] for at in self._first.tolist()]
        self._left = _column(budget.records for budget in self._budgets)
        self._demand = np.zeros(len(spans), np.int64)

    def afford(self, demand: Int64s) -> bool:
        """Add this much demand for each span. True if every budget exceeds its demand."""
        self._demand += demand
        return bool((np.add.reduceat(self._demand, self._first) < self._left).all())

    def spend(self, good: Bools) -> list[RecordsSpan]:
        """Subtract the demand of the good spans from their budgets; return the other spans."""
        spent = np.add.reduceat(np.where(good, self._demand, 0), self._first)
        for budget, count in zip(self._budgets, spent.tolist(), strict=True):
            budget.records -= count
        return [self._spans[at] for at in np.flatnonzero(~good).tolist()]


class _Names(dict[bytes, str]):
    """Header keys as text, each decoded only once: applications use few."""

    def __missing__(self, key: bytes) -> str:
        name = key.decode("utf-8", "backslashreplace")
        if len(key) <= NAME_BYTES:
            if len(self) >= NAMES:
                self.clear()
            self[key] = name
        return name
