"""Find the next record of a damaged pcap file by its form: likely, never certain.

The format has no markers, and captures of Kafka may contain captures. So a record counts if a chain of records begins
there that continues for SPAN bytes.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.capture.formats import LONGEST, Format

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
