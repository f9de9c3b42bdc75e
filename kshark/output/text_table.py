"""Tables as lines of spans: columns under their titles, as wide as they need, the elastic ones shortened to fit the
terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from kshark.output.spans import DIM, PLAIN, VALUE, Line, folded, plain

Cell = Line | str

_BETWEEN: Final = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: numbers are right-aligned; an `elastic` one may be shortened to so many characters.

    If that is not enough, columns with `drop` are left out: 1 first, then 2, and so on.
    """

    title: str
    right: bool = False
    elastic: int = 0
    drop: int = 0


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int | None, indent: int = 0
) -> Iterator[Line]:
    """The titles, then the rows, which are gone through twice. A column with nothing in it is left out; `width` None:
    no limit.

    Columns for which there is no room are named in a last line.
    """
    natural = [0] * len(columns)
    for row in rows:
        natural = [max(one, cell_len(plain(_line(cell)))) for one, cell in zip(natural, row, strict=True)]
    kept = [at for at in range(len(columns)) if natural[at]]
    widths = {at: max(natural[at], cell_len(columns[at].title)) for at in kept}
    if width is not None:
        widths = _fit(columns, widths, width - indent)
    shown, sizes = [columns[at] for at in widths], list(widths.values())
    yield _row([[(column.title, DIM)] for column in shown], shown, sizes, indent)
    for row in rows:
        yield _row([_line(row[at]) for at in widths], shown, sizes, indent)
    missing = ", ".join(columns[at].title for at in kept if at not in widths)
    if missing:
        yield from folded(
            [(f"{' ' * indent}no room for {missing}: a wider terminal, or a pipe, has all columns", DIM)],
            width,
            indent + 2,
        )


def _line(cell: Cell) -> Line:
    return [(cell, VALUE)] if isinstance(cell, str) else cell


def _fit(columns: Sequence[Column], natural: dict[int, int], width: int) -> dict[int, int]:
    """Widths of the columns that are shown: if shortening elastic ones is not enough, columns are dropped."""
    shown = dict(natural)
    droppable = sorted((at for at in shown if columns[at].drop), key=lambda at: columns[at].drop)
    while True:
        widths = _narrowed(columns, shown, width)
        if _total(widths) <= width or not droppable:
            return widths
        del shown[droppable.pop(0)]


def _narrowed(columns: Sequence[Column], natural: dict[int, int], width: int) -> dict[int, int]:
    """Shortens the widest elastic column, one character at a time."""
    widths = dict(natural)
    while _total(widths) > width:
        can_give = [at for at in widths if columns[at].elastic and widths[at] > columns[at].elastic]
        if not can_give:
            break
        widths[max(can_give, key=lambda at: widths[at])] -= 1
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
    """The line if it fits, else as much of it as fits, with `…` at its end."""
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
