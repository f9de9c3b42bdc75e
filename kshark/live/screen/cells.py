"""Text in the cells of a terminal: wide characters take two, combining ones none."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len, set_cell_size

from kshark.output.spans import PLAIN, Line
from kshark.units import safe

#: Most characters of a cell: many combining marks may be stacked on one.
_STACKED: Final = 3


def cells(text: str) -> int:
    """Return the number of cells."""
    return len(text) if text.isascii() else cell_len(text)


def shorter(text: str, most: int) -> int:
    """Return the number of cells, at most `most`."""
    return min(cells(text), most)


def cropped(text: str, width: int) -> str:
    """Return the text if it fits, otherwise its beginning with `…` at the end."""
    text = safe(text[: width * _STACKED + 1])
    if cells(text) <= width:
        return text[: width * _STACKED]
    if width < 1:
        return ""
    return set_cell_size(text, width - 1).rstrip() + "…"


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text of exactly so many cells."""
    text = cropped(text, width)
    room = " " * (width - cells(text))
    return room + text if right else text + room


def fitted(line: Line, width: int) -> Line:
    """Return a line of at most so many cells."""
    out: Line = []
    for text, style in line:
        if (size := cells(text)) > width or not text.isprintable() or len(text) > width * _STACKED:
            text = cropped(text, width)
            size = cells(text)
        if text:
            out.append((text, style))
        width -= size
        if width <= 0:
            break
    return out


def filled(line: Line, width: int) -> Line:
    """Return a line of exactly so many cells."""
    line = fitted(line, width)
    room = width - sum(cells(text) for text, _ in line)
    return [*line, (" " * room, PLAIN)] if room else line


def beside(left: list[Line], right: list[Line], width: int, height: int) -> list[Line]:
    """Return two panels side by side; the left one has so many cells."""
    blank: list[Line] = [[]]
    left, right = (panel[:height] + blank * (height - len(panel)) for panel in (left, right))
    return [[*filled(one, width), (" │ ", "dim"), *other] for one, other in zip(left, right, strict=True)]
