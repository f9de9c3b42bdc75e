"""Column types, parsed from Spark SQL's notation: `bigint`, `array<int>`, `struct<a: string, b: array<int>>`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Array(NamedTuple):
    element: Type


class Struct(NamedTuple):
    fields: tuple[tuple[str, Type], ...]


#: A scalar type is its name.
Type: TypeAlias = "str | Array | Struct"


def parse_type(text: str) -> Type:
    """The type that a column's text says.

    >>> parse_type("array<struct<topic_id: string, partition: int>>")
    Array(element=Struct(fields=(('topic_id', 'string'), ('partition', 'int'))))
    """
    outer, _, inner = (
        text.strip().removesuffix(">").partition("<") if text.strip().endswith(">") else (text.strip(), "", "")
    )
    if outer == "array":
        return Array(parse_type(inner))
    if outer == "struct":
        return Struct(
            tuple((name.strip(), parse_type(type)) for name, _, type in (part.partition(":") for part in _parts(inner)))
        )
    return outer


def _parts(text: str) -> list[str]:
    """Split at the commas that stand inside no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
