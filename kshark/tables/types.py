"""Column types, parsed from Spark SQL's notation: `bigint`, `array<int>`, `struct<a: string, b: array<int>>`."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Array(NamedTuple):
    element: Type


class Struct(NamedTuple):
    fields: tuple[tuple[str, Type], ...]


#: A scalar type is represented by its name.
Type: TypeAlias = "str | Array | Struct"


def parse_type(text: str) -> Type:
    """Parse a column's type.

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
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
