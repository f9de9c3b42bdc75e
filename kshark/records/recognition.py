"""Recognise a log segment, a sequence of record batches, by its first bytes.

Source: Kafka classes FileRecords, DefaultRecordBatch and LegacyRecord.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from kshark.limits import REQUEST_BYTES
from kshark.records.batch import CODEC_BITS, DELETE_HORIZON, HEADER, LOG_OVERHEAD, MAGIC_AT
from kshark.records.compression import CODEC_COUNT
from kshark.records.legacy import LEAST_MESSAGE

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_CRC: Final = Struct(">I")
#: Attributes of magic 2 that have a meaning: codec to delete horizon.
_ATTRIBUTES: Final = 2 * DELETE_HORIZON - 1


def begins_segment(head: bytes | bytearray | memoryview, at: int = 0) -> bool:
    """True if a record batch begins there: its header contradicts neither itself nor the format.

    The checksum of a batch of magic 2 is not needed: its header has enough fields that must agree. That of an older
    message is, so it must be here as a whole.
    """
    if len(head) - at <= MAGIC_AT:
        return False
    offset, length = _OFFSET_AND_LENGTH.unpack_from(head, at)
    if offset < 0 or length > REQUEST_BYTES:
        return False
    magic, stop = head[at + MAGIC_AT], at + LOG_OVERHEAD + length
    if magic == 2:
        return len(head) - at >= HEADER.size and _fits(HEADER.unpack_from(head, at))
    if magic not in LEAST_MESSAGE or LOG_OVERHEAD + length < LEAST_MESSAGE[magic] or stop > len(head):
        return False
    checked = memoryview(head)[at + MAGIC_AT : stop]
    return bool(zlib.crc32(checked) == _CRC.unpack_from(head, at + LOG_OVERHEAD)[0])


def _fits(header: tuple[int, ...]) -> bool:
    """True if the fields of a batch's header can stand together; compaction may have removed records."""
    _, length, leader_epoch, _, _, attributes, last_delta, _, _, producer_id, producer_epoch, _, count = header
    return (
        LOG_OVERHEAD + length >= HEADER.size
        and leader_epoch >= -1
        and 0 <= attributes <= _ATTRIBUTES
        and attributes & CODEC_BITS < CODEC_COUNT
        and 0 <= count <= last_delta + 1
        and producer_id >= -1
        and producer_epoch >= -1
    )
