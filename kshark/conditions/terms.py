"""What has a value in a message, or is absent: fields, elements, sizes, sums; and what can be said of one value."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn

from kshark.conditions.condition import Condition
from kshark.conditions.source import Constant, Row, Sql, sql_literal
from kshark.errors import SchemaError
from kshark.schema import FIXED, VARYING, Field

#: What values of a schema's type are; arrays and structs are none.
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*FIXED, *VARYING), "number"),
    **dict.fromkeys(("string", "uuid"), "text"),
    "bytes": "bytes",
    "bool": "truth",
    "float64": "fraction",
}
_SQL_OPERATORS: Final = {"==": "=", "!=": "<>"}


class Term(ABC):
    """A value of a row, or nothing. Comparing terms gives conditions."""

    __slots__ = ()

    def __lt__(self, other: Term | Constant) -> Condition:
        return Compare("<", self, term(other))

    def __le__(self, other: Term | Constant) -> Condition:
        return Compare("<=", self, term(other))

    def __gt__(self, other: Term | Constant) -> Condition:
        return Compare(">", self, term(other))

    def __ge__(self, other: Term | Constant) -> Condition:
        return Compare(">=", self, term(other))

    def __eq__(self, other: Term | Constant) -> Condition:  # type: ignore[override]
        return Compare("==", self, term(other))

    def __ne__(self, other: Term | Constant) -> Condition:  # type: ignore[override]
        return Compare("!=", self, term(other))

    def __add__(self, other: Term | int) -> Term:
        return Sum("+", self, term(other))

    def __sub__(self, other: Term | int) -> Term:
        return Sum("-", self, term(other))

    def __bool__(self) -> NoReturn:
        raise TypeError("a term has a value in a message only; write a.is_true() or a.present(), and a.one_of(...) for `in`")

    __hash__ = None  # type: ignore[assignment]

    def present(self) -> Condition:
        """It is there, and not null."""
        return Present(self)

    def is_true(self) -> Condition:
        """It is there and true."""
        return Compare("==", self, Const(True))

    def one_of(self, *values: Constant) -> Condition:
        """It is one of these values."""
        return OneOf(self, values)

    def contains(self, part: str | bytes) -> Condition:
        """That text, or these bytes, occur in it."""
        return Contains(self, part)

    def matches(self, pattern: str | bytes) -> Condition:
        """The regular expression matches somewhere in the text, or in the bytes; upper and lower case are alike. Raises re.error."""
        re.compile(pattern)
        return Matches(self, pattern)

    @abstractmethod
    def value(self, row: Row) -> tuple[list[str], str]:
        """Python tests that all hold where the value is present, and the expression that has it then."""

    @abstractmethod
    def in_sql(self, sql: Sql) -> str:
        """An expression for the value in Spark SQL; null where it is absent."""

    @abstractmethod
    def words(self, it: str) -> str:
        """What it is called; `it` is an element's name."""

    @abstractmethod
    def kind(self, struct: Field) -> str:
        """`number`, `fraction`, `text`, `bytes` or `truth`, in rows of that schema. Raises SchemaError for what it does not have."""


def _kind(field: Field, name: str) -> str:
    if field.type not in KINDS:
        raise SchemaError(f"{name} is {field.type}, which has no single value")
    return KINDS[field.type]


def kind_of(constant: Constant) -> str:
    """The kind of a constant."""
    return {bool: "truth", str: "text", bytes: "bytes", float: "fraction"}.get(type(constant), "number")


def element(array: F, struct: Field) -> Field:
    """What an array of that schema holds. Raises SchemaError for what is no array."""
    field = array.field(struct)
    if field.element is None:
        raise SchemaError(f"{array.name} is no array but {field.type}")
    return field.element


def _if_there(variable: str) -> tuple[list[str], str]:
    return [f"{variable} is not None", f"{variable} is not UNSET"], variable


def _all(*tests: str) -> str:
    return f"({' and '.join(dict.fromkeys(tests))})"


@dataclass(frozen=True, slots=True, eq=False)
class F(Term):
    """A field by its name in snake_case; dots lead into structs: `F("current_leader.leader_id")`."""

    name: str

    def value(self, row: Row) -> tuple[list[str], str]:
        return _if_there(row.field(self.name))

    def in_sql(self, sql: Sql) -> str:
        return ".".join([sql.row, *(f"`{part}`" for part in self.name.split("."))])

    def words(self, it: str) -> str:
        return self.name

    def field(self, struct: Field) -> Field:
        """The field in a schema. Raises SchemaError where no version has it."""
        for part in self.name.split("."):
            found = next((field for field in struct.fields if field.name == part), None)
            if found is None:
                raise SchemaError(f"no field {self.name}: {part} is none of {', '.join(field.name for field in struct.fields)}")
            struct = found
        return struct

    def kind(self, struct: Field) -> str:
        return _kind(self.field(struct), self.name)


@dataclass(frozen=True, slots=True, eq=False)
class _Element(Term):
    """An element of an array of plain values."""

    def value(self, row: Row) -> tuple[list[str], str]:
        return _if_there(row.name)

    def in_sql(self, sql: Sql) -> str:
        return sql.row

    def words(self, it: str) -> str:
        return it

    def kind(self, struct: Field) -> str:
        return _kind(struct, "the element")


ELEMENT: Final = _Element()


@dataclass(frozen=True, slots=True, eq=False)
class Const(Term):
    """The same value in every message."""

    constant: Constant

    def value(self, row: Row) -> tuple[list[str], str]:
        return [], repr(int(self.constant)) if isinstance(self.constant, IntEnum) else repr(self.constant)

    def in_sql(self, sql: Sql) -> str:
        return sql_literal(self.constant)

    def words(self, it: str) -> str:
        return spoken(self.constant)

    def kind(self, struct: Field) -> str:
        return kind_of(self.constant)


