"""Captures that a terminal or a transfer as text destroyed, recognised by what is left of them.

A terminal writes CR LF for each LF (POSIX: ONLCR), so the lengths in the file no longer fit. pcapng's section header
has CR and LF in its type to show such transfers (IETF draft-ietf-opsawg-pcapng, section 4.1).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kshark.capture.formats import FILE_HEADER, FORMATS
from kshark.capture.resync import records_continue


class Damage(Struct, frozen=True):
    """The first bytes of a destroyed file, and how it was destroyed."""

    magic: bytes
    how: str


_TERMINAL: Final = (
    "a capture that a terminal destroyed: it put CR before every LF; record again without a terminal in between "
    "(kubectl exec and docker exec without -t, ssh without -t)"
)
_UNDO: Final = "; perl -pe 's/\\r\\n/\\n/' FILE > FIXED undoes it if nothing else was changed"
_AS_TEXT: Final = (
    "a capture that was destroyed by being converted as text; record again into a file (-w FILE), and copy it "
    "in binary mode"
)
_POWERSHELL: Final = (
    "a capture that PowerShell's > destroyed by writing it as text (UTF-16); record again with -w FILE, without >"
)

DAMAGES: Final = (
    Damage(b"\r\n\r\r\r\n", _TERMINAL + _UNDO),
    Damage(b"\n\r\n", "a pcapng file that lost its CR bytes in a transfer as text; copy it again in binary mode"),
    Damage(b"\n\n\n", "a pcapng file whose CR bytes became LF in a transfer as text; copy it again in binary mode"),
    Damage(b"\n\n", "a pcapng file that lost its CR bytes in a transfer as text; copy it again in binary mode"),
    *(
        Damage(magic.decode(code, "replace").encode(), _AS_TEXT)
        for magic in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
        for code in ("utf-8", "latin-1")
    ),
)
#: Code pages in which PowerShell may read a program's bytes.
_CODE_PAGES: Final = ("cp437", "cp850", "cp1252", "latin-1", "utf-8")


def destroyed(head: bytes) -> str | None:
    """Return how a capture with these first bytes was destroyed, and the next step; None for all other files."""
    if head[:4] in FORMATS:
        return _TERMINAL + _UNDO if _has_carriage_returns(head) else None
    for damage in DAMAGES:
        if head.startswith(damage.magic) and not _is_text(head):
            return damage.how
    return _POWERSHELL if _is_utf16_of_capture(head) else None


def _has_carriage_returns(head: bytes) -> bool:
    """True if CR stands before every LF of a pcap file, its records do not follow each other, and they do without.

    Addresses, lengths and checksums hold LF, so a sound file has one without CR.
    """
    feeds = head.count(b"\n")
    if not feeds or head.count(b"\r\n") != feeds or _records_continue(head):
        return False
    undone = head.replace(b"\r\n", b"\n")
    return len(undone) > FILE_HEADER + FORMATS[head[:4]].record_header and _records_continue(undone)


def _records_continue(head: bytes) -> bool:
    return records_continue(head, FILE_HEADER, FORMATS[head[:4]], to_end=True)


def _is_text(head: bytes) -> bool:
    """True if the first bytes are text: a capture has zeros or bytes that are no text."""
    return b"\0" not in head[:64] and head[:64].isascii()


def _is_utf16_of_capture(head: bytes) -> bool:
    """True if the file's characters, read in the code page of a console, are a capture's first bytes."""
    if head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return False
    text = head[:34].decode("utf-16", "replace")
    for page in _CODE_PAGES:
        magics = [magic.decode(page, "replace") for magic in FORMATS]
        if text.startswith((*magics, "\n\r\r\n", "\r\n\r\n", "\n\n")):
            return True
    return False
