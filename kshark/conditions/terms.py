"""Terms: values in a message that may be absent: fields, elements, constants, sizes, sums."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NoReturn

from kshark.conditions.comparisons import Compare, Contains, Matches, OneOf, Present, Value, kind_of, spoken
from kshark.conditions.condition import Condition
from kshark.conditions.source import Constant, Row, Sql, sql_literal
from kshark.errors import SchemaError
from kshark.schema import FIXED, VARYING, Field

#: The kind of values of each schema type; arrays and structs have none.
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*FIXED, *VARYING), "number"),
    **dict.fromkeys(("string", "uuid"), "text"),
    "bytes": "bytes",
    "bool": "truth",
    "float64": "fraction",
}


class Term(Value, frozen=True, eq=False):
    """A value of a row, or absent. Comparing terms gives conditions."""

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
        raise TypeError(
            "a term has no value without a message; write a.is_true() or a.present(), and a.one_of(...) for `in`"
        )

    __hash__ = None  # type: ignore[assignment]

    def present(self) -> Condition:
        """True if it exists and is not null."""
        return Present(self)

    def is_true(self) -> Condition:
        """True if it exists and is true."""
        return Compare("==", self, Const(True))

    def one_of(self, *values: Constant) -> Condition:
        """True if it is one of these values."""
        return OneOf(self, values)

    def contains(self, part: str | bytes) -> Condition:
        """True if it contains that text, or these bytes."""
        return Contains(self, part)

    def matches(self, pattern: str | bytes) -> Condition:
        """True if the regular expression (kshark.conditions.expressions) matches somewhere in the text, or in the
        bytes.
        """
        return Matches(self, pattern)


def _kind(field: Field, name: str) -> str:
    if field.type not in KINDS:
        raise SchemaError(f"{name} is {field.type}, which has no single value")
    return KINDS[field.type]


def element(array: F, struct: Field) -> Field:
    """Return the field of an array's elements. Raises SchemaError if it is not an array."""
    field = array.field(struct)
    if field.element is None:
        raise SchemaError(f"{array.name} is not an array but {field.type}")
    return field.element


def _if_there(variable: str) -> tuple[list[str], str]:
    return [f"{variable} is not None", f"{variable} is not UNSET"], variable


class F(Term, frozen=True, eq=False):
    """A field by its name in snake_case; dots separate structs: `F("current_leader.leader_id")`."""

    name: str

    def value(self, row: Row) -> tuple[list[str], str]:
        return _if_there(row.field(self.name))

    def in_sql(self, sql: Sql) -> str:
        return ".".join([sql.row, *(f"`{part}`" for part in self.name.split("."))])

    def words(self, it: str) -> str:
        return self.name

    def field(self, struct: Field) -> Field:
        """Return the field in a schema. Raises SchemaError if no version has it."""
        for part in self.name.split("."):
            inner = next((field for field in struct.fields if field.name == part), None)
            if inner is None:
                raise SchemaError(
                    f"no field {self.name}: {part} is not one of {', '.join(field.name for field in struct.fields)}"
                )
            struct = inner
        return struct

    def kind(self, struct: Field) -> str:
        return _kind(self.field(struct), self.name)

    def exists(self, struct: Field) -> None:
        self.field(struct)


class _Element(Term, frozen=True, eq=False):
    """An element of an array of scalar values."""

    def value(self, row: Row) -> tuple[list[str], str]:
        return _if_there(row.name)

    def in_sql(self, sql: Sql) -> str:
        return sql.row

    def words(self, it: str) -> str:
        return it

    def kind(self, struct: Field) -> str:
        return _kind(struct, "the element")


ELEMENT: Final = _Element()


class Const(Term, frozen=True, eq=False):
    """A constant: the same value in every message."""

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
    """Return a term for the number of an array's elements; 0 if it is absent or null."""
    return Size(F(array) if isinstance(array, str) else array)


class Size(Term, frozen=True, eq=False):
    """The number of an array's elements; never absent."""

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


class Sum(Term, frozen=True, eq=False):
    """A sum or difference of whole numbers of any size. SQL uses decimals for numbers beyond 64 bits."""

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
            raise SchemaError(f"{self.words('it')} is not a sum of whole numbers")
        return "number"


def term(value: Term | Constant) -> Term:
    """Return a constant as a term.

    Raises TypeError for any other value, also for None: use `present` to test for absence.
    """
    if isinstance(value, Term):
        return value
    if not isinstance(value, bool | int | float | str | bytes):
        raise TypeError(f"{value!r} cannot be compared with a field (absent or null: ~F(...).present())")
    return Const(value)
