"""Comparisons of values: compare, present, one of, contains, matches.

Each class gives its Python, SQL and text form side by side.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import Final

from msgspec import Struct

from kshark.conditions.condition import Condition
from kshark.conditions.expressions import in_java, searching
from kshark.conditions.source import Constant, Row, Sql, sql_literal
from kshark.errors import SchemaError
from kshark.schema import Field

_SQL_OPERATORS: Final = {"==": "=", "!=": "<>"}


def _is_decimal(sql: str) -> bool:
    """True if the literal is a number that does not fit into a bigint.

    Spark's optimizer replaces a comparison of a null integer with such a literal by true.
    """
    return sql.removeprefix("-").isdecimal() and not -(1 << 63) <= int(sql) < 1 << 63


class Value(Struct, frozen=True, eq=False):
    """A value that a row has, or that is absent."""

    @abstractmethod
    def value(self, row: Row) -> tuple[list[str], str]:
        """Return Python tests that are all true if the value is present, and the expression for the value."""

    @abstractmethod
    def in_sql(self, sql: Sql) -> str:
        """Return a Spark SQL expression for the value; null if it is absent."""

    @abstractmethod
    def words(self, it: str) -> str:
        """Return the value's name for people; `it` is the name of an array's element."""

    @abstractmethod
    def kind(self, struct: Field) -> str:
        """Return `number`, `fraction`, `text`, `bytes` or `truth`, for rows of that schema.

        Raises SchemaError if the schema does not have the value.
        """

    def exists(self, struct: Field) -> None:
        """Raise SchemaError if rows of that schema cannot have it; arrays and structs are allowed too."""
        self.kind(struct)


def kind_of(constant: Constant) -> str:
    """Return the kind of a constant (see Value.kind)."""
    return {bool: "truth", str: "text", bytes: "bytes", float: "fraction"}.get(type(constant), "number")


def spoken(value: Constant) -> str:
    """Return a constant as text for people: enumerations by name, strings in quotes."""
    if isinstance(value, IntEnum):
        return value.name
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


def _all(*tests: str) -> str:
    return f"({' and '.join(dict.fromkeys(tests))})"


class Compare(Condition, frozen=True, eq=False):
    """A comparison of two values; false if one is absent."""

    operator: str
    left: Value
    right: Value

    def python(self, row: Row) -> str:
        left, right = self.left.value(row), self.right.value(row)
        tests = [*left[0], *right[0]]
        if self.operator == "==" and not right[0] and left[1].isidentifier():
            tests = []  # None and UNSET equal no constant: no further test is needed
        return _all(*tests, f"{left[1]} {self.operator} {right[1]}")

    def in_sql(self, sql: Sql) -> str:
        left, right = self.left.in_sql(sql), self.right.in_sql(sql)
        if self._orders and self._has_bytes:
            left, right = f"unbase64({left})", f"unbase64({right})"  # base64 text sorts in another order than its bytes
        there = "".join(
            f"{one} IS NOT NULL AND " for one, other in ((left, right), (right, left)) if _is_decimal(other)
        )
        return f"coalesce({there}{left} {_SQL_OPERATORS.get(self.operator, self.operator)} {right}, false)"

    def words(self, it: str) -> str:
        left, right = self.left.words(it), self.right.words(it)
        return left if (self.operator, right) == ("==", "true") else f"{left} {self.operator} {right}"

    @property
    def _orders(self) -> bool:
        return self.operator not in _SQL_OPERATORS

    @property
    def _has_bytes(self) -> bool:
        """True if one of the two values is a constant of bytes."""
        return any(isinstance(getattr(value, "constant", None), bytes) for value in (self.left, self.right))

    def check(self, struct: Field) -> None:
        kinds = {self.left.kind(struct), self.right.kind(struct)}
        _same_kind(self, kinds)
        if self._orders and kinds == {"bytes"} and not self._has_bytes:
            raise SchemaError(f"{self.description}: the bytes of two fields can only be compared with == and !=")


def _same_kind(condition: Condition, kinds: set[str]) -> None:
    if len(kinds) > 1 and kinds != {"number", "fraction"}:
        raise SchemaError(f"{condition.description}: cannot compare {' with '.join(sorted(kinds))}")


class Present(Condition, frozen=True, eq=False):
    """The value exists; an array or struct is not null."""

    term: Value

    def python(self, row: Row) -> str:
        tests, _ = self.term.value(row)
        return _all(*tests) if tests else "True"

    def in_sql(self, sql: Sql) -> str:
        return f"({self.term.in_sql(sql)} IS NOT NULL)"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} present"

    def check(self, struct: Field) -> None:
        self.term.exists(struct)


class OneOf(Condition, frozen=True, eq=False):
    """The value is one of several constants."""

    term: Value
    values: tuple[Constant, ...]

    def python(self, row: Row) -> str:
        tests, value = self.term.value(row)
        return _all(*tests, f"{value} in {row.keep(frozenset(self.values))}")

    def in_sql(self, sql: Sql) -> str:
        values = ", ".join(map(sql_literal, self.values))
        return f"coalesce({self.term.in_sql(sql)} IN ({values}), false)" if values else "false"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} in {{{', '.join(map(spoken, self.values))}}}"

    def check(self, struct: Field) -> None:
        _same_kind(self, {self.term.kind(struct), *map(kind_of, self.values)})


class Contains(Condition, frozen=True, eq=False):
    """A text contains a text, or bytes contain bytes."""

    term: Value
    part: str | bytes

    def python(self, row: Row) -> str:
        tests, value = self.term.value(row)
        return _all(*tests, f"{self.part!r} in {value}")

    def in_sql(self, sql: Sql) -> str:
        value = self.term.in_sql(sql)
        if isinstance(self.part, bytes):
            return f"coalesce(contains(unbase64({value}), X'{self.part.hex()}'), false)"
        return f"coalesce(contains({value}, {sql_literal(self.part)}), false)"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} contains {spoken(self.part)}"

    def check(self, struct: Field) -> None:
        _same_kind(self, {self.term.kind(struct), kind_of(self.part)})


class Matches(Condition, frozen=True, eq=False):
    """A regular expression matches somewhere in the text, or in the bytes."""

    term: Value
    pattern: str | bytes

    def python(self, row: Row) -> str:
        tests, value = self.term.value(row)
        return _all(*tests, f"{row.keep(searching(self.pattern))}({value})")

    def in_sql(self, sql: Sql) -> str:
        value = self.term.in_sql(sql)
        text = f"decode(unbase64({value}), 'ISO-8859-1')" if isinstance(self.pattern, bytes) else value
        return f"coalesce(rlike({text}, {sql_literal(in_java(self.pattern))}), false)"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} matches {spoken(self.pattern)}"

    def check(self, struct: Field) -> None:
        _same_kind(self, {self.term.kind(struct), kind_of(self.pattern)})
