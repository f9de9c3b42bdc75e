"""The codecs, into bounded room: what comes out is what went in, or nothing is, and it is said why."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.records import lz4
from kshark.records.compression import decompress_into
from kshark.records.faults import DecompressionFailed, RoomExceeded
from kshark.records.writer import COMPRESS, raw_snappy, xerial
from tests.examples import as_many

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TEXT = b"".join(b'{"order":%d,"state":"paid"}' % (n * 7919) for n in range(8000))


def decompressed(codec: str, data: bytes, room: int = 1 << 20) -> bytes:
    into = bytearray(room)
    return bytes(into[: decompress_into(CODECS[codec], memoryview(data), memoryview(into))])


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=200) | st.integers(0, 200_000).map(lambda size: TEXT[:size]))
@settings(max_examples=as_many(15))
def test_what_goes_in_comes_out(codec, data):
    packed = COMPRESS[codec](data)
    assert decompressed(codec, packed, len(data)) == data
    if data:
        with pytest.raises(RoomExceeded):
            decompressed(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
@given(st.integers(1, 2000).map(lambda size: TEXT[:size]), st.data())
@settings(max_examples=as_many(40))
def test_damaged_bytes_end_in_a_refusal_or_in_other_bytes(codec, data, draw):
    packed = bytearray(COMPRESS[codec](data))
    for _ in range(3):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    del packed[draw.draw(st.integers(0, len(packed))) :]
    with suppress(DecompressionFailed, RoomExceeded):
        assert len(decompressed(codec, bytes(packed), 10_000)) <= 10_000


def test_gzip_with_several_members_and_one_that_ends_early():
    assert decompressed("gzip", gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    with pytest.raises(DecompressionFailed, match="ends early"):
        decompressed("gzip", gzip.compress(TEXT)[:-9])
    with pytest.raises(RoomExceeded):
        decompressed("gzip", gzip.compress(b"one ") + gzip.compress(TEXT), 100)


def test_snappy_raw_in_xerial_blocks_and_two_streams_of_them():
    assert decompressed("snappy", raw_snappy(TEXT)) == TEXT
    assert decompressed("snappy", xerial(TEXT)) == TEXT
    assert decompressed("snappy", xerial(b"one ") + xerial(b"two")) == b"one two"
    for wrong in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x09abc", b"\0\0"):
        with pytest.raises(DecompressionFailed):
            decompressed("snappy", xerial(b"") + wrong)


def test_zstd_with_several_frames_and_without_content_size():
    frame = cramjam.zstd.Compressor()
    frame.compress(TEXT)
    streamed = bytes(frame.finish())
    assert decompressed("zstd", streamed + COMPRESS["zstd"](b"tail")) == TEXT + b"tail"


def block(data: bytes, *, checksum: bool = False) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return len(packed).to_bytes(4, "little") + packed + (b"....") * checksum


def stored(data: bytes) -> bytes:
    return (len(data) | lz4.STORED).to_bytes(4, "little") + data


def frame(flags: int, blocks: bytes, *, size: bytes = b"", descriptor: int = 0x40) -> bytes:
    described = bytes((flags, descriptor)) + size
    return lz4.MAGIC + described + bytes((lz4.header_checksum(described),)) + blocks + bytes(4)


def test_lz4_frames_in_all_their_forms():
    independent = 0x40 | lz4.INDEPENDENT_BLOCKS
    assert decompressed("lz4", frame(independent, block(b"one ") + stored(b"two"))) == b"one two"
    assert decompressed("lz4", frame(independent | lz4.BLOCK_CHECKSUM, block(b"one", checksum=True))) == b"one"
    assert (
        decompressed("lz4", frame(independent | lz4.CONTENT_SIZE, block(b"one"), size=(3).to_bytes(8, "little")))
        == b"one"
    )
    assert decompressed("lz4", frame(independent | lz4.CONTENT_CHECKSUM, block(b"one")) + b"....") == b"one"
    assert decompressed("lz4", frame(independent, block(b"one ")) + frame(independent, block(b"two"))) == b"one two"
    assert decompressed("lz4", frame(independent, b"")) == b""


def test_lz4_blocks_that_refer_back_are_read_with_any_header_checksum():
    linked = bytearray(cramjam.lz4.compress(TEXT))
    assert not linked[4] & lz4.INDEPENDENT_BLOCKS
    assert decompressed("lz4", bytes(linked)) == TEXT
    linked[6] ^= 0x55  # as magic 0 and 1 had it
    assert decompressed("lz4", bytes(linked)) == TEXT


def test_lz4_header_checksum_is_that_of_other_writers():
    for data in (b"", b"x", TEXT):
        packed = bytes(cramjam.lz4.compress(data))
        at = 6 + (8 if packed[4] & lz4.CONTENT_SIZE else 0)
        assert lz4.header_checksum(packed[4:at]) == packed[at]


@pytest.mark.parametrize(
    "data",
    [
        lz4.MAGIC,
        b"other magic",
        frame(0x80, b""),  # another version
        frame(0x60, b"", descriptor=0),  # a block size that does not exist
        frame(0x60, block(b"one"))[:-4],  # no end mark
        frame(0x60, (100).to_bytes(4, "little") + b"short"),
        frame(0x60, b"\x05\0\0\0\xff\xff\xff\xff\xff"),
        frame(0x60, stored(bytes(70_000))),  # larger than the block size
        frame(0x40, block(b"one") + block(b"two"))[:-4],
    ],
)
def test_lz4_frames_that_are_none(data):
    with pytest.raises(DecompressionFailed):
        decompressed("lz4", data)


def test_a_bomb_takes_the_room_it_is_given_and_no_more():
    bomb = zlib.compress(bytes(50_000_000), wbits=31)
    with pytest.raises(RoomExceeded):
        decompressed("gzip", bomb, 1000)
    with pytest.raises(RoomExceeded):
        decompressed("snappy", b"\xff\xff\xff\xff\x0f" + b"claims 4 GB", 1000)
