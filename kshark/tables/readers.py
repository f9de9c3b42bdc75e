"""Readers: how a column takes its cell from the values that a row is made of.

A table compiles the readers of its columns into one function, which costs what a tuple written by hand would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.tables.blocks import Cells, Row, Texts

#: In front of a row's values: where, packet, time_ns and exchange, from which the common columns come.
_COMMON: Final = ("_where", "_packet", "_time_ns", "_exchange")


class Reader(NamedTuple):
    """An expression over these values of the row; with a `function`, its arguments."""

    names: tuple[str, ...]
    expression: str
    function: Callable[..., Any] | None = None

    def code(self, function: str) -> str:
        """The expression, if the function has that name."""
        return self.expression if self.function is None else f"{function}({self.expression})"


def its(path: str) -> Reader:
    """A value of the row, or an attribute that is always there: `its("request.version")`."""
    return Reader((_first(path),), path)


def optional(path: str) -> Reader:
    """The same; null where the value itself is None: `optional("response.latency_ns")`."""
    return Reader((_first(path),), f"(None if {_first(path)} is None else {path})")


def field(body: str, name: str) -> Reader:
    """A field of a body or of a structure inside it; null where this version lacks it, or the body was not read."""
    return Reader((body,), f"(None if (_cell := getattr({body}, {name!r}, None)) is UNSET else _cell)")


def asked(name: str) -> Reader:
    """A field of the request's body."""
    return field("asked", name)


def answered(name: str) -> Reader:
    """A field of the response's body."""
    return field("answer", name)


def made(function: Callable[..., Any], *names: str) -> Reader:
    """Made by a function of these values of the row."""
    return Reader(names, ", ".join(names), function)


def _first(path: str) -> str:
    return path.partition(".")[0]


def row_maker(names: Sequence[str], readers: Sequence[Reader]) -> Callable[..., Row]:
    """A function of where, packet, time_ns, exchange and these values; it returns a row."""
    cells = [*_COMMON, *(reader.code(f"_read{number}") for number, reader in enumerate(readers))]
    return _compiled(names, readers, ", ".join((*_COMMON, *names)), f"({', '.join(cells)},)")


def columns_maker(names: Sequence[str], readers: Sequence[Reader]) -> Callable[..., list[Cells]]:
    """A function of lists of these values; it returns the cells of each column."""
    cells = [f"_filled({_cells(reader, f'_read{number}')})" for number, reader in enumerate(readers)]
    return _compiled(names, readers, ", ".join(names), f"[{', '.join(cells)}]")


def _cells(reader: Reader, function: str) -> str:
    code, names = reader.code(function), ", ".join(reader.names)
    if code == names:
        return names
    return f"[{code} for {names} in {names if len(reader.names) == 1 else f'zip({names}, strict=True)'}]"


def _filled(cells: Cells) -> Cells:
    """The cells; None where all are null, which then costs nothing."""
    if cells is None or isinstance(cells, Texts) or any(cells):
        return cells
    return None if cells.count(None) + cells.count(UNSET) == len(cells) else cells


def _compiled(names: Sequence[str], readers: Sequence[Reader], arguments: str, result: str) -> Callable[..., Any]:
    """Raises ValueError for a reader of what the table's rows do not have."""
    for reader in readers:
        unknown = {*reader.names} - {*names}
        if unknown:
            raise ValueError(f"no row has {min(unknown)!r}, which a column reads; there are {', '.join(names)}")
    functions = {f"_read{number}": reader.function for number, reader in enumerate(readers)}
    scope: dict[str, Any] = {"UNSET": UNSET, "_filled": _filled, **functions}
    exec(f"def maker({arguments}):\n    return {result}\n", scope)
    maker: Callable[..., Any] = scope["maker"]
    return maker
