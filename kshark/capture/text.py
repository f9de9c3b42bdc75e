"""Text that other programs wrote into a capture, because their standard error went into the same file."""

from __future__ import annotations

import re
from typing import Final

#: What the usual recorders print: tcpdump, dumpcap and tshark, kubectl. One of these words is in each line.
_MARKS: Final = (
    b"tcpdump: ",
    b"listening on ",
    b" captured",
    b" received by filter",
    b" dropped by ",
    b"Capturing on '",
    b"Packets captured: ",
    b"command terminated with exit code ",
)
_LINE: Final = re.compile(
    rb"(?:tcpdump: |listening on |(?:\^C)?\d+ packets? (?:captured|received by filter|dropped by (?:kernel|interface))|"
    rb"Capturing on '|Packets captured: |command terminated with exit code )[^\n]{0,200}\n?"
)
#: So much text at a record's beginning is no record header: its length would be impossible.
_PRINTABLE: Final = re.compile(rb"[\t\r\n\x1b\x20-\x7e]{16,}")
_SHOWN: Final = 100


def text_in(data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return begin and end of the last lines of a recorder in these bytes; None without any."""
    if all(data.find(mark, begin, end) < 0 for mark in _MARKS):
        return None
    lines = None
    for line in _LINE.finditer(data, begin, end):
        lines = (lines[0] if lines is not None and line.start() <= lines[1] else line.start()), line.end()
    return lines


def text_at(data: bytes, at: int) -> bool:
    """True if text begins there."""
    return _PRINTABLE.match(data, at) is not None


def text_line(data: bytes, text: int = 0) -> str:
    """Return the number of foreign bytes, and the first line of the text that begins at `text` in them."""
    line = data[text:].strip().split(b"\n")[0].decode("ascii", "replace")
    shown = "".join(letter for letter in line if letter.isascii() and letter.isprintable()).strip()
    return f"{len(data)} bytes" + (f', with the text "{shown[:_SHOWN]}"' if shown else "")
