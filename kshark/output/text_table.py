"""Tables as lines of spans: columns under their titles, as wide as they need, the elastic ones cut where the terminal ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from kshark.output.spans import DIM, PLAIN, VALUE, Line, plain

Cell = Line | str

_BETWEEN: Final = 2
#: An elastic column keeps this much.
_LEAST: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: numbers stand right; what is `elastic` gives way when the terminal is narrow."""

    title: str
    right: bool = False
    elastic: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None, indent: int = 0) -> list[Line]:
    """The titles, then the rows. A column without anything in it is left out; `width` None: no limit."""
    lines = [[_line(cell) for cell in row] for row in rows]
    kept = [at for at, _ in enumerate(columns) if any(plain(row[at]) for row in lines)]
    shown = [columns[at] for at in kept]
    cells = [[(column.title, DIM)] for column in shown], *([row[at] for at in kept] for row in lines)
    widths = [max(cell_len(plain(row[at])) for row in cells) for at in range(len(shown))]
    if width is not None:
        _squeeze(shown, widths, width - indent)
    return [_row(row, shown, widths, indent) for row in cells]


def _line(cell: Cell) -> Line:
    return [(cell, VALUE)] if isinstance(cell, str) else cell


def _squeeze(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Takes from the widest elastic column, one cell at a time, until the table fits or nothing is left to take."""
    elastic = [at for at, column in enumerate(columns) if column.elastic]
    while sum(widths) + _BETWEEN * (len(widths) - 1) > width:
        widest = max(elastic, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= _LEAST:
            return
        widths[widest] -= 1


def _row(cells: Sequence[Line], columns: Sequence[Column], widths: Sequence[int], indent: int) -> Line:
    out: Line = [(" " * indent, PLAIN)]
    for at, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        cell = cropped(cell, width)
        room = " " * (width - cell_len(plain(cell)))
        last = at == len(cells) - 1
        if column.right:
            out += [(room, PLAIN), *cell]
        else:
            out += [*cell, ("" if last else room, PLAIN)]
        out.append(("" if last else " " * _BETWEEN, PLAIN))
    return out


def cropped(line: Line, width: int) -> Line:
    """The line where it fits, else what fits of it, with `…` at its end."""
    if cell_len(plain(line)) <= width:
        return line
    out: Line = []
    left = max(0, width - 1)
    for text, style in line:
        room = cell_len(text)
        if room >= left:
            out.append((set_cell_size(text, left).rstrip() + "…", style))
            break
        out.append((text, style))
        left -= room
    return out
