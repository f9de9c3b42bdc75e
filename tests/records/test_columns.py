"""Columns against the loop: where many batches go side by side, in steps, with pieces of all sizes, and some of them
damaged."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.records import Record, columns, reader, walk
from kshark.records.slices import slices
from kshark.records.writer import write_batch
from tests.examples import as_many
from tests.records.opening import NEVER, NOW, opened, people, plain


def mixed(draw: random.Random, first: int, count: int) -> list[Record]:
    """Records with and without keys, values and headers, some of them long."""
    return [
        Record(
            first + i,
            NOW + draw.randrange(-50, 20_000),
            draw.choice([None, b"", b"key-%d" % i]),
            draw.choice([None, b"v" * draw.randrange(9), b"value" * draw.randrange(80)]),
            tuple(
                (f"h{draw.randrange(3)}", draw.choice([None, b"x" * draw.randrange(200)]))
                for _ in range(draw.choice([0, 0, 1, 5]))
            ),
        )
        for i in range(count)
    ]


def same_both_ways(data: bytes) -> None:
    by_loop, by_columns = opened(data, columns_from=NEVER), opened(data, columns_from=0)
    assert plain(by_loop[0]) == plain(by_columns[0])
    assert (by_loop[1].weird, by_loop[1].detail) == (by_columns[1].weird, by_columns[1].detail)


def test_many_batches_of_all_lengths_some_damaged():
    draw = random.Random(1)
    for damaged in (0, 1, 30):
        batches = [
            bytearray(write_batch(mixed(draw, 100 * i, draw.randrange(12)))) for i in range(2 * walk.SIDE_BY_SIDE)
        ]
        for _ in range(damaged):
            batch = draw.choice(batches)
            batch[draw.randrange(61, len(batch) + 61) % len(batch)] = draw.choice([0, 1, 2, 64, 127, 128, 255])
        same_both_ways(b"".join(batches))


def test_a_few_batches_of_short_and_long_ones_some_damaged():
    draw = random.Random(3)
    for count in (1, 2, 20, 40, 60, 90):
        for most in (2, 5, 40):
            batches = [bytearray(write_batch(mixed(draw, 100 * i, draw.randrange(most)))) for i in range(count)]
            same_both_ways(b"".join(batches))
            damaged = draw.choice(batches)
            damaged[draw.randrange(61, len(damaged) + 61) % len(damaged)] = draw.choice([0, 1, 2, 127, 128, 255])
            same_both_ways(b"".join(batches))


@pytest.mark.parametrize("joined_bytes", [0, reader.JOINED_BYTES])
def test_plain_and_compressed_batches_of_one_field(monkeypatch, joined_bytes):
    monkeypatch.setattr(reader, "JOINED_BYTES", joined_bytes)
    draw = random.Random(4)
    for _ in range(20):
        codecs = draw.choices(["none", "none", "gzip", "snappy", "lz4", "zstd"], k=draw.randrange(1, 12))
        batches = [
            bytearray(write_batch(mixed(draw, 100 * i, draw.randrange(9)), codec=codec))
            for i, codec in enumerate(codecs)
        ]
        same_both_ways(b"".join(batches))
        damaged = draw.choice(batches)
        damaged[draw.randrange(61, len(damaged) + 61) % len(damaged)] ^= draw.choice([1, 64, 128])
        same_both_ways(b"".join(batches))


def test_steps_end_anywhere(monkeypatch):
    monkeypatch.setattr(columns, "STEP", 7)
    draw = random.Random(2)
    for count in (1, 6, 7, 8, 50):
        same_both_ways(b"".join(write_batch(mixed(draw, 100 * i, count)) for i in range(3)))


def test_a_record_with_more_headers_than_columns_take():
    headers = tuple((str(i), b"%d" % i) for i in range(200))
    same_both_ways(write_batch([*people(80), Record(80, NOW, None, None, headers)]))


def test_a_record_longer_than_two_bytes_of_length_say():
    same_both_ways(write_batch([Record(i, NOW, None, bytes(3_000_000 if i == 3 else 20_000), ()) for i in range(5)]))


def test_a_long_record_among_many_short_ones():
    same_both_ways(write_batch([*people(100), Record(100, NOW, b"k", b"long" * 5000, ())]))


def test_times_and_offsets_wrap_as_in_java():
    edge = 2**63 - 1
    data = write_batch(people(3), base_offset=0, base_timestamp=NOW)
    wrapped = edge.to_bytes(8) + data[8:27] + edge.to_bytes(8) + data[35:]
    for columns_from in (0, NEVER):
        records = opened(wrapped, columns_from=columns_from)[0].batches[0].records
        assert [record.offset for record in records] == [edge, -edge - 1, -edge]
        assert [record.timestamp for record in records] == [edge, 1 - edge, 4 - edge]


@given(st.binary(max_size=2000), st.integers(1, 400), st.integers(0, 6), st.randoms(use_true_random=False))
@settings(max_examples=as_many(60))
def test_slices_are_slices(buffer, count, spread, draw):
    pairs = [sorted((draw.randrange(len(buffer) + 1), draw.randrange(len(buffer) + 1))) for _ in range(count)]
    if spread < 6:  # a few sizes only
        pairs = [(start, min(start + draw.randrange(spread + 1), len(buffer))) for start, _ in pairs]
    start, end = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    assert slices(buffer, start, end) == [buffer[i:j] for i, j in pairs]
