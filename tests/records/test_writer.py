"""The writer: what it writes, the reader reads back; and kafka-python agrees with both, on both formats."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark.records import Record
from kshark.records.loop import signed
from kshark.records.writer import varint, write_batch, write_message, write_wrapper
from tests.examples import as_many
from tests.records import strategies
from tests.records.opening import NEVER, NOW, opened, people


@given(
    strategies.records(most=30), st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]), st.sampled_from([0, NEVER])
)
@settings(max_examples=as_many(80))
def test_records_survive_the_round(records, codec, columns_from):
    field, carrier = opened(write_batch(records, codec=codec), columns_from=columns_from)
    (batch,) = field.batches
    assert batch.count == len(records)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in records
    ]
    assert carrier.weird is UNSET


@given(st.lists(strategies.batches(), max_size=4), st.sampled_from([0, NEVER]))
@settings(max_examples=as_many(30))
def test_many_batches_are_each_what_they_are_alone(batches, columns_from):
    together, _ = opened(b"".join(batches), columns_from=columns_from)
    assert together.batches == [opened(batch, columns_from=NEVER)[0].batches[0] for batch in batches]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_survive_the_round(number):
    data = varint(number)
    assert signed(data, 0, len(data), 10) == (number, len(data))


@given(strategies.records(), st.booleans())
@settings(max_examples=as_many(40))
def test_kafka_python_reads_what_we_write(records, packed):
    theirs = pytest.importorskip("kafka.record.default_records")
    data = write_batch(records, codec="gzip" if packed else "none")
    batch = theirs.DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert batch.records_count == len(records)
    if records:
        assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch] == [
            (r.offset, r.timestamp, r.key, r.value, [*r.headers]) for r in records
        ]


@given(strategies.records(), st.booleans(), st.sampled_from([0, NEVER]))
@settings(max_examples=as_many(40))
def test_we_read_what_kafka_python_writes(records, packed, columns_from):
    theirs = pytest.importorskip("kafka.record.default_records")
    builder = theirs.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(packed),
        is_transactional=True,
        producer_id=5,
        producer_epoch=2,
        base_sequence=11,
        batch_size=1 << 30,
    )
    for at, record in enumerate(records):
        builder.append(at, record.timestamp, record.key, record.value, record.headers)
    field, carrier = opened(bytes(builder.build()), columns_from=columns_from)
    (batch,) = field.batches
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional) == (5, 2, 11, True)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records] == [
        (at, r.timestamp, r.key, r.value, r.headers) for at, r in enumerate(records)
    ]
    assert carrier.weird is UNSET


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_kafka_python_agrees_on_message_sets(magic, packed):
    theirs = pytest.importorskip("kafka.record.legacy_records")
    builder = theirs.LegacyRecordBatchBuilder(magic=magic, compression_type=int(packed), batch_size=1 << 30)
    for at in range(5):
        builder.append(at, timestamp=NOW + at, key=b"k%d" % at, value=None if at == 3 else b"v")
    field, _ = opened(bytes(builder.build()))
    read = [record for batch in field.batches for record in batch.records]
    assert [(r.offset, r.key, r.value) for r in read] == [
        (at, b"k%d" % at, None if at == 3 else b"v") for at in range(5)
    ]
    assert [r.timestamp for r in read] == [UNSET if magic == 0 else NOW + at for at in range(5)]

    messages = [write_message(at, b"k", b"v", magic=magic, timestamp=NOW) for at in range(3)]
    data = write_wrapper(2, messages, "gzip", magic=magic) if packed else messages[0]
    parsed = theirs.LegacyRecordBatch(bytearray(data), magic)
    assert parsed.validate_crc()
    assert [(r.offset, r.key, r.value) for r in parsed] == [(at, b"k", b"v") for at in range(3 if packed else 1)]


def test_an_empty_batch_is_as_compaction_leaves_it():
    (batch,) = opened(write_batch([], base_offset=70, last_offset_delta=9))[0].batches
    assert (batch.base_offset, batch.last_offset_delta, batch.count, batch.records) == (70, 9, 0, [])


def test_ten_thousand_records_in_one_batch_and_their_lengths_of_all_sizes():
    records = [
        Record(r.offset, r.timestamp, r.key, bytes(r.offset % 300 if r.offset % 100 else 70_000), ())
        for r in people(10_000)
    ]
    field, carrier = opened(write_batch(records))
    assert field.batches[0].records == records
    assert carrier.weird is UNSET
