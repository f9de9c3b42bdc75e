"""Read a batch's records exactly: one by one, with every length checked.

The reader keeps the records before a fault, and names the fault. Source: Kafka classes DefaultRecord (readFrom) and
ByteUtils (varints).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from kshark.records.batch import LEAST_RECORD, AnyRecord, Batch, Headers, MakeRecord, RecordsSpan
from kshark.records.budget import Budget
from kshark.records.control import read_control
from kshark.records.faults import BatchFault, RoomExceeded

#: Longest varint of 32 and of 64 bits.
VARINT: Final = 5
VARLONG: Final = 10
NO_HEADERS: Final[Headers] = ()
#: Most records that are shown beyond the number that the batch announces.
SURPLUS: Final = 10_000


class BrokenRecord(Exception):
    """The record contradicts itself; the text says where."""


def read_records(span: RecordsSpan, make: MakeRecord) -> tuple[list[AnyRecord], list[BatchFault]]:
    """Return all records of a span, also those beyond the batch's count, and the faults.

    A batch that may hold more records than the budget allows is not opened. Reading also stops when headers exhaust the
    budget. At most SURPLUS records are returned beyond the count.
    """
    budget = span.budget
    data, position, stop, batch = span.buffer, span.start, span.stop, span.batch
    log_append_time = batch.max_timestamp if batch.timestamp_type == "log_append" else None
    records: list[AnyRecord] = []
    faults: list[BatchFault] = []
    last_delta = -1
    in_order = True
    untyped = False
    announced = max(batch.count, 0)
    here = f"batch at offset {batch.base_offset}"
    if min(announced, (stop - position) // LEAST_RECORD) > budget.records:
        return [], [BatchFault("RECORDS_LIMIT", f"{here}: {announced} records")]
    while position < stop and len(records) < announced + SURPLUS:
        try:
            if budget.records <= 0:
                raise RoomExceeded
            size, start = signed(data, position, stop, VARINT)
            if not 0 < size <= stop - start:
                raise BrokenRecord(f"length {size}, {stop - start} bytes are left")
            timestamp, delta, key, value, headers = _fields(data, start, start + size, budget)
            position = start + size
        except BrokenRecord as error:
            return records, [
                *faults,
                BatchFault("RECORD_INVALID", f"{here}, record {len(records)} of {batch.count}: {error}"),
            ]
        except RoomExceeded:
            return records, [
                *faults,
                BatchFault("RECORDS_LIMIT", f"{here}: {stop - position} bytes from record {len(records)} on"),
            ]
        budget.records -= 1 + len(headers)
        in_order = in_order and last_delta < delta <= batch.last_offset_delta
        last_delta = delta
        when = log_append_time if log_append_time is not None else int64(batch.base_timestamp + timestamp)
        record = make(int64(batch.base_offset + delta), when, key, value, headers)
        if batch.control:
            control = read_control(key, value)
            untyped = untyped or control is None
            record.control = UNSET if control is None else control
        records.append(record)
    if untyped:
        faults.append(BatchFault("RECORD_INVALID", f"{here}: a control record without a type"))
    faults += _against_header(batch, here, len(records), is_all=position == stop, in_order=in_order)
    return records, faults


def _against_header(batch: Batch, here: str, count: int, *, is_all: bool, in_order: bool) -> Iterator[BatchFault]:
    """Yield the contradictions between the records of a batch and its header."""
    if count != batch.count:
        actual = f"{count}" if is_all else f"more than {count}"
        yield BatchFault("BATCH_COUNT_MISMATCH", f"{here}: {batch.count} records announced, {actual} present")
    if not in_order:
        yield BatchFault("BATCH_OFFSETS", f"{here}: deltas do not rise to the last one, {batch.last_offset_delta}")


def _fields(
    data: bytes, position: int, stop: int, budget: Budget
) -> tuple[int, int, bytes | None, bytes | None, Headers]:
    """Return timestamp delta, offset delta, key, value and headers of a record.

    The record lies from `position` (its attributes) to `stop`.
    """
    timestamp, position = signed(data, position + 1, stop, VARLONG)
    offset, position = signed(data, position, stop, VARINT)
    key, position = _sized(data, position, stop, "key")
    value, position = _sized(data, position, stop, "value")
    count, position = signed(data, position, stop, VARINT)
    headers = NO_HEADERS
    if count:
        # Each header has two lengths of at least a byte.
        if not 0 < count <= (stop - position) // 2:
            raise BrokenRecord(f"{count} headers in {stop - position} bytes")
        if count >= budget.records:
            raise RoomExceeded
        pairs = []
        for _ in range(count):
            name, position = _sized(data, position, stop, "header key")
            content, position = _sized(data, position, stop, "header value")
            if name is None:
                raise BrokenRecord("a header without key")
            pairs.append((name.decode("utf-8", "backslashreplace"), content))
        headers = tuple(pairs)
    if position != stop:
        raise BrokenRecord(f"{stop - position} bytes after its headers")
    return timestamp, offset, key, value, headers


def _sized(data: bytes, position: int, stop: int, field: str) -> tuple[bytes | None, int]:
    """Return the bytes after a length, and the position after them; any negative length is null, as in Kafka."""
    size, position = signed(data, position, stop, VARINT)
    if size < 0:
        return None, position
    end = position + size
    if end > stop:
        raise BrokenRecord(f"{field} of {size} bytes, {stop - position} are left")
    return data[position:end], end


def signed(data: bytes, position: int, stop: int, longest: int) -> tuple[int, int]:
    """Return a zigzag varint of at most `longest` bytes, and the position after it."""
    if position < stop and (low := data[position]) < 0x80:
        return (low >> 1) ^ -(low & 1), position + 1
    if position + 1 < stop and (high := data[position + 1]) < 0x80:
        return (low >> 1 & 0x3F | high << 6) ^ -(low & 1), position + 2
    value = shift = 0
    for at in range(position, min(position + longest, stop)):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF if longest == VARINT else 0xFFFFFFFFFFFFFFFF
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise BrokenRecord("a varint that is too long" if stop - position >= longest else "ends inside a varint")


def int64(value: int) -> int:
    """Wrap an integer around as Java's long does."""
    return (value + (1 << 63) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)
