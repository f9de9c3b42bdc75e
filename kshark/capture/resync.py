"""Find the first record of a pcap file, or block of a pcapng file, after any byte, by its form: likely, never certain.

Neither format has markers, and captures of Kafka may contain captures. So a record counts if a chain of records begins
there that continues for SPAN bytes, and the reader of ranges proves them: each range must end where the next one
begins.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.pcap import Format
from kshark.capture.pcapng import SMALLEST_BLOCK
from kshark.limits import BLOCK_BYTES

#: Bytes of the chain. Of 300 positions in a capture whose packets hold pcaps, a chain of 3 headers was wrong at 275,
#: this length at 2.
SPAN: Final = 256 << 10
#: Bytes in which a header is searched, and the bytes read for it.
WINDOW: Final = 1 << 20
READ: Final = WINDOW + 2 * SPAN
#: The longest packet accepted in a chain; a file with longer ones is read from its beginning.
_LONGEST: Final = 1 << 18
_DAY_S: Final = 86_400
_YEAR_S: Final = 366 * _DAY_S


def first_record(data: bytes, form: Format, around_s: int, *, to_end: bool) -> int | None:
    """Return the position in `data` of the first chain; None without any.

    `around_s`: a time of the file. `to_end`: the data ends with the file.
    """
    if len(data) < form.record_header:
        return len(data) if to_end else None
    places = len(data) - form.record_header + 1
    header = sliding_window_view(np.frombuffer(data, np.uint8), 16)[: min(places, WINDOW)].view(form.order + "u4")
    second, fraction, length, wire = (header[:, column].astype(np.int64) for column in range(4))
    likely = (length > 0) & (length <= wire) & (length <= _LONGEST) & (fraction * form.unit_ns < 1_000_000_000)
    likely &= abs(second - around_s) < _YEAR_S
    return next((at for at in np.flatnonzero(likely).tolist() if _records_continue(data, at, form, to_end)), None)


def first_block(data: bytes, order: str, *, to_end: bool) -> int | None:
    """Return the position in `data` of the first chain of whole blocks; None without any.

    `data` begins at a multiple of four bytes of the file. A block begins and ends with its size. pcapng, section 3.1.
    """
    words = np.frombuffer(data, order + "u4", len(data) // 4).astype(np.int64)
    size = words[1 : 1 + WINDOW // 4]
    block_end = np.arange(len(size)) + size // 4
    likely = np.flatnonzero(
        (size >= SMALLEST_BLOCK) & (size & 3 == 0) & (size <= BLOCK_BYTES) & (block_end <= len(words))
    )
    likely = likely[words[block_end[likely] - 1] == size[likely]]
    broken: set[int] = set()
    position = next((at for at in (4 * likely).tolist() if _blocks_continue(data, at, order, to_end, broken)), None)
    return len(data) if position is None and to_end else position


def _records_continue(data: bytes, at: int, form: Format, to_end: bool) -> bool:
    """True if headers follow each other from there on."""
    header_at = struct.Struct(form.order + "IIII").unpack_from
    begin, before = at, None
    while at - begin <= SPAN:
        if at + form.record_header > len(data):
            return to_end
        second, fraction, length, wire = header_at(data, at)
        if length > wire or length > _LONGEST or fraction * form.unit_ns >= 1_000_000_000:
            return False
        if before is not None and abs(second - before) > _DAY_S:
            return False
        before = second
        at += form.record_header + length
    return True


def _blocks_continue(data: bytes, at: int, order: str, to_end: bool, broken: set[int]) -> bool:
    """True if whole blocks follow each other from there on.

    `broken`: blocks of chains that end early, so that each is checked once.
    """
    size_at = struct.Struct(order + "I").unpack_from
    begin, chain = at, [at]
    while at - begin <= SPAN:
        if at + SMALLEST_BLOCK > len(data):
            return to_end
        (size,) = size_at(data, at + 4)
        sound = at not in broken and SMALLEST_BLOCK <= size <= BLOCK_BYTES and not size & 3
        if sound and at + size > len(data):
            return to_end
        if not sound or size_at(data, at + size - 4)[0] != size:
            broken.update(chain)
            return False
        at += size
        chain.append(at)
    return True
