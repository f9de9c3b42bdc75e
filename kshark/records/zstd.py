"""Many small zstd frames decompressed by one decoder: building a decoder for each costs 20 us, decompressing one 2 us.

(A decoder asks the processor for its features when it is built, which virtual machines answer slowly.) Between the
frames stands a frame of ours that holds a mark, by which the results are told apart. Source: RFC 8878, sections 3.1.1
and 3.1.1.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import cramjam

MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: A block decompresses to this many bytes at most.
BLOCK_BYTES: Final = 128 << 10
#: Frame_Header_Descriptor: no window size follows, a checksum stands at the end; bytes of the content size and of the
#: dictionary id.
SINGLE_SEGMENT: Final = 0x20
CHECKSUM: Final = 0x04
CONTENT_SIZE: Final = (0, 2, 4, 8)
DICTIONARY_ID: Final = (0, 1, 2, 4)
#: Block types; and what Java's streams end with, a stored block of no bytes.
RLE: Final = 1
COMPRESSED: Final = 2
EMPTY_BLOCK: Final = b"\x01\0\0"

#: Its first byte does not occur again in it, so the end of a content cannot be mistaken for its beginning.
_MARK: Final = b"\xffkshark: one ends here\n"
#: The frame with the mark: one segment, one block, which is stored (type 0) and the last; its size starts at bit 3.
_BOUNDARY: Final = MAGIC + bytes([SINGLE_SEGMENT, len(_MARK)]) + (1 | len(_MARK) << 3).to_bytes(3, "little") + _MARK


def is_one_block(data: memoryview) -> bool:
    """Whether this is one frame with one block, or with one and an empty one: then it decompresses to BLOCK_BYTES at
    most."""
    if len(data) < 9 or bytes(data[:4]) != MAGIC:
        return False
    flags = data[4]
    content_size = CONTENT_SIZE[flags >> 6]
    at = 5 + (content_size or 1 if flags & SINGLE_SEGMENT else content_size + 1) + DICTIONARY_ID[flags & 3]
    word = int.from_bytes(data[at : at + 3], "little")
    last, kind, size = word & 1, word >> 1 & 3, word >> 3
    at += 3 + (1 if kind == RLE else size)
    if not last and bytes(data[at : at + 3]) == EMPTY_BLOCK:
        last, at = 1, at + 3
    return (
        bool(last) and kind <= COMPRESSED and size <= BLOCK_BYTES and at + (4 if flags & CHECKSUM else 0) == len(data)
    )


def decompress_all(frames: Sequence[memoryview], room: memoryview) -> list[tuple[int, int]] | None:
    """Where in `room` each frame's content lies. None if that is not certain: a frame is damaged, or contains the mark
    itself."""
    try:
        size = int(cramjam.zstd.decompress_into(_BOUNDARY.join(frames), room))
    except cramjam.DecompressionError:
        return None
    contents = bytes(room[:size]).split(_MARK)
    if len(contents) != len(frames):
        return None
    places, at = [], 0
    for content in contents:
        places.append((at, at + len(content)))
        at += len(content) + len(_MARK)
    return places
