"""Write record batches and legacy message sets, for synthetic conversations, tests and encoding.

Every header field can be set to a wrong value. Source: Kafka classes DefaultRecordBatch, DefaultRecord, LegacyRecord.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import Final

import cramjam
from msgspec import UNSET

from kshark.records.batch import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND,
    TRANSACTIONAL,
    Record,
    TimestampType,
)
from kshark.records.compression import XERIAL_MAGIC
from kshark.records.crc import crc32c

#: Uncompressed bytes of one block in xerial's framing, as Kafka's Java client writes it.
XERIAL_BLOCK: Final = 32 << 10


def write_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    codec: str = "none",
    timestamp_type: TimestampType = "create",
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    partition_leader_epoch: int = -1,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    crc: int | None = None,
    magic: int = 2,
    length: int | None = None,
    attributes: int | None = None,
    raw_records: bytes | None = None,
) -> bytes:
    """Return a batch of magic 2.

    Arguments that are None are derived from the records; `raw_records` replace the compressed records.
    """
    rows = list(records)
    first = rows[0].offset if base_offset is None and rows else base_offset or 0
    times = [0 if row.timestamp is UNSET else row.timestamp for row in rows] or [-1]
    start_ms = times[0] if base_timestamp is None else base_timestamp
    content = b"".join(write_record(row, first, start_ms) for row in rows)
    bits = CODECS.index(codec)
    bits |= (timestamp_type == "log_append" and LOG_APPEND) | (transactional and TRANSACTIONAL) | (control and CONTROL)
    bits |= delete_horizon and DELETE_HORIZON
    checked = HEADER.pack(
        first,
        0,
        partition_leader_epoch,
        magic,
        0,
        bits if attributes is None else attributes,
        (rows[-1].offset - first if rows else 0) if last_offset_delta is None else last_offset_delta,
        start_ms,
        max(times) if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(rows) if count is None else count,
    )[21:] + (COMPRESS[codec](content) if raw_records is None else raw_records)
    return (
        pack(">qi", first, len(checked) + 9 if length is None else length)
        + pack(">ibI", partition_leader_epoch, magic, crc32c()(checked) if crc is None else crc)
        + checked
    )


def write_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """Return a record of magic 2 with its length."""
    timestamp = 0 if record.timestamp is UNSET else record.timestamp - base_timestamp
    headers = () if record.headers is UNSET else record.headers
    parts = [
        b"\0",
        varint(timestamp),
        varint(record.offset - base_offset),
        _sized(record.key),
        _sized(record.value),
        varint(len(headers)),
    ]
    for name, value in headers:
        parts += (_sized(name.encode()), _sized(value))
    body = b"".join(parts)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    """Encode a zigzag varint of 64 bits."""
    value = (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def write_message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    timestamp: int = -1,
    codec: str = "none",
    timestamp_type: TimestampType = "create",
    crc: int | None = None,
) -> bytes:
    """Return a message of magic 0 or 1; `codec` only sets its attributes."""
    attributes = CODECS.index(codec) | (timestamp_type == "log_append" and LOG_APPEND)
    checked = pack(">bb", magic, attributes) + (pack(">q", timestamp) if magic else b"")
    for content in (key, value):
        checked += pack(">i", -1) if content is None else pack(">i", len(content)) + content
    return pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked) if crc is None else crc) + checked


def write_wrapper(offset: int, messages: Iterable[bytes], codec: str, *, magic: int = 1, timestamp: int = -1) -> bytes:
    """Return a compressed message that contains others.

    In magic 1, `offset` is that of the last message inside, and the offsets inside are relative.
    """
    return write_message(
        offset, None, COMPRESS[codec](b"".join(messages)), magic=magic, timestamp=timestamp, codec=codec
    )


def xerial(data: bytes) -> bytes:
    """Compress with snappy in xerial's framing, as Java clients write it; librdkafka writes it raw."""
    out = [XERIAL_MAGIC, pack(">ii", 1, 1)]
    for at in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK]))
        out += (pack(">i", len(block)), block)
    return b"".join(out)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


COMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "none": lambda data: data,
    "gzip": lambda data: zlib.compress(data, wbits=31),
    "snappy": xerial,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
