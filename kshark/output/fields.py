"""Fields in columns, for `-T fields -e`. kshark.conditions.fields resolves the names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from kshark.attributes import Attribute, Values
from kshark.model import Message
from kshark.output.jsonlines import escaped
from kshark.units import safe


def fields_lines(readers: Sequence[Values]) -> Callable[[Sequence[Message]], str]:
    """Return a function that prints messages like tshark's `-T fields`, a line for each.

    Tabs separate fields, commas separate occurrences; an absent or null field is empty.
    """
    attributes = [reader.name for reader in readers if isinstance(reader, Attribute)]
    if len(attributes) == len(readers):
        return partial(_attribute_lines, attributes)
    return lambda messages: "".join([_line([read(message) for read in readers]) + "\n" for message in messages])


def _attribute_lines(names: Sequence[str], messages: Sequence[Message]) -> str:
    """Format column by column: 0.6 us a message; a reader for each field takes 3 us."""
    columns = [[_TEXTS[type(value)](value) for value in map(attrgetter(name), messages)] for name in names]
    return "".join([line + "\n" for line in map("\t".join, zip(*columns, strict=True))])


def _line(fields: Iterable[list[Any]]) -> str:
    return "\t".join(
        [
            _text(occurrences[0]) if len(occurrences) == 1 else ",".join(map(_text, occurrences))
            for occurrences in fields
        ]
    )


_ESCAPES: Final = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
#: Text of values by type; other types are written as JSON.
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    int: str,
    str: lambda value: safe(value.translate(_ESCAPES)) if not value.isalnum() else value,
    float: str,
    bool: lambda value: "true" if value else "false",
    bytes: lambda value: base64.b64encode(value).decode(),
    type(None): lambda value: "",
    UnsetType: lambda value: "",
}


def _text(value: Any) -> str:
    return _TEXTS.get(type(value), _json)(value)


def _json(value: Any) -> str:
    return escaped(msgspec.json.encode(value)).decode()