def size(array: str | F) -> Term:
    """How many elements an array has; 0 where it is absent or null."""
    return Size(F(array) if isinstance(array, str) else array)


@dataclass(frozen=True, slots=True, eq=False)
class Size(Term):
    """Number of an array's elements, never absent."""

    array: F

    def value(self, row: Row) -> tuple[list[str], str]:
        return [], f"len({row.field(self.array.name)} or ())"

    def in_sql(self, sql: Sql) -> str:
        array = self.array.in_sql(sql)
        return f"if({array} IS NULL, 0, size({array}))"

    def words(self, it: str) -> str:
        return f"number of {self.array.name.rpartition('.')[2].replace('_', ' ')}"

    def kind(self, struct: Field) -> str:
        element(self.array, struct)
        return "number"


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Term):
    """A sum or difference of whole numbers, however large. SQL's decimals hold what 64 bits do not."""

    operator: str
    left: Term
    right: Term

    def value(self, row: Row) -> tuple[list[str], str]:
        left, right = self.left.value(row), self.right.value(row)
        return [*left[0], *right[0]], f"({left[1]} {self.operator} {right[1]})"

    def in_sql(self, sql: Sql) -> str:
        left, right = (f"CAST({side.in_sql(sql)} AS DECIMAL(24))" for side in (self.left, self.right))
        return f"({left} {self.operator} {right})"

    def words(self, it: str) -> str:
        return f"{self.left.words(it)} {self.operator} {self.right.words(it)}"

    def kind(self, struct: Field) -> str:
        if {self.left.kind(struct), self.right.kind(struct)} != {"number"}:
            raise SchemaError(f"{self.words('it')} is no sum of whole numbers")
        return "number"


def term(value: Term | Constant) -> Term:
    """A constant as a term. Raises TypeError for what is no constant, None above all: absence is asked for by `present`."""
    if isinstance(value, Term):
        return value
    if not isinstance(value, bool | int | float | str | bytes):
        raise TypeError(f"{value!r} is nothing a field may be compared with (absent or null: ~F(...).present())")
    return Const(value)


def spoken(value: Constant) -> str:
    """A constant for people: enumerations by name, text in quotes."""
    if isinstance(value, IntEnum):
        return value.name
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Condition):
    """Two values side by side; false where one is absent."""

    operator: str
    left: Term
    right: Term

    def python(self, row: Row) -> str:
        left, right = self.left.value(row), self.right.value(row)
        tests = [*left[0], *right[0]]
        if self.operator == "==" and isinstance(self.left, F) and isinstance(self.right, Const):
            tests = []  # nothing absent equals a constant
        return _all(*tests, f"{left[1]} {self.operator} {right[1]}")

    def in_sql(self, sql: Sql) -> str:
        operator = _SQL_OPERATORS.get(self.operator, self.operator)
        return f"coalesce({self.left.in_sql(sql)} {operator} {self.right.in_sql(sql)}, false)"

    def words(self, it: str) -> str:
        if self.operator == "==" and isinstance(self.right, Const) and self.right.constant is True:
            return self.left.words(it)
        return f"{self.left.words(it)} {self.operator} {self.right.words(it)}"

    def check(self, struct: Field) -> None:
        _same_kind(self, {self.left.kind(struct), self.right.kind(struct)})


def _same_kind(condition: Condition, kinds: set[str]) -> None:
    if len(kinds) > 1 and kinds != {"number", "fraction"}:
        raise SchemaError(f"{condition.told}: {' beside '.join(sorted(kinds))}")


@dataclass(frozen=True, slots=True, eq=False)
class Present(Condition):
    """There is a value; of arrays and structs: they are not null."""

    term: Term

    def python(self, row: Row) -> str:
        tests, _ = self.term.value(row)
        return _all(*tests) if tests else "True"

    def in_sql(self, sql: Sql) -> str:
        return f"({self.term.in_sql(sql)} IS NOT NULL)"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} present"

    def check(self, struct: Field) -> None:
        if isinstance(self.term, F):
            self.term.field(struct)  # an array or a struct may be asked for too
        else:
            self.term.kind(struct)


@dataclass(frozen=True, slots=True, eq=False)
class OneOf(Condition):
    """The value is one of several."""

    term: Term
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


@dataclass(frozen=True, slots=True, eq=False)
class Contains(Condition):
    """A text that occurs in the text, bytes in the bytes."""

    term: Term
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


@dataclass(frozen=True, slots=True, eq=False)
class Matches(Condition):
    """A regular expression that is found in the text, or in the bytes."""

    term: Term
    pattern: str | bytes

    def python(self, row: Row) -> str:
        tests, value = self.term.value(row)
        search = row.keep(re.compile(self.pattern, re.IGNORECASE).search)
        return _all(*tests, f"{search}({value}) is not None")

    def in_sql(self, sql: Sql) -> str:
        value = self.term.in_sql(sql)
        if isinstance(self.pattern, bytes):
            return f"coalesce(rlike(decode(unbase64({value}), 'ISO-8859-1'), {_pattern(self.pattern.decode('latin-1'))}), false)"
        return f"coalesce(rlike({value}, {_pattern(self.pattern)}), false)"

    def words(self, it: str) -> str:
        return f"{self.term.words(it)} matches {spoken(self.pattern)}"

    def check(self, struct: Field) -> None:
        _same_kind(self, {self.term.kind(struct), kind_of(self.pattern)})


def _pattern(pattern: str) -> str:
    return sql_literal(f"(?iu){pattern}")
