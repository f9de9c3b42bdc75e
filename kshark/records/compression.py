"""The four codecs of record batches, with a limit: they never write more than the room that the caller gives.

Sources: RFC 1952 (gzip), snappy's format description and xerial's framing of it (Kafka: SnappyFactory), RFC 8878
(zstd).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

import cramjam

from kshark.records import lz4
from kshark.records.faults import DecompressionFailed, RoomExceeded

XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
#: Magic, version, compatible version.
XERIAL_HEADER: Final = 16
#: Compressed bytes read in one step: a step may produce a thousand times as many.
GZIP_PIECE: Final = 1 << 14
#: The message of cramjam's streaming decoders when the output buffer is full.
FULL: Final = "failed to write whole buffer"


def decompress_into(codec: int, data: memoryview, room: memoryview) -> int:
    """Decompress into `room`; return the number of bytes written.

    `codec` is the number in the attributes (1 to 4). Raises DecompressionFailed or RoomExceeded.
    """
    try:
        return _DECOMPRESS[codec](data, room)
    except (cramjam.DecompressionError, zlib.error) as error:
        if FULL in str(error):
            raise RoomExceeded from error
        raise DecompressionFailed(str(error)) from error


def _gzip(data: memoryview, room: memoryview) -> int:
    # zlib is three times as fast as cramjam on small batches; wbits 31 is a gzip header and trailer.
    member = zlib.decompressobj(31)
    written = 0
    for at in range(0, len(data), GZIP_PIECE):
        out = member.decompress(data[at : at + GZIP_PIECE], len(room) - written + 1)
        if len(out) > len(room) - written:
            raise RoomExceeded
        room[written : written + len(out)] = out
        written += len(out)
        if member.eof and (member.unused_data or at + GZIP_PIECE < len(data)):
            return int(cramjam.gzip.decompress_into(data, room))  # several members
    if not member.eof:
        raise DecompressionFailed("gzip: ends early")
    return written


def _snappy(data: memoryview, room: memoryview) -> int:
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _raw_snappy(data, room)
    position = written = 0
    while position < len(data):
        if bytes(data[position : position + 8]) == XERIAL_MAGIC:  # the first stream, or another after it
            position += XERIAL_HEADER
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < size <= len(data) - position:
            raise DecompressionFailed(f"snappy: a block of {size} bytes, {len(data) - position} are left")
        written += _raw_snappy(data[position : position + size], room[written:])
        position += size
    return written


def _raw_snappy(data: memoryview, room: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(data) > len(room):
        raise RoomExceeded
    return int(cramjam.snappy.decompress_raw_into(data, room))


def _zstd(data: memoryview, room: memoryview) -> int:
    return int(cramjam.zstd.decompress_into(data, room))


GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_DECOMPRESS: Final[Mapping[int, Callable[[memoryview, memoryview], int]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: lz4.decompress_into,
    ZSTD: _zstd,
}
#: Number of codecs that exist, "none" included.
CODEC_COUNT: Final = 5
