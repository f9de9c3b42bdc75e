"""How text looks on a terminal: what a style means in colours, lines cropped to its width, tables with columns that fit.

A pipe sees none of this: lines there are the bare text (kshark.output.spans.plain), tables as wide as they need.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kshark.output.spans import Line, plain

STYLES: Final = {
    "dim": "bright_black",
    "label": "blue",
    "value": "default",
    "api": "bold",
    "request": "cyan",
    "response": "green",
    "code": "bold",
    "error": "bold red",
    "warn": "yellow",
    "note": "cyan",
    "good": "bold green",
}
_UNLIMITED: Final = 100_000


class Terminal:
    """A terminal's width and colours (NO_COLOR, TERM and COLUMNS are obeyed)."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream)
        self.width = console.width
        #: rich's name of the terminal's colours; None for none.
        self.colours: Any = console.color_system
        self._system = COLOR_SYSTEMS.get(console.color_system or "")
        self._styles = {name: Style.parse(style) for name, style in STYLES.items()}

    def paint(self, line: Line, *, crop: bool = False) -> str:
        """The line with its colours; `crop` ends it with `…` where it would wrap."""
        if crop and cell_len(plain(line)) > self.width:
            line = _cropped(line, self.width - 1)
        if self._system is None:
            return plain(line)
        return "".join([self._styles[style].render(text, color_system=self._system) if style and text else text for text, style in line])


def _cropped(line: Line, width: int) -> Line:
    out: Line = []
    for text, style in line:
        room = cell_len(text)
        if room >= width:
            return [*out, (set_cell_size(text, width).rstrip() + "…", style)]
        out.append((text, style))
        width -= room
    return out


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: numbers stand right; what is `elastic` gives way first when the terminal is narrow."""

    title: str
    right: bool = False
    elastic: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Line | str]], terminal: Terminal | None, indent: int = 0) -> str:
    """Rows under their titles, each line ended; without a terminal as wide as the longest cells."""
    width = _UNLIMITED if terminal is None else max(40, terminal.width - indent)
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=STYLES["dim"], show_edge=False)
    for column in columns:
        drawn.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=min(8, len(column.title)) if column.elastic else _widest(column, columns, rows),
        )
    for row in rows:
        drawn.add_row(*(_cell(cell) for cell in row))
    out = io.StringIO()
    colours = None if terminal is None else terminal.colours
    Console(file=out, width=width, color_system=colours, force_terminal=colours is not None, highlight=False).print(drawn)
    return "".join(" " * indent + line.rstrip() + "\n" for line in out.getvalue().splitlines())


def _widest(column: Column, columns: Sequence[Column], rows: Sequence[Sequence[Line | str]]) -> int:
    at = columns.index(column)
    cells = [row[at] for row in rows]
    return max(cell_len(text) for text in (column.title, *(cell if isinstance(cell, str) else plain(cell) for cell in cells)))


def _cell(cell: Line | str) -> Text:
    if isinstance(cell, str):
        return Text(cell)
    return Text.assemble(*((text, STYLES[style]) if style else text for text, style in cell))
