"""Styled text: a line is a list of (text, style) spans.

A style names the meaning of the text; output/text.py defines its look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

Span = tuple[str, str]
Line = list[Span]

PLAIN: Final = ""
DIM: Final = "dim"
LABEL: Final = "label"
VALUE: Final = "value"
API: Final = "api"
REQUEST: Final = "request"
RESPONSE: Final = "response"
CODE: Final = "code"
ERROR: Final = "error"
WARN: Final = "warn"
NOTE: Final = "note"
GOOD: Final = "good"
CHOSEN: Final = "chosen"
#: The number of a packet in a table.
PACKET: Final = "packet"
#: `packet 41` is one word.
_WORD: Final = re.compile(r" *[^ ]*packets? \d[^ ]*| *[^ ]+| +")

#: Text with less room beside the columns before it goes on below them, at this indent.
_ROOM: Final = 30
_BELOW: Final = 8


def plain(line: Iterable[Span]) -> str:
    """Return only the text."""
    return "".join([text for text, _ in line])


def spaced(items: Iterable[Line]) -> Line:
    """Join items to one line, separated by spaces."""
    line: Line = []
    for item in items:
        if line:
            line.append((" ", PLAIN))
        line.extend(item)
    return line


def folded(line: Iterable[Span], width: int | None, indent: int = 0) -> Iterator[Line]:
    """Wrap the line between words; continued lines begin with `indent` spaces. Width None: no limit."""
    out: Line = []
    room = width
    for text, style in line:
        if room is None or width is None:
            out.append((text, style))
            continue
        for word in _WORD.findall(text):
            if len(word) > room and len(word.strip()) <= width - indent and out:
                yield out
                out, word = [(" " * indent, PLAIN)], word.lstrip()
                room = width - indent
            out.append((word, style))
            room -= len(word)
    yield out


def hanging(line: Iterable[Span], width: int | None, indent: int) -> Iterator[Line]:
    """Wrap the line as `folded` does, with its last column hanging; in a narrow terminal that column is not kept."""
    return folded(line, width, indent if width is None or indent + _ROOM <= width else _BELOW)
