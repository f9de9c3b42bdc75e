"""Tables as lines of spans: aligned columns with titles; elastic columns are shortened to fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from kshark.output.spans import DIM, PACKET, PLAIN, VALUE, Line, folded, plain

Cell = Line | str

_BETWEEN: Final = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column.

    `right`: right-aligned, for numbers. `elastic`: may be shortened to this number of characters. `drop`: if that is
    not enough, columns with 1 are left out first, then 2, and so on.
    """

    title: str
    right: bool = False
    elastic: int = 0
    drop: int = 0


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int | None, indent: int = 0
) -> Iterator[Line]:
    """Return the titles, then the rows. Iterates over the rows twice. `width` None: no limit.

    Empty columns are left out. A last line names columns that do not fit.
    """
    natural = [0] * len(columns)
    for row in rows:
        natural = [max(widest, cell_len(plain(_line(cell)))) for widest, cell in zip(natural, row, strict=True)]
    kept = [index for index in range(len(columns)) if natural[index]]
    widths = {index: max(natural[index], cell_len(columns[index].title)) for index in kept}
    if width is not None:
        widths = _fit(columns, widths, width - indent)
    shown, sizes = [columns[index] for index in widths], list(widths.values())
    yield _row([[(column.title, DIM)] for column in shown], shown, sizes, indent)
    for row in rows:
        yield _row([_line(row[index], columns[index]) for index in widths], shown, sizes, indent)
    missing = ", ".join(columns[index].title for index in kept if index not in widths)
    if missing:
        yield from folded(
            [(f"{' ' * indent}no room for {missing}: use a wider terminal or a pipe for all columns", DIM)],
            width,
            indent + 2,
        )


def _line(cell: Cell, column: Column | None = None) -> Line:
    if not isinstance(cell, str):
        return cell
    return [(cell, PACKET if column is not None and column.title == PACKET else VALUE)]


def _fit(columns: Sequence[Column], natural: dict[int, int], width: int) -> dict[int, int]:
    """Return the widths of the shown columns; drop columns if shortening elastic ones is not enough."""
    shown = dict(natural)
    droppable = sorted((index for index in shown if columns[index].drop), key=lambda index: columns[index].drop)
    while True:
        widths = _narrowed(columns, shown, width)
        if _total(widths) <= width or not droppable:
            return widths
        del shown[droppable.pop(0)]


def _narrowed(columns: Sequence[Column], natural: dict[int, int], width: int) -> dict[int, int]:
    """Shorten the widest elastic column, one character at a time."""
    widths = dict(natural)
    while _total(widths) > width:
        can_give = [index for index in widths if columns[index].elastic and widths[index] > columns[index].elastic]
        if not can_give:
            break
        widths[max(can_give, key=lambda index: widths[index])] -= 1
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _BETWEEN * (len(widths) - 1)


def _row(cells: Sequence[Line], columns: Sequence[Column], widths: Sequence[int], indent: int) -> Line:
    out: Line = []
    room = indent
    for cell, column, width in zip(cells, columns, widths, strict=True):
        cell = cropped(cell, width)
        left = width - cell_len(plain(cell))
        if plain(cell):  # so that no line ends in spaces
            if column.right:
                room, left = room + left, 0
            out += [(" " * room, PLAIN), *cell]
            room = 0
        room += left + _BETWEEN
    return out


def cropped(line: Line, width: int) -> Line:
    """Return the line if it fits, otherwise its beginning with `…` at the end."""
    if cell_len(plain(line)) <= width:
        return line
    out: Line = []
    left = max(0, width - 1)
    for text, style in line:
        room = cell_len(text)
        if room >= left:
            out.append((set_cell_size(text, left).rstrip(" …") + "…", style))
            break
        out.append((text, style))
        left -= room
    return out
