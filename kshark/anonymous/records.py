"""Rewrite records fields: keys, values and headers become zero bytes of the same size."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from kshark.records.batch import AnyBatch, Batch, LegacyBatch, Record
from kshark.records.crc import crc32c
from kshark.records.reader import RecordsReader
from kshark.records.writer import write_batch, write_message, write_wrapper

#: Bytes of a batch that says no more than its offset and length, and those before what its CRC covers.
_BEGIN: Final = 12
_CHECKED_FROM: Final = 21
_CRC: Final = slice(17, 21)


def without_payload(content: bytes) -> bytes:
    """Return a records field without payload. Offsets, times, counts, codecs and producers of its batches stay, and so
    does whether a CRC is right. Of a batch that cannot be opened only the header stays.
    """
    reader = RecordsReader()
    field = reader(content, 0, len(content))
    reader.fill()
    batches = () if field is None or field.batches is UNSET else field.batches
    pieces, at = [], 0
    for batch in batches:
        pieces.append(_emptied(batch, content[at : at + batch.size]))
        at += batch.size
    rest = content[at:]
    return b"".join([*pieces, rest[:_BEGIN], bytes(max(0, len(rest) - _BEGIN))])


def _emptied(batch: AnyBatch, raw: bytes) -> bytes:
    match batch:
        case Batch(control=True):
            return raw  # Kafka's own markers
        case Batch() if batch.count == len(batch.records) and batch.codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            written = write_batch(
                [_zeroed(record) for record in batch.records if isinstance(record, Record)],
                base_offset=batch.base_offset,
                codec=batch.codec,
                timestamp_type=batch.timestamp_type,
                transactional=batch.transactional,
                delete_horizon=batch.delete_horizon is True,
                partition_leader_epoch=batch.partition_leader_epoch,
                last_offset_delta=batch.last_offset_delta,
                base_timestamp=batch.base_timestamp,
                max_timestamp=batch.max_timestamp,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                count=batch.count,
            )
            return written if batch.crc_ok else _with_wrong_crc(written)
        case LegacyBatch() if batch.records:
            return _legacy(batch)
    size = 61 if isinstance(batch, Batch) else 17
    zeroed = raw[:size] + bytes(max(0, len(raw) - size))
    if isinstance(batch, Batch) and batch.crc_ok:
        crc = crc32c()(zeroed[_CHECKED_FROM:])
        zeroed = zeroed[: _CRC.start] + crc.to_bytes(4, "big") + zeroed[_CRC.stop :]
    return zeroed


def _legacy(batch: LegacyBatch) -> bytes:
    """Return a message set of one message, or one compressed message with others."""
    records = [record for record in batch.records if isinstance(record, Record)]
    first = records[0].offset
    inner = [
        write_message(
            (record.offset - first if batch.magic and batch.codec != "none" else record.offset),
            None if record.key is None else bytes(len(record.key)),
            None if record.value is None else bytes(len(record.value)),
            magic=batch.magic,
            timestamp=-1 if record.timestamp is UNSET else record.timestamp,
        )
        for record in records
    ]
    if batch.codec == "none":
        return inner[0]
    times = [record.timestamp for record in records if isinstance(record.timestamp, int)]
    return write_wrapper(batch.base_offset, inner, batch.codec, magic=batch.magic, timestamp=max(times, default=-1))


def _zeroed(record: Record) -> Record:
    headers = () if record.headers is UNSET else record.headers
    return Record(
        record.offset,
        record.timestamp,
        None if record.key is None else bytes(len(record.key)),
        None if record.value is None else bytes(len(record.value)),
        tuple(("\0" * len(name.encode()), None if value is None else bytes(len(value))) for name, value in headers),
    )


def _with_wrong_crc(batch: bytes) -> bytes:
    return batch[: _CRC.start] + bytes(byte ^ 0xFF for byte in batch[_CRC]) + batch[_CRC.stop :]
