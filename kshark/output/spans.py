"""Text with meaning: a line is a list of (text, style) spans, a style says what the text is; output/text.py says how that looks."""

from __future__ import annotations

from collections.abc import Iterable
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


def plain(line: Iterable[Span]) -> str:
    """The text alone."""
    return "".join([text for text, _ in line])


def spaced(items: Iterable[Line]) -> Line:
    """Items in one line, a space between them."""
    line: Line = []
    for item in items:
        if line:
            line.append((" ", PLAIN))
        line.extend(item)
    return line
