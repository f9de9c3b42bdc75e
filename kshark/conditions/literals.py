"""Values after an operator in a filter, converted to the field's type: numbers, names, text, bytes, times, IPs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from ipaddress import ip_network
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kshark.conditions.moments import duration_of, moment_of
from kshark.conditions.source import Constant
from kshark.conditions.terms import KINDS
from kshark.errors import FilterError
from kshark.schema import EnumClass, Field

_NO_NAMES: Final[Mapping[str, Constant]] = MappingProxyType({})
#: Most digits of a number; no field has more.
_DIGITS: Final = 40

EQUAL: Final = ("==", "!=", "in")
ORDERED: Final = (*EQUAL, "<", "<=", ">", ">=")
TEXTUAL: Final = (*ORDERED, "contains", "matches")


class Literal(NamedTuple):
    """A value as the user typed it, its position, and whether it stood in quotes."""

    text: str
    at: int
    quoted: bool = False


class ValueType(NamedTuple):
    """The type of a field's values, and the operators that it allows; `names`: values by name, in upper case."""

    name: str
    operators: tuple[str, ...]
    convert: Callable[[Literal], Any]
    names: Mapping[str, Constant] = _NO_NAMES
    #: The command that lists the names.
    listed: str = ""

    def constant(self, literal: Literal, field: str) -> Any:
        """Return the value of a literal. Raises FilterError if the field cannot have it."""
        named = self.names.get(literal.text.upper())
        if named is not None:
            return named
        try:
            return self.convert(literal)
        except (ValueError, ArithmeticError):
            raise self._misfit(literal, field) from None

    def _misfit(self, literal: Literal, field: str) -> FilterError:
        names = [str(value) if self.name == "a name" else name for name, value in self.names.items()]
        close = _close(literal.text.upper(), tuple(name.upper() for name in names))
        hint = next((f'; did you mean "{name}"?' for name in names if name.upper() == close), "")
        step = f"{self.listed} lists the names" if self.listed else f"{field} has {self.name}"
        return FilterError(f'"{literal.text}" is not a value of {field}{hint}', literal.at, step)


@lru_cache(16)
def _close(text: str, names: tuple[str, ...]) -> str | None:
    """Return the most similar name.

    Cached: the search takes longer than compiling a filter, since a hundred APIs have an `error_code`.
    """
    completions = sorted((name for name in names if name.startswith(text)), key=len)
    return next(iter(completions or get_close_matches(text, names, 1)), None)


def _whole(literal: Literal) -> int:
    if re.fullmatch(rf"[+-]?[0-9]{{1,{_DIGITS}}}", literal.text):
        return int(literal.text)
    if re.fullmatch(rf"0[xX][0-9a-fA-F]{{1,{_DIGITS}}}", literal.text):
        return int(literal.text, 16)
    raise ValueError


def _fraction(literal: Literal) -> float:
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{_DIGITS}}}(\.[0-9]{{0,{_DIGITS}}})?([eE][+-]?[0-9]{{1,3}})?", literal.text):
        raise ValueError
    return float(literal.text)


def _bytes(literal: Literal) -> bytes:
    """Convert text, or bytes as tshark writes them: `de:ad:be:ef`."""
    if not literal.quoted and re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2})+", literal.text):
        return bytes.fromhex(literal.text.replace(":", ""))
    return literal.text.encode("utf-8", "backslashreplace")


def _milliseconds(literal: Literal) -> int:
    """Return nanoseconds: `1.5` is in milliseconds; `250us`, `1.5s` and the like have their own unit."""
    size = duration_of(literal.text.removeprefix("-"), "ms")
    return -size if literal.text.startswith("-") else size


def _address(literal: Literal) -> tuple[Any, Any]:
    """Return the first and the last address of `10.0.0.1`, `10.0.0.0/8` or `fe80::1`."""
    network = ip_network(literal.text.strip("[]"), strict=False)
    return network.network_address, network.broadcast_address


def _never(literal: Literal) -> Any:
    raise ValueError


NUMBER: Final = ValueType("whole numbers", ORDERED, _whole)
FRACTION: Final = ValueType("numbers", ORDERED, _fraction)
TEXT: Final = ValueType("text", TEXTUAL, lambda literal: literal.text)
BYTES: Final = ValueType("bytes: text, or de:ad:be:ef", (*EQUAL, "contains", "matches"), _bytes)
TRUTH: Final = ValueType("true or false", ("==", "!="), _never, {"TRUE": True, "1": True, "FALSE": False, "0": False})
TIME: Final = ValueType(
    "seconds since 1970, or a time as 2026-11-21T14:03:07.5Z", ORDERED, lambda literal: moment_of(literal.text)
)
MILLISECONDS: Final = ValueType("milliseconds, or a time as 1.5s", ORDERED, _milliseconds)
ADDRESS: Final = ValueType("addresses as 10.0.0.1, 10.0.0.0/8 or fe80::1", EQUAL, _address)
#: An array of structs, a struct, records: can only be present or absent.
STRUCTURE: Final = ValueType("no single value", (), _never)

#: The type for each kind of term (see Value.kind).
OF_KIND: Final = {"number": NUMBER, "fraction": FRACTION, "text": TEXT, "bytes": BYTES, "truth": TRUTH}


def named(names: Mapping[str, Constant], listed: str) -> ValueType:
    """Return a type whose values are these names."""
    return ValueType("a name", (*EQUAL, "contains", "matches"), _never, names, listed)


def type_of(field: Field) -> ValueType:
    """Return the type of a field's values, or of an array's elements."""
    value = field.element or field
    kind = OF_KIND.get(KINDS.get(value.type, ""), STRUCTURE)
    return kind if value.enum is None or value.bits else _enumerated(value.enum)


@cache
def _enumerated(enum: EnumClass) -> ValueType:
    return NUMBER._replace(
        names={member.name.upper(): int(member) for member in enum}, listed=f"kshark explain {enum.__name__}"
    )
