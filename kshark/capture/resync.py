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

from kshark.capture.formats import LONGEST, SMALLEST_BLOCK, Format
from kshark.limits import BLOCK_BYTES

#: Bytes of the chain. Of 300 positions in a capture whose packets hold pcaps, a chain of 3 headers was wrong at 275,
#: this length at 2.
SPAN: Final = 256 << 10
#: Bytes in which a header is searched, and the bytes read for it.
WINDOW: Final = 1 << 20
READ: Final = WINDOW + 2 * SPAN
_DAY_S: Final = 86_400
_YEAR_S: Final = 366 * _DAY_S


def first_record(data: bytes, form: Format, around_s: int | None, *, to_end: bool, least: int = 0) -> int | None:
    """Return the position in `data` of the first chain; None without any.

    `around_s`: a time of the file, if one is known. `to_end`: the data ends with the file; so may a chain of at least
    so many whole records.
    """
    if len(data) < form.record_header:
        return len(data) if to_end else None
    places = len(data) - form.record_header + 1
    header = sliding_window_view(np.frombuffer(data, np.uint8), 16)[: min(places, WINDOW)].view(form.order + "u4")
    second, fraction, length, wire = (header[:, column].astype(np.int64) for column in range(4))
    likely = (length > 0) & (length <= wire) & (length <= LONGEST) & (fraction * form.unit_ns < 1_000_000_000)
    if around_s is not None:
        likely &= abs(second - around_s) < _YEAR_S
    return next((at for at in np.flatnonzero(likely).tolist() if records_continue(data, at, form, to_end, least)), None)


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


def records_continue(data: bytes, at: int, form: Format, to_end: bool, least: int = 0) -> bool:
    """True if headers follow each other from there on; a shorter chain may end with the file, as in first_record."""
    header_at = struct.Struct(form.order + "IIII").unpack_from
    begin, before, count = at, None, 0
    while at - begin <= SPAN:
        if at + form.record_header > len(data):
            return to_end and (at == len(data) or count - (at > len(data)) >= least)
        second, fraction, length, wire = header_at(data, at)
        if length > wire or length > LONGEST or fraction * form.unit_ns >= 1_000_000_000:
            return False
        if before is not None and abs(second - before) > _DAY_S:
            return False
        before = second
        at += form.record_header + length
        count += 1
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
