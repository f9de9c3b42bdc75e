"""The batches and records of a records field, in the shape of the JSON lines, and the reader of a batch's header.

Source: Kafka classes DefaultRecordBatch, LegacyRecord and ControlRecordType; KIP-98 (magic 2), KIP-32 (magic 1).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kshark.records.budget import Budget
from kshark.records.faults import Carrier

TimestampType = Literal["create", "log_append"]

#: Base offset and length, at the beginning of every batch and legacy message; the length counts the bytes after it.
LOG_OVERHEAD: Final = 12
#: Position of the magic, the same in all three formats.
MAGIC_AT: Final = 16
#: Base offset, length, partition leader epoch, magic, CRC-32C, attributes, last offset delta, base and max timestamp,
#: producer id, producer epoch, base sequence, count.
HEADER: Final = Struct(">qiibIhiqqqhii")
#: The CRC-32C covers everything from here, the attributes.
CHECKED_FROM: Final = 21
#: The shortest record: one byte each for length, attributes, both deltas, key and value length, header count.
LEAST_RECORD: Final = 7

CODEC_BITS: Final = 0x07
LOG_APPEND: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

#: By the attributes' codec bits; Kafka has no codec above 4.
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")


class Control(msgspec.Struct, gc=False):
    """Content of a control record.

    Only an end-transaction marker (EndTxnMarker) has a version and a coordinator epoch.
    """

    type: str
    version: int | UnsetType = UNSET
    coordinator_epoch: int | UnsetType = UNSET


class Record(msgspec.Struct, gc=False):
    """A record.

    `timestamp` is in ms (absent in magic 0), `headers` are pairs of key and value (absent in magic 0 and 1).
    """

    offset: int
    timestamp: int | UnsetType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | UnsetType
    control: Control | UnsetType = UNSET


class OpenedRecord(Record, gc=False):
    """A record whose key or value is a structure of Kafka's.

    The decoded content stands next to it (kshark.embedded).
    """

    key_decoded: Any = UNSET
    value_decoded: Any = UNSET


class RecordSizes(msgspec.Struct, gc=False):
    """A record without its payload: sizes in bytes where Record has bytes."""

    offset: int
    timestamp: int | UnsetType
    key_size: int | None
    value_size: int | None
    headers: tuple[tuple[str, int | None], ...] | UnsetType
    control: Control | UnsetType = UNSET


AnyRecord = Record | RecordSizes
Headers = tuple[tuple[str, bytes | None], ...]
MakeRecord = Callable[[int, int | UnsetType, bytes | None, bytes | None, Headers | UnsetType], AnyRecord]


def sizes_only(
    offset: int, timestamp: int | UnsetType, key: bytes | None, value: bytes | None, headers: Headers | UnsetType
) -> RecordSizes:
    """Make a record with its payload left out."""
    sized = (
        UNSET
        if headers is UNSET
        else tuple((name, None if content is None else len(content)) for name, content in headers)
    )
    return RecordSizes(
        offset, timestamp, None if key is None else len(key), None if value is None else len(value), sized
    )


class Batch(msgspec.Struct, gc=False):
    """A record batch of magic 2.

    `size` is in bytes and includes offset and length; timestamps are in ms. `codec` is "5" to "7" for codecs that do
    not exist. `delete_horizon` is present, and true, where the base timestamp is also the time from which compaction
    may drop the batch's tombstones (KIP-534).
    """

    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    crc_ok: bool
    codec: str
    timestamp_type: TimestampType
    transactional: bool
    control: bool
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    records: list[AnyRecord]
    delete_horizon: bool | UnsetType = UNSET


#: Meaning of the attributes' lower bits, by their number: codec, timestamp type, transactional, control.
ATTRIBUTES: Final[tuple[tuple[str, TimestampType, bool, bool], ...]] = tuple(
    (
        CODECS[bits & CODEC_BITS],
        "log_append" if bits & LOG_APPEND else "create",
        bits & TRANSACTIONAL != 0,
        bits & CONTROL != 0,
    )
    for bits in range(DELETE_HORIZON)
)


def batch_of(header: tuple[int, ...], size: int, crc_ok: bool) -> Batch:
    """Make the batch of `size` bytes from its unpacked HEADER, without its records."""
    offset, _, epoch, magic, crc, attributes, last_delta, base_ms, max_ms, producer, producer_epoch, sequence, count = (
        header
    )
    codec, timestamp_type, transactional, control = ATTRIBUTES[attributes % DELETE_HORIZON]
    return Batch(
        offset, size, epoch, magic, crc, crc_ok, codec, timestamp_type, transactional, control, last_delta, base_ms,
        max_ms,
        producer, producer_epoch, sequence, count, [], True if attributes & DELETE_HORIZON else UNSET,
    )  # fmt: skip


class LegacyBatch(msgspec.Struct, gc=False):
    """A message of a legacy set (magic 0, 1), with its record or, for a compressed wrapper, the records inside it.

    `base_offset` is the wire's: for a wrapper with magic 1, the offset of its last message. Magic 0 has no timestamps.
    `crc` is CRC-32.
    """

    base_offset: int
    size: int
    magic: int
    crc: int
    crc_ok: bool
    codec: str
    timestamp_type: TimestampType | UnsetType
    records: list[AnyRecord]


class UnknownBatch(msgspec.Struct, gc=False):
    """A batch of a magic that does not exist: nothing after the magic can be read."""

    base_offset: int
    size: int
    magic: int
    records: list[AnyRecord]


AnyBatch = Batch | LegacyBatch | UnknownBatch
#: First and last offset, and the kind of span (kshark.records.spans).
OffsetSpan = tuple[int, int, str]


#: Header of a batch of an idempotent producer: base offset, size, CRC-32C, attributes, last offset delta, base and max
#: timestamp, producer id, producer epoch, base sequence, count.
ProducedBatch = tuple[int, int, int, int, int, int, int, int, int, int, int]
#: A batch of a transaction, or its marker: first and last offset, producer id, producer epoch, and the marker's type
#: (kshark.records.transactions).
TransactionBatch = tuple[int, int, int, int, int]


class RecordsField(msgspec.Struct, gc=False):
    """A records field of `size` bytes, the sum of its batches' sizes and `partial_bytes`.

    Of a field that was not opened, only the size is known. Answers to Fetch and ShareFetch also have `spans`, if the
    batches' headers were read: the offsets that have a record; and `transactions`, if there are any: the batches of
    transactions and their markers. Produce and answers to Fetch have `produced`: the batches with a producer id and a
    correct checksum. `count` is the number of records, if these were only counted.
    """

    size: int
    batches: list[AnyBatch] | UnsetType = UNSET
    partial_bytes: int | UnsetType = UNSET
    spans: list[OffsetSpan] | UnsetType = UNSET
    produced: list[ProducedBatch] | UnsetType = UNSET
    count: int | UnsetType = UNSET
    transactions: list[TransactionBatch] | UnsetType = UNSET


class RecordsSpan(msgspec.Struct, gc=False, eq=False):
    """Position of a batch's records.

    They are decompressed in `buffer[start:stop]`, or still compressed in a small zstd `frame`. `owner` is the message
    that they belong to, None until it has claimed them; `budget` is the rest of its budget.
    """

    buffer: bytes
    start: int
    stop: int
    batch: Batch
    budget: Budget
    owner: Carrier | None = None
    frame: memoryview | None = None
