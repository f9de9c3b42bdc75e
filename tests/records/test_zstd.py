"""Small zstd frames are decompressed together, and each comes out as if it had been alone."""

from __future__ import annotations

from contextlib import suppress

import cramjam
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark.records import Record, RecordsReader, zstd
from kshark.records.writer import write_batch
from tests.examples import as_many
from tests.records.opening import NOW, message, people, plain

ROOM = memoryview(bytearray(1 << 20))


def compressed(data: bytes) -> memoryview:
    return memoryview(bytes(cramjam.zstd.compress(data)))


def java(data: bytes) -> memoryview:
    """As Java writes them: the content in a block that is not the last, then an empty one. Stored, so that a test can
    write it."""
    block = (len(data) << 3).to_bytes(3, "little") + data
    return memoryview(zstd.MAGIC + b"\x00\x58" + block + zstd.EMPTY_BLOCK)


@example([zstd._MARK[:-1], zstd._MARK[:5], b"", zstd._MARK[1:], b""])
@given(st.lists(st.binary(max_size=500), min_size=1, max_size=20))
def test_what_came_out_of_each_frame_is_told_apart(contents):
    assume(not any(zstd._MARK in content for content in contents))
    places = zstd.decompress_all([compressed(content) for content in contents], ROOM)
    assert [bytes(ROOM[start:stop]) for start, stop in places] == contents


def test_one_block_is_told_from_more():
    assert zstd.is_one_block(compressed(b"once"))
    assert zstd.is_one_block(java(b"as Java writes it"))
    assert not zstd.is_one_block(compressed(bytes(range(256)) * 1024))
    assert not zstd.is_one_block(memoryview(bytes(compressed(b"one")) + bytes(compressed(b"two"))))


@given(st.binary(max_size=60), st.integers(4, 60))
def test_of_what_passes_for_one_block_no_more_comes_out(noise, at):
    """Any bytes may be asked about; a frame with noise in it too, which sometimes passes."""
    frame = bytearray(compressed(bytes(200)))
    frame[at : at + len(noise)] = noise
    for data in (zstd.MAGIC + noise, bytes(frame)):
        if zstd.is_one_block(memoryview(data)):
            with suppress(cramjam.DecompressionError):
                assert len(bytes(cramjam.zstd.decompress(data))) <= zstd.BLOCK_BYTES


def test_a_content_that_holds_the_mark_is_not_told_apart():
    assert zstd.decompress_all([compressed(b"a" + zstd._MARK + b"b"), compressed(b"c")], ROOM) is None


def opened_together(batches: list[bytes]) -> list[tuple[object, object]]:
    """Each batch the field of a message of its own, all of them pending at once: what the fields hold, and their
    codes."""
    reader = RecordsReader()
    fields, carriers = [], [message() for _ in batches]
    for batch, carrier in zip(batches, carriers, strict=True):
        fields.append(reader(batch, 0, len(batch)))
        reader.claim(carrier)
    reader.fill()
    return [(plain(field), carrier.weird) for field, carrier in zip(fields, carriers, strict=True)]


def opened_alone(batches: list[bytes]) -> list[tuple[object, object]]:
    return [told for batch in batches for told in opened_together([batch])]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
def test_many_messages_are_opened_together(count):
    batches = [write_batch(people(3, first=3 * i), codec="zstd") for i in range(count)]
    together = opened_together(batches)
    assert together == opened_alone(batches)
    assert [record["offset"] for field, _ in together for record in field["batches"][0]["records"]] == list(
        range(3 * count)
    )


@settings(max_examples=as_many(200))
@given(st.data())
def test_a_damaged_one_harms_no_other(data):
    batches = [write_batch(people(4, first=4 * i), codec="zstd") for i in range(data.draw(st.integers(1, 6)))]
    for _ in range(data.draw(st.integers(1, 3))):
        hit = data.draw(st.integers(0, len(batches) - 1))
        place = data.draw(st.integers(61, len(batches[hit]) - 1))
        damaged = bytearray(batches[hit])
        damaged[place] = data.draw(st.integers(0, 255))
        batches[hit] = bytes(damaged)
    assert opened_together(batches) == opened_alone(batches)


def test_a_record_that_holds_the_mark_is_a_record_like_any_other():
    batches = [write_batch([Record(i, NOW, None, zstd._MARK * i, ())], codec="zstd") for i in range(3)]
    assert opened_together(batches) == opened_alone(batches)
    assert [weird for _, weird in opened_together(batches)] == [UNSET] * 3


def test_a_discarded_field_takes_its_frames_with_it():
    reader = RecordsReader()
    good, bad = write_batch(people(2), codec="zstd"), write_batch(people(9), codec="zstd")
    kept = reader(good, 0, len(good))
    reader.claim(message())
    dropped = reader(bad, 0, len(bad))
    reader.discard()
    reader.fill()
    assert (len(kept.batches[0].records), len(dropped.batches[0].records)) == (2, 0)
