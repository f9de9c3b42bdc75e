"""The beginnings of pcap and pcapng files.

Sources: IETF draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng; the modified format with longer record headers:
libpcap, pcap-common.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from msgspec import Struct

from kshark.limits import BLOCK_BYTES


class Format(Struct, frozen=True):
    """The meaning of a pcap file's magic number: byte order, nanoseconds per unit of the time's fraction, bytes of a
    record header.
    """

    order: str
    unit_ns: int
    record_header: int


FORMATS: Final = {
    b"\xd4\xc3\xb2\xa1": Format("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": Format(">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": Format("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": Format(">", 1, 16),
    b"\x34\xcd\xb2\xa1": Format("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": Format(">", 1000, 24),
}
FILE_HEADER: Final = 24
#: The longest packet that a record header shows by its form; a file may have longer ones.
LONGEST: Final = 1 << 18
_DAY_S: Final = 86_400

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
#: Byte order of a pcapng section by its byte-order magic.
ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
SMALLEST_BLOCK: Final = 12
SMALLEST_SECTION: Final = 28


def begins_pcap(data: bytes, at: int, *, whole: bool = True) -> bool:
    """True if a pcap file begins there: magic number, version 2.x, no time zone, and a first record that can be one.

    `whole`: its header must be here, not only the first 16 bytes of it.
    """
    form = FORMATS.get(data[at : at + 4])
    if form is None or len(data) < at + (FILE_HEADER if whole else 16):
        return False
    major, minor, zone, accuracy = struct.unpack_from(form.order + "HHiI", data, at + 4)
    return (major, zone, accuracy) == (2, 0, 0) and minor <= 4 and follows(data, at + FILE_HEADER, form)


def begins_pcapng(data: bytes, at: int) -> bool:
    """True if a pcapng file begins there: a section header with a byte-order magic and a possible length."""
    order = ORDERS.get(data[at + 8 : at + 12])
    if order is None or not data.startswith(MAGIC, at):
        return False
    (size,) = struct.unpack_from(order + "I", data, at + 4)
    return bool(SMALLEST_SECTION <= size <= BLOCK_BYTES and not size & 3)


def follows(data: bytes, at: int, form: Format, before: int | None = None) -> bool:
    """True if the bytes at `at` can be a record's header, as far as they are here; `before`: the record before it."""
    if at + form.record_header > len(data):
        return before is None
    second, fraction, length, wire = struct.unpack_from(form.order + "IIII", data, at)
    sound: bool = length <= wire and length <= LONGEST and fraction * form.unit_ns < 1_000_000_000
    if before is not None:
        sound &= abs(second - struct.unpack_from(form.order + "I", data, before)[0]) <= _DAY_S
    return sound


def begins_request_log(head: bytes) -> bool:
    """True if these are the first bytes of a broker's request log: both names stand in the first line."""
    return (
        re.match(rb'[^\0]{0,4096}?\{[^\0\n]{0,256}"requestHeader": ?\{[^\0\n]{0,256}"requestApiKey"', head) is not None
    )
