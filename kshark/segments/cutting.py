"""Cut the bytes of a log segment into batches; bytes that are none are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kshark.limits import REQUEST_BYTES
from kshark.records.batch import CHECKED_FROM, HEADER, LOG_OVERHEAD, MAGIC_AT
from kshark.records.crc import crc32c
from kshark.records.legacy import LEAST_MESSAGE
from kshark.records.recognition import begins_segment
from kshark.segments.stored import SegmentFault

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_CRC: Final = Struct(">I")
#: Position of the checksum in a batch of magic 2.
_CRC_AT: Final = CHECKED_FROM - _CRC.size
#: The shortest batch by magic. A batch of a magic that does not exist cannot be told from damage.
_LEAST: Final = {**LEAST_MESSAGE, 2: HEADER.size}
#: Magics that are searched after damage. Zeros, which files have many of, would be candidates for magic 0.
_SEARCHED: Final = (b"\2", b"\1")
#: An old message has no header that shows damage, so only those of Kafka's usual size are waited for.
_LONGEST_SEARCHED: Final = 1 << 20
#: Position and bytes of a batch.
Cut = tuple[int, bytes]


class Cutter:
    """Cut one file. `feed` takes its bytes in any pieces, `close` ends it; both yield batches and faults in order.

    After bytes that are no batch, the next batch with the correct checksum is searched. At most one batch is held.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._data = b""
        self._position = 0  # of self._data in the file
        #: Position of the first skipped byte; None while batches follow each other.
        self._skipped_from: int | None = None
        #: True if all skipped bytes are zeros.
        self._only_zeros = True

    def feed(self, data: bytes) -> Iterator[Cut | SegmentFault]:
        self._data += data
        return self._cut(over=False)

    def close(self) -> Iterator[Cut | SegmentFault]:
        yield from self._cut(over=True)
        rest, self._data = self._data, b""
        if self._skipped_from is not None:
            self._skip(rest)
            yield self._skipped(self._position + len(rest), at_end=True)
        elif rest:
            yield self._cut_off(rest)

    def _cut(self, *, over: bool) -> Iterator[Cut | SegmentFault]:
        data, at = self._data, 0
        while len(data) - at > MAGIC_AT:
            size = self._size(data, at)
            if size is None:
                next_at = self._next(data, at + 1)
                if self._skipped_from is None:
                    self._skipped_from, self._only_zeros = self._position + at, True
                self._skip(data[at:next_at])
                at = next_at
                continue
            if len(data) - at < size:
                if self._skipped_from is None or not over:
                    break
                self._skip(data[at : at + 1])
                at += 1
                continue
            if self._skipped_from is not None:
                yield self._skipped(self._position + at)
            yield self._position + at, data[at : at + size]
            at += size
        self._data, self._position = data[at:], self._position + at

    def _size(self, data: bytes, at: int) -> int | None:
        """Return the bytes of the batch that begins there, at least those of its header; None if none does."""
        _, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
        size: int = LOG_OVERHEAD + length
        if length > REQUEST_BYTES or size < _LEAST.get(data[at + MAGIC_AT], REQUEST_BYTES + HEADER.size):
            return None
        return size if self._skipped_from is None or _may_follow_damage(data, at, size) else None

    @staticmethod
    def _next(data: bytes, at: int) -> int:
        """Return the next position from `at` on that may be a batch."""
        magics = [data.find(magic, at + MAGIC_AT) for magic in _SEARCHED]
        return min((magic - MAGIC_AT for magic in magics if magic >= 0), default=max(at, len(data) - MAGIC_AT))

    def _skip(self, skipped: bytes) -> None:
        self._only_zeros = self._only_zeros and not skipped.strip(b"\0")

    def _skipped(self, stop: int, *, at_end: bool = False) -> SegmentFault:
        """Return the skipped bytes as a fault; zeros before another batch are no reserved space."""
        begin, self._skipped_from = self._skipped_from or 0, None
        code = "SEGMENT_ZEROS" if at_end and self._only_zeros else "SEGMENT_INVALID"
        return SegmentFault(self._file, begin, code, stop - begin)

    def _cut_off(self, rest: bytes) -> SegmentFault:
        """Return why the file has bytes after its last batch."""
        if not rest.strip(b"\0"):
            return SegmentFault(self._file, self._position, "SEGMENT_ZEROS", len(rest))
        detail = ""
        if len(rest) >= LOG_OVERHEAD:
            offset, length = _OFFSET_AND_LENGTH.unpack_from(rest)
            detail = f"the batch at offset {offset} has {LOG_OVERHEAD + length:,} bytes, {len(rest):,} of them are here"
        return SegmentFault(self._file, self._position, "SEGMENT_CUT", len(rest), detail)


def _may_follow_damage(data: bytes, at: int, size: int) -> bool:
    """True for a whole batch with the correct checksum, and for one that may become that with further bytes."""
    is_new, here = data[at + MAGIC_AT] == 2, len(data) - at
    if here < size:
        return begins_segment(data, at) or here < HEADER.size if is_new else size <= _LONGEST_SEARCHED
    return begins_segment(data, at) and (not is_new or _has_right_checksum(data, at, size))


def _has_right_checksum(data: bytes, at: int, size: int) -> bool:
    checked = memoryview(data)[at + CHECKED_FROM : at + size]
    return bool(crc32c()(checked) == _CRC.unpack_from(data, at + _CRC_AT)[0])
