"""Write Python values as Lua: numbers, strings, lists and tables, always in the same order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Row(dict[str, Any]):
    """A Lua table with positional values first (`place`), then named ones, whose names are not reserved in Lua."""

    def __init__(self, *place: Any, **named: Any) -> None:
        super().__init__(named)
        self.place = place


class Name(str):
    """A Lua expression, written as it is."""

    __slots__ = ()


def literal(value: Any) -> str:
    """Return a Lua expression for a value. A named value that is None, False or empty text is left out."""
    match value:
        case Name():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return quoted(value)
        case Row():
            named = [f"{name}={literal(item)}" for name, item in value.items() if not _is_empty(item)]
            return "{" + ",".join([*map(literal, value.place), *named]) + "}"
        case Mapping():
            return "{" + ",".join(f"{_key(key)}={literal(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "{" + ",".join(map(literal, value)) + "}"
    raise TypeError(f"no Lua for {type(value).__name__}")


def quoted(text: str) -> str:
    """Return a string literal; all but printable ASCII is escaped as decimal bytes, which Lua 5.1 to 5.4 read alike."""
    raw = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03}" for byte in raw) + '"'


def _is_empty(item: Any) -> bool:
    return item is None or item is False or item == ""


def _key(key: Any) -> str:
    return key if isinstance(key, str) and _NAME.fullmatch(key) else f"[{literal(key)}]"
