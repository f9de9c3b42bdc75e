"""Read LZ4 frames block by block.

On a small batch this is ten times as fast as a frame decoder that is built for each frame (1 against 11 us). Source:
LZ4 frame format description 1.6.1. Producers of magic 0 and 1 wrote a wrong header checksum (KIP-57), so it is not
checked. Blocks that refer to the block before them need the frame decoder, which is given the right checksum.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

import cramjam

from kshark.records.faults import DecompressionFailed, RoomExceeded

MAGIC: Final = b"\x04\x22\x4d\x18"
INDEPENDENT_BLOCKS: Final = 0x20
BLOCK_CHECKSUM: Final = 0x10
CONTENT_SIZE: Final = 0x08
CONTENT_CHECKSUM: Final = 0x04
DICTIONARY_ID: Final = 0x01
#: Bit in a block's size: the block is stored, not compressed.
STORED: Final = 0x80000000
#: Largest decompressed block, by bits 4 to 6 of the descriptor's second byte.
BLOCK_BYTES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
#: Magic, and both bytes of the descriptor.
_BEGIN: Final = Struct("<4sBB").unpack_from
_UINT32: Final = Struct("<I").unpack_from


def decompress_into(data: memoryview, room: memoryview) -> int:
    """Decompress all frames in `data` into `room`; return the number of bytes written.

    Raises DecompressionFailed, RoomExceeded, cramjam.DecompressionError.
    """
    position = written = 0
    while position < len(data):
        magic, flags, sizes = _BEGIN(data, position) if len(data) - position >= 7 else (b"", 0, 0)
        if magic != MAGIC:
            raise DecompressionFailed(f"lz4: no frame at byte {position}")
        largest = BLOCK_BYTES.get(sizes >> 4 & 7)
        if flags >> 6 != 1 or largest is None:
            raise DecompressionFailed("lz4: an invalid frame descriptor")
        first = position + 7 + (8 if flags & CONTENT_SIZE else 0) + (4 if flags & DICTIONARY_ID else 0)
        if not flags & INDEPENDENT_BLOCKS and _has_second_block(data, first, flags):
            repaired = b"".join(
                (data[position : first - 1], bytes((header_checksum(data[position + 4 : first - 1]),)), data[first:])
            )
            return written + int(cramjam.lz4.decompress_into(repaired, room[written:]))
        position, written = _blocks(data, first, flags, largest, room, written)
    return written


def _blocks(
    data: memoryview, position: int, flags: int, largest: int, room: memoryview, written: int
) -> tuple[int, int]:
    """Read one frame's blocks; return the position after the frame, and the number of filled bytes of `room`."""
    trailer = 4 if flags & BLOCK_CHECKSUM else 0
    while size := _block_size(data, position):
        start = position + 4
        stop = start + (size & ~STORED)
        if stop > len(data):
            raise DecompressionFailed("lz4: ends inside a block")
        space = min(largest, len(room) - written)
        if size & STORED:
            if stop - start > space:
                raise RoomExceeded if space < largest else DecompressionFailed("lz4: a block larger than announced")
            room[written : written + stop - start] = data[start:stop]
            written += stop - start
        else:
            try:
                written += int(
                    cramjam.lz4.decompress_block_into(
                        data[start:stop], room[written : written + space], output_len=space
                    )
                )
            except cramjam.DecompressionError as error:
                raise (RoomExceeded if space < largest else DecompressionFailed(str(error))) from error
        position = stop + trailer
    return position + 4 + (4 if flags & CONTENT_CHECKSUM else 0), written


def _block_size(data: memoryview, position: int) -> int:
    try:
        size: int = _UINT32(data, position)[0]
    except StructError:
        raise DecompressionFailed("lz4: ends without an end mark") from None
    return size


def _has_second_block(data: memoryview, position: int, flags: int) -> bool:
    size = _block_size(data, position)
    return size != 0 and _block_size(data, position + 4 + (size & ~STORED) + (4 if flags & BLOCK_CHECKSUM else 0)) != 0


def header_checksum(descriptor: bytes | memoryview) -> int:
    """Return the last byte of a frame header, from its descriptor (2 to 14 bytes).

    It is bits 8 to 15 of the xxHash32 with seed 0.
    """
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    word = 0xFFFFFFFF
    value = prime5 + len(descriptor) & word
    whole = len(descriptor) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(descriptor[at : at + 4], "little") * prime3 & word
        value = (value << 17 | value >> 15) * prime4 & word
    for byte in descriptor[whole:]:
        value = value + byte * prime5 & word
        value = (value << 11 | value >> 21) * prime1 & word
    value = (value ^ value >> 15) * prime2 & word
    value = (value ^ value >> 13) * prime3 & word
    return (value ^ value >> 16) >> 8 & 0xFF
