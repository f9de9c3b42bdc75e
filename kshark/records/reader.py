"""Read records fields in two phases: the codec's reader leaves empty batches, `fill` opens all pending ones at once.

A small record costs 2 us in a loop, and a quarter of that as columns over many batches. So records wait until there are
enough of them, or until their messages must be passed on. Small zstd frames wait too, to be decompressed together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from struct import Struct
from typing import Final, Literal, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.records.arena import Arena
from kshark.records.batch import (
    CHECKED_FROM,
    CODEC_BITS,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
    AnyBatch,
    Batch,
    MakeRecord,
    OffsetSpan,
    ProducedBatch,
    Record,
    RecordsField,
    RecordsSpan,
    TransactionBatch,
    UnknownBatch,
    batch_of,
    sizes_only,
)
from kshark.records.budget import Budget
from kshark.records.columns import Columns, fits_columns
from kshark.records.compression import CODEC_COUNT, ZSTD
from kshark.records.crc import crc32c
from kshark.records.faults import BatchFault, Carrier, DecompressionFailed, RoomExceeded, attach
from kshark.records.legacy import LEAST_MESSAGE, read_legacy
from kshark.records.loop import read_records
from kshark.records.spans import NOTHING_KNOWN, add, left_open
from kshark.records.transactions import RECORDS, UNREAD, marker_type
from kshark.records.zstd import is_one_block

#: How far records fields are opened: not at all, only checked (faults of the headers are reported, the field stays
#: closed), only counted, their headers, or all. "headers" also opens messages of a legacy set: their header and record
#: are one.
Opening = bool | Literal["checked", "counted", "headers"]

#: Columns are faster than the loop if one buffer has at least this many records.
COLUMNS_FROM: Final = 64
#: A longer buffer is not joined with the decompressed bytes.
JOINED_BYTES: Final = 2 << 20
#: A number larger than any count of records.
NEVER: Final = 1 << 62
#: Number of small zstd frames that are worth decompressing together.
TOGETHER: Final = 32
EMPTY: Final = memoryview(b"")
#: Placeholder for the buffer of decompressed records, which exists only in `fill`.
ARENA: Final = b""
OFFSET_AND_LENGTH: Final = Struct(">qi")
HEADER_BYTES: Final = HEADER.size
_HEADER: Final = HEADER.unpack_from
#: The shortest batch or message, by magic.
LEAST_SIZE: Final = {**LEAST_MESSAGE, 2: HEADER.size}


class Kept(NamedTuple):
    """Fields of RecordsField that are filled from the headers of batches that are only checked."""

    spans: bool = False
    produced: bool = False


NOTHING_KEPT: Final = Kept()


class RecordsReader:
    """Reader of the records fields of messages.

    Call it with the position of each field, `claim` for the message, and `fill` before the message is passed on.

    `opened`: how far fields are opened; a closed field stays `{"size": n}`. `payload`: keys and values, or only their
    sizes. Never raises on damage inside the field: each fault becomes a code of the catalogue on the message that
    claims the field. For tests: `columns_from` 0 always uses columns, a large number never; `alone` decompresses every
    frame by itself.
    """

    def __init__(
        self, *, opened: Opening = True, payload: bool = True, columns_from: int = COLUMNS_FROM, alone: bool = False
    ) -> None:
        #: True if fields were read that no message has claimed yet.
        self.unclaimed = False
        #: Decompressed bytes of records since the last `fill`.
        self.pending_bytes = 0
        #: True if a control batch was read; the code that uses it resets it.
        self.controls = False
        self._closed = not opened
        self._checked = opened == "checked"
        self._headers = opened == "headers"
        self._make: MakeRecord = Record if payload else sizes_only
        self._columns = Columns(payload)
        self._columns_from = columns_from
        self._alone = alone
        self._spans: list[RecordsSpan] = []
        self._claimed = 0  # number of spans, counted from the first
        self._small: list[RecordsSpan] = []  # the spans whose frame waits
        self._faults: dict[str, BatchFault] = {}  # faults of unclaimed fields, by code
        self._if_produced: list[BatchFault] = []  # their faults that count in a request only
        self._transactions: list[TransactionBatch] = []  # those of the current field
        self._arena = Arena()
        self._budget = Budget()

    def __call__(
        self, buffer: bytes, start: int, end: int, aligned: bool = True, *, kept: Kept = NOTHING_KEPT
    ) -> RecordsField:
        """Read the field at `buffer[start:end]`; its records are filled in later.

        `kept`: what a field that is only checked gets of its batches' headers. If the field is not `aligned`, it may
        begin and end inside a batch: then only whole batches with a correct checksum are read, up to the first bytes
        that are not such a batch, and nothing counts as a fault.
        """
        if self._closed:
            return RecordsField(end - start)
        if start < end:
            self._budget.add(end - start)
        batches: list[AnyBatch] = []
        spans: list[OffsetSpan] | None = [] if kept.spans else None
        produced: list[ProducedBatch] | None = [] if kept.produced else None
        if kept.spans:
            self._transactions = []
        position = start
        view = memoryview(buffer)
        while position < end:
            whole = aligned or self._is_whole_batch(view, position, end)
            stop = self._entry(buffer, view, start, position, end, batches, (spans, produced)) if whole else None
            if stop is None:
                break
            position = stop
        if batches or self._faults or self._if_produced:
            self.unclaimed = True
        if self._checked:
            field = RecordsField(end - start)
            if spans is not None:
                field.spans = [NOTHING_KNOWN] if batches else spans if position == end else left_open(spans)
                field.transactions = self._transactions or UNSET
            if produced:
                field.produced = produced
            return field
        return RecordsField(end - start, batches, end - position)

    @cached_property
    def _crc32c(self) -> Callable[[memoryview], int]:
        return crc32c()

    def claim(self, message: Carrier) -> None:
        """Assign the fields read since the last claim to this message.

        The message gets their codes, now or when they are filled.
        """
        for fault in (*self._faults.values(), *(self._if_produced if message.kind == "request" else ())):
            attach(fault, message)
        for span in self._spans[self._claimed :]:
            span.owner = message
        self._claimed = len(self._spans)
        self._forget_budget()
        if len(self._small) >= TOGETHER:
            self._open_small()

    def discard(self) -> None:
        """Drop the fields read since the last claim: they belong to no message."""
        del self._spans[self._claimed :]
        self._small = [span for span in self._small if span.owner is not None]
        self._forget_budget()

    def _forget_budget(self) -> None:
        self._faults.clear()
        self._if_produced.clear()
        if self._budget.size:
            self._budget = Budget()
        self.unclaimed = False

    def fill(self) -> None:
        """Fill the records into all pending batches."""
        self._open_small()
        self._fill()
        self.pending_bytes = 0
        if not self.unclaimed:
            self._forget_budget()

    def _fill(self) -> None:
        """Fill the records into the pending batches that are decompressed."""
        spans = [span for span in self._spans if span.frame is None]
        self._spans = [span for span in self._spans if span.frame is not None]
        self._claimed = sum(span.owner is not None for span in self._spans)
        self._place(spans)
        groups: dict[int, list[RecordsSpan]] = {}
        for span in spans:
            groups.setdefault(id(span.buffer), []).append(span)
        left = {id(span) for group in groups.values() for span in self._read_columns(group)}
        for span in spans if left else ():
            if id(span) not in left:
                continue
            span.batch.records, faults = read_records(span, self._make)
            for fault in faults:
                self._report(fault, span.owner)

    def _place(self, spans: list[RecordsSpan]) -> None:
        """Give the decompressed spans their buffer: the one of the others with the decompressed bytes after it, so that
        all are read together; unless it is long, or they have several.
        """
        others = {id(span.buffer): span.buffer for span in spans if span.buffer is not ARENA}
        before = next(iter(others.values())) if len(others) == 1 else b""
        if not self._arena.used or len(before) > JOINED_BYTES:
            before = b""
        opened, by = self._arena.take(before=before), len(before)
        for span in spans:
            if span.buffer is ARENA:
                span.buffer, span.start, span.stop = opened, span.start + by, span.stop + by
            elif by:
                span.buffer = opened

    def _open_small(self) -> None:
        """Decompress the small frames that wait, with the same results as one by one."""
        small, self._small = self._small, []
        for at in range(0, len(small), TOGETHER):
            if self._arena.used > limits.PENDING_RECORD_BYTES:
                self._fill()
            spans = small[at : at + TOGETHER]
            bounds = (
                None if self._alone else self._arena.add_all([span.frame for span in spans if span.frame is not None])
            )
            for index, span in enumerate(spans):
                bound: tuple[int, int] | None
                if bounds is None:
                    bound = self._decompress(ZSTD, span.frame or EMPTY, span.batch.base_offset, span.budget, span.owner)
                else:
                    bound = start, stop = bounds[index]
                    span.budget.bytes -= stop - start
                    if span.budget.bytes < 0:
                        span.budget.bytes += stop - start
                        self._report(
                            BatchFault("DECOMPRESSION_LIMIT", f"batch at offset {span.batch.base_offset}"), span.owner
                        )
                        bound = None
                span.frame = None
                if bound is None:
                    self._spans.remove(span)
                    self._claimed -= span.owner is not None
                else:
                    span.start, span.stop = bound
                    self.pending_bytes += span.stop - span.start

    def _read_columns(self, spans: list[RecordsSpan]) -> list[RecordsSpan]:
        """Read a buffer's spans as columns if that is possible and faster; return the other spans."""
        regular: list[RecordsSpan] = []
        records = 0
        for span in spans:
            if fits_columns(span):
                regular.append(span)
                records += span.batch.count
        if records < max(self._columns_from, 1):
            return spans
        left = self._columns.read(spans[0].buffer, regular)
        if len(regular) < len(spans):
            in_columns = {id(span) for span in regular}
            left += [span for span in spans if id(span) not in in_columns]
        return left

    def _entry(
        self,
        buffer: bytes,
        view: memoryview,
        start: int,
        position: int,
        end: int,
        batches: list[AnyBatch],
        kept: tuple[list[OffsetSpan] | None, list[ProducedBatch] | None],
    ) -> int | None:
        """Read the batch at `position` of the field that begins at `start`; return the position after it.

        The batch is added to `batches`, or its span and its header to the lists of `kept`. Return None if no whole
        batch is there.
        """
        room, budget = end - position, self._budget
        left = budget.records
        if left <= 0:
            self._fault("RECORDS_LIMIT", f"{room} bytes after batch {len(batches)}")
            return None
        budget.records = left - 1
        if room >= HEADER_BYTES:
            header = _HEADER(buffer, position)
            stop: int = position + LOG_OVERHEAD + header[1]
            if header[3] == 2 and position + HEADER_BYTES <= stop <= end:
                crc_ok = self._crc32c(view[position + CHECKED_FROM : stop]) == header[4]
                if not crc_ok or header[12] != header[6] + 1 or header[5] & CODEC_BITS >= CODEC_COUNT:
                    self._check_header(header, crc_ok)
                if not self._checked:
                    batches.append(self._batch(buffer, view, position, stop, header, crc_ok))
                else:
                    _keep(kept, header, stop - position, crc_ok)
                    if kept[0] is not None and crc_ok and header[5] & TRANSACTIONAL:
                        self._transaction(buffer, position, stop, header)
                return stop
        if room <= MAGIC_AT:
            return None
        return self._odd_entry(buffer, position, room, batches, first=position == start)

    def _transaction(self, buffer: bytes, position: int, stop: int, header: tuple[int, ...]) -> None:
        """Take a batch of a transaction, or its marker."""
        if len(self._transactions) >= limits.RECORD_SPANS:
            return
        type_ = RECORDS
        if header[5] & CONTROL:
            is_plain = header[5] & CODEC_BITS == 0
            type_ = marker_type(buffer, position + HEADER_BYTES, stop) if is_plain else UNREAD
        self._transactions.append((header[0], header[0] + header[6], header[9], header[10], type_))

    def _is_whole_batch(self, view: memoryview, position: int, end: int) -> bool:
        """True if a whole batch with the correct checksum is there."""
        if end - position < HEADER_BYTES:
            return False
        header = _HEADER(view, position)
        stop = position + LOG_OVERHEAD + header[1]
        if header[3] != 2 or not position + HEADER_BYTES <= stop <= end:
            return False
        return bool(self._crc32c(view[position + CHECKED_FROM : stop]) == header[4])

    def _odd_entry(
        self, buffer: bytes, position: int, room: int, batches: list[AnyBatch], *, first: bool
    ) -> int | None:
        offset, length = OFFSET_AND_LENGTH.unpack_from(buffer, position)
        size: int = LOG_OVERHEAD + length
        magic = int.from_bytes(buffer[position + MAGIC_AT : position + MAGIC_AT + 1], signed=True)
        least = LEAST_SIZE.get(magic, MAGIC_AT + 1)
        here = f"batch at offset {offset}"
        if magic not in LEAST_SIZE:
            self._fault("MAGIC_UNKNOWN", f"{here}: magic {magic}")
        elif size < least:
            self._fault("BATCH_LENGTH_INVALID", f"{here}: {size} bytes, its header has {least}")
        elif size > room and magic == 2 and first:
            # Only Fetch v0 to v2, before magic 2, sent answers that end inside their first batch (KIP-74).
            self._fault("BATCH_LENGTH_INVALID", f"{here}: {size} bytes, the field has {room}")
        if not least <= size <= room:
            return None
        if magic not in LEAST_SIZE:
            batches.append(UnknownBatch(offset, size, magic, []))
        else:
            self._fault("LEGACY_MAGIC", f"{here}: magic {magic}")
            batch, faults = read_legacy(
                buffer[position : position + size], self._make, self._decompress_now, self._budget.records
            )
            self._budget.records -= len(batch.records)
            for fault in faults:
                self._fault(*fault)
            batches.append(batch)
        return position + size

    def _check_header(self, header: tuple[int, ...], crc_ok: bool) -> None:
        """Report the faults that a batch's header shows.

        A producer gives an offset to each record (Kafka: LogValidator.validateBatch). In a stored batch, compaction may
        have removed some records.
        """
        codec = header[5] & CODEC_BITS
        if not crc_ok:
            self._fault("BATCH_CRC", f"batch at offset {header[0]}")
        if codec >= CODEC_COUNT:
            self._fault("CODEC_INVALID", f"batch at offset {header[0]}: codec {codec}")
        if header[12] != header[6] + 1 and not self._if_produced:
            text = f"batch at offset {header[0]}: {header[12]} records announced, offsets for {header[6] + 1}"
            self._if_produced.append(BatchFault("BATCH_COUNT_MISMATCH", text))

    def _batch(
        self, buffer: bytes, view: memoryview, position: int, stop: int, header: tuple[int, ...], crc_ok: bool
    ) -> Batch:
        batch = batch_of(header, stop - position, crc_ok)
        codec = header[5] & CODEC_BITS
        if batch.control:
            self.controls = True
        start = position + HEADER_BYTES
        if self._headers or codec >= CODEC_COUNT:
            pass
        elif codec == 0:
            self._pend(RecordsSpan(buffer, start, stop, batch, self._budget))
        elif codec == ZSTD and is_one_block(view[start:stop]):
            span = RecordsSpan(ARENA, 0, 0, batch, self._budget, None, view[start:stop])
            self._spans.append(span)
            self._small.append(span)
        else:
            if self._arena.used > limits.PENDING_RECORD_BYTES:
                self._fill()
            bound = self._decompress(codec, view[start:stop], batch.base_offset, self._budget)
            if bound is not None:
                self._pend(RecordsSpan(ARENA, *bound, batch, self._budget))
        return batch

    def _decompress(
        self, codec: int, data: memoryview, offset: int, budget: Budget, owner: Carrier | None = None
    ) -> tuple[int, int] | None:
        """Decompress into the arena; return the bounds of the result, None if it failed."""
        try:
            size = self._arena.add(codec, data, budget.bytes)
            budget.bytes -= size
            return self._arena.used - size, self._arena.used
        except RoomExceeded:
            self._report(BatchFault("DECOMPRESSION_LIMIT", f"batch at offset {offset}"), owner)
        except DecompressionFailed as error:
            self._report(BatchFault("DECOMPRESSION_FAILED", f"batch at offset {offset}: {error}"), owner)
        return None

    def _decompress_now(self, codec: int, data: bytes, offset: int) -> bytes | None:
        if self._arena.used > limits.PENDING_RECORD_BYTES:
            self._fill()
        bound = self._decompress(codec, memoryview(data), offset, self._budget)
        return None if bound is None else self._arena.take(bound[0])

    def _pend(self, span: RecordsSpan) -> None:
        if span.start == span.stop and span.batch.count == 0:
            return
        self._spans.append(span)
        self.pending_bytes += span.stop - span.start

    def _fault(self, code: str, detail: str) -> None:
        self._faults.setdefault(code, BatchFault(code, detail))

    def _report(self, fault: BatchFault, owner: Carrier | None) -> None:
        """Give the fault to the message that claimed the field, or keep it until a message does."""
        if owner is None:
            self._fault(*fault)
        else:
            attach(fault, owner)


def _keep(
    kept: tuple[list[OffsetSpan] | None, list[ProducedBatch] | None], header: tuple[int, ...], size: int, crc_ok: bool
) -> None:
    """Keep the span of a batch, and its header if it has a producer id."""
    spans, produced = kept
    if spans is not None:
        add(spans, header[0], header[6], header[12], header[5] & CONTROL != 0, crc_ok)
    if produced is not None and crc_ok and header[9] >= 0 and len(produced) < limits.RECORD_SPANS:
        produced.append((header[0], size, header[4], header[5] % DELETE_HORIZON, *header[6:]))  # type: ignore[arg-type]
