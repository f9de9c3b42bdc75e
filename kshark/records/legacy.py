"""Read messages of magic 0 and 1, and compressed messages that contain a whole message set.

Source: Kafka classes LegacyRecord and AbstractLegacyRecordBatch; KIP-31 (relative offsets inside a wrapper), KIP-32
(timestamps).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType

from kshark.records.batch import (
    CODEC_BITS,
    CODECS,
    LOG_APPEND,
    LOG_OVERHEAD,
    MAGIC_AT,
    AnyRecord,
    LegacyBatch,
    MakeRecord,
)
from kshark.records.faults import BatchFault

#: Offset, size of the bytes after it, CRC-32, magic, attributes.
MESSAGE: Final = Struct(">qiIbb")
TIMESTAMP: Final = Struct(">q")
LENGTH: Final = Struct(">i")
#: A message with null key and null value, by magic.
LEAST_MESSAGE: Final = {0: MESSAGE.size + 8, 1: MESSAGE.size + 16}
#: zstd came with magic 2 (KIP-110).
LAST_CODEC: Final = 3

#: Decompresses (codec, bytes, offset of the wrapper); returns None if it fails, after reporting the fault.
Decompress = Callable[[int, bytes, int], bytes | None]


class LegacyMessage(NamedTuple):
    """A message as on the wire; `timestamp` in ms, UNSET in magic 0."""

    offset: int
    magic: int
    crc: int
    crc_ok: bool
    attributes: int
    timestamp: int | UnsetType
    key: bytes | None
    value: bytes | None


def read_legacy(
    data: bytes, make: MakeRecord, decompress: Decompress, allowance: int
) -> tuple[LegacyBatch, list[BatchFault]]:
    """Read the message in `data`, which has at least LEAST_MESSAGE bytes of its magic.

    At most `allowance` records are read.
    """
    faults: list[BatchFault] = []
    records: list[AnyRecord] = []
    message = _message(data, 0, len(data))
    if message is None:
        offset, _, crc, magic, attributes = MESSAGE.unpack_from(data)
        faults.append(BatchFault("RECORD_INVALID", f"message at offset {offset}: key and value do not fill it"))
        message = LegacyMessage(offset, magic, crc, _checksum(data, 0, len(data)) == crc, attributes, UNSET, None, None)
    elif message.attributes & CODEC_BITS == 0:
        records.append(make(message.offset, message.timestamp, message.key, message.value, UNSET))
    else:
        records, faults = _unwrap(message, make, decompress, allowance)
    if not message.crc_ok:
        faults.append(BatchFault("BATCH_CRC", f"message at offset {message.offset}"))
    batch = LegacyBatch(
        message.offset,
        len(data),
        message.magic,
        message.crc,
        message.crc_ok,
        CODECS[message.attributes & CODEC_BITS],
        UNSET if message.magic == 0 else "log_append" if message.attributes & LOG_APPEND else "create",
        records,
    )
    return batch, faults


def _unwrap(
    wrapper: LegacyMessage, make: MakeRecord, decompress: Decompress, allowance: int
) -> tuple[list[AnyRecord], list[BatchFault]]:
    here = f"message at offset {wrapper.offset}"
    codec = wrapper.attributes & CODEC_BITS
    if codec > LAST_CODEC:
        return [], [BatchFault("CODEC_INVALID", f"{here}: codec {codec} in magic {wrapper.magic}")]
    if wrapper.value is None:
        return [], [BatchFault("RECORD_INVALID", f"{here}: a wrapper without content")]
    data = decompress(codec, wrapper.value, wrapper.offset)
    if data is None:
        return [], []
    inner, faults = _inner_messages(data, wrapper.magic, here, allowance)
    log_append_time = wrapper.timestamp if wrapper.magic == 1 and wrapper.attributes & LOG_APPEND else UNSET
    # Offsets are relative in magic 1; some producers left the wrapper's offset at 0.
    base = wrapper.offset - inner[-1].offset if inner and wrapper.magic == 1 and wrapper.offset else 0
    if base < 0:
        faults.append(
            BatchFault("BATCH_OFFSETS", f"{here}: the last message inside has relative offset {inner[-1].offset}")
        )
        base = 0
    records = [
        make(
            base + message.offset,
            message.timestamp if log_append_time is UNSET else log_append_time,
            message.key,
            message.value,
            UNSET,
        )
        for message in inner
    ]
    return records, faults


def _inner_messages(data: bytes, magic: int, here: str, allowance: int) -> tuple[list[LegacyMessage], list[BatchFault]]:
    messages: list[LegacyMessage] = []
    faults: list[BatchFault] = []
    position = 0
    while position < len(data):
        if len(messages) == allowance:
            faults.append(
                BatchFault("RECORDS_LIMIT", f"{here}: {len(data) - position} bytes after message {len(messages)}")
            )
            break
        size = (
            LOG_OVERHEAD + LENGTH.unpack_from(data, position + 8)[0]
            if len(data) - position >= LEAST_MESSAGE[magic]
            else 0
        )
        stop = position + size
        message = _message(data, position, stop) if LEAST_MESSAGE[magic] <= size <= len(data) - position else None
        if message is None or message.magic != magic or message.attributes & CODEC_BITS:
            faults.append(BatchFault("RECORD_INVALID", f"{here}, message {len(messages)} inside"))
            break
        if not message.crc_ok:
            faults.append(BatchFault("BATCH_CRC", f"{here}, message {len(messages)} inside"))
        messages.append(message)
        position = stop
    return messages, faults


def _message(data: bytes, position: int, stop: int) -> LegacyMessage | None:
    """Return the message between the two positions; None if key and value do not fill it."""
    offset, _, crc, magic, attributes = MESSAGE.unpack_from(data, position)
    if stop - position < LEAST_MESSAGE.get(magic, stop - position + 1):
        return None
    at = position + MESSAGE.size
    timestamp: int | UnsetType = UNSET
    if magic == 1:
        timestamp = TIMESTAMP.unpack_from(data, at)[0]
        at += TIMESTAMP.size
    parts: list[bytes | None] = []
    for _ in ("key", "value"):
        if stop - at < LENGTH.size:
            return None
        size = LENGTH.unpack_from(data, at)[0]
        at += LENGTH.size
        if size > stop - at:
            return None
        parts.append(None if size < 0 else data[at : at + size])
        at += max(size, 0)
    if at != stop:
        return None
    key, value = parts
    return LegacyMessage(offset, magic, crc, _checksum(data, position, stop) == crc, attributes, timestamp, key, value)


def _checksum(data: bytes, position: int, stop: int) -> int:
    return zlib.crc32(memoryview(data)[position + MAGIC_AT : stop])
