"""The first record of a pcap file, or block of a pcapng file, behind any byte, found by what they look like: likely,
never certain.

Neither has marks; and captures of Kafka may hold captures. So a record counts where a chain of records begins that goes
on for SPAN bytes, and whoever reads ranges of a file proves them: each has to end where the next one begins."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.pcap import Format
from kshark.capture.pcapng import SMALLEST_BLOCK
from kshark.limits import BLOCK_BYTES

#: Bytes of the chain. Of 300 places in a capture whose packets hold pcaps, 3 headers mistook 275, this length 2.
SPAN: Final = 256 << 10
#: Bytes in which a header is looked for, and what is read for it.
WINDOW: Final = 1 << 20
READ: Final = WINDOW + 2 * SPAN
#: The longest packet that is taken for one; a file with longer ones is walked from its beginning.
_LONGEST: Final = 1 << 18
_DAY_S: Final = 86_400
_YEAR_S: Final = 366 * _DAY_S


def first_record(data: bytes, form: Format, around_s: int, *, to_end: bool) -> int | None:
    """Where in `data` the first chain begins, None where none does. `around_s`: a time of the file; `to_end`: the data
    ends as it does."""
    if len(data) < form.record_header:
        return len(data) if to_end else None
    places = len(data) - form.record_header + 1
    header = sliding_window_view(np.frombuffer(data, np.uint8), 16)[: min(places, WINDOW)].view(form.order + "u4")
    second, fraction, length, wire = (header[:, column].astype(np.int64) for column in range(4))
    likely = (length > 0) & (length <= wire) & (length <= _LONGEST) & (fraction * form.unit_ns < 1_000_000_000)
    likely &= abs(second - around_s) < _YEAR_S
    return next((at for at in np.flatnonzero(likely).tolist() if _records_go_on(data, at, form, to_end)), None)


def first_block(data: bytes, order: str, *, to_end: bool) -> int | None:
    """Where in `data`, which begins at a multiple of four bytes of the file, the first chain of whole blocks begins;
    None where none does.

    A block begins and ends with its size. pcapng, section 3.1.
    """
    words = np.frombuffer(data, order + "u4", len(data) // 4).astype(np.int64)
    size = words[1 : 1 + WINDOW // 4]
    behind = np.arange(len(size)) + size // 4
    likely = np.flatnonzero((size >= SMALLEST_BLOCK) & (size & 3 == 0) & (size <= BLOCK_BYTES) & (behind <= len(words)))
    likely = likely[words[behind[likely] - 1] == size[likely]]
    broken: set[int] = set()
    found = next((at for at in (4 * likely).tolist() if _blocks_go_on(data, at, order, to_end, broken)), None)
    return len(data) if found is None and to_end else found


def _records_go_on(data: bytes, at: int, form: Format, to_end: bool) -> bool:
    """Whether headers follow each other from there on."""
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


def _blocks_go_on(data: bytes, at: int, order: str, to_end: bool, broken: set[int]) -> bool:
    """Whether whole blocks follow each other from there on. `broken`: blocks of chains that do not go on, each looked
    at once."""
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
