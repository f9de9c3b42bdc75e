"""Readers: each takes a column's cell from the values of a row.

A table compiles the readers of its columns into one function, as fast as a tuple written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.tables.blocks import Cells, Row, Texts

#: The first values of a row, for the common columns: where, packet, time_ns and exchange.
_COMMON: Final = ("_where", "_packet", "_time_ns", "_exchange")


class Reader(NamedTuple):
    """An expression over these values of the row; with a `function`, its arguments."""

    names: tuple[str, ...]
    expression: str
    function: Callable[..., Any] | None = None

    def code(self, function: str) -> str:
        """Return the expression; `function` is the name of the reader's function."""
        return self.expression if self.function is None else f"{function}({self.expression})"


def its(path: str) -> Reader:
    """Read a value of the row, or an attribute that always exists: `its("request.version")`."""
    return Reader((_first(path),), path)


def optional(path: str) -> Reader:
    """Read it in the same way; null if the value itself is None: `optional("response.latency_ns")`."""
    return Reader((_first(path),), f"(None if {_first(path)} is None else {path})")


def field(body: str, name: str) -> Reader:
    """Read a field of a body or of a structure in it; null if this version lacks it, or the body was not read."""
    return Reader((body,), f"(None if (_cell := getattr({body}, {name!r}, None)) is UNSET else _cell)")


def asked(name: str) -> Reader:
    """Read a field of the request's body."""
    return field("asked", name)


def answered(name: str) -> Reader:
    """Read a field of the response's body."""
    return field("answer", name)


def made(function: Callable[..., Any], *names: str) -> Reader:
    """Call a function with these values of the row."""
    return Reader(names, ", ".join(names), function)


def _first(path: str) -> str:
    return path.partition(".")[0]


def row_maker(names: Sequence[str], readers: Sequence[Reader]) -> Callable[..., Row]:
    """Compile a function of where, packet, time_ns, exchange and these values that returns a row."""
    cells = [*_COMMON, *(reader.code(f"_read{number}") for number, reader in enumerate(readers))]
    return _compiled(names, readers, ", ".join((*_COMMON, *names)), f"({', '.join(cells)},)")


def columns_maker(names: Sequence[str], readers: Sequence[Reader]) -> Callable[..., list[Cells]]:
    """Compile a function of lists of these values that returns the cells of each column."""
    cells = [f"_filled({_cells(reader, f'_read{number}')})" for number, reader in enumerate(readers)]
    return _compiled(names, readers, ", ".join(names), f"[{', '.join(cells)}]")


def _cells(reader: Reader, function: str) -> str:
    code, names = reader.code(function), ", ".join(reader.names)
    if code == names:
        return names
    return f"[{code} for {names} in {names if len(reader.names) == 1 else f'zip({names}, strict=True)'}]"


def _filled(cells: Cells) -> Cells:
    """Return the cells; None if all are null, so that the column costs nothing."""
    if cells is None or isinstance(cells, Texts) or any(cells):
        return cells
    return None if cells.count(None) + cells.count(UNSET) == len(cells) else cells


def _compiled(names: Sequence[str], readers: Sequence[Reader], arguments: str, result: str) -> Callable[..., Any]:
    """Compile the function. Raises ValueError for a reader of a value that the table's rows do not have."""
    for reader in readers:
        unknown = {*reader.names} - {*names}
        if unknown:
            raise ValueError(f"a column reads {min(unknown)!r}, but a row has only {', '.join(names)}")
    functions = {f"_read{number}": reader.function for number, reader in enumerate(readers)}
    scope: dict[str, Any] = {"UNSET": UNSET, "_filled": _filled, **functions}
    exec(f"def maker({arguments}):\n    return {result}\n", scope)
    maker: Callable[..., Any] = scope["maker"]
    return maker
