"""Conditions: true or false for each message. Joined with and, or, not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, NoReturn

from msgspec import Struct

from kshark.conditions.source import Row, Sql
from kshark.schema import Field

Test = Callable[[Any], bool]


class Condition(Struct, frozen=True, eq=False):
    """A condition over a row: a body, an element of an array, or a whole message.

    Immutable. Two conditions are equal if they are written the same way.
    """

    #: True if its text lists alternatives, so that it needs brackets inside an And.
    is_list: ClassVar[bool] = False

    def __and__(self, other: Condition) -> Condition:
        return And((*_items(And, self), *_items(And, other)))

    def __or__(self, other: Condition) -> Condition:
        return Or((*_items(Or, self), *_items(Or, other)))

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition has no truth value without a body: join conditions with & | ~, not with and, or, not, a<b<c"
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def compiled(self, version: int | None = None) -> Test:
        """Compile a function that tests a decoded body.

        `version`: the API's version, for a condition that depends on it.
        """
        row = Row()
        test: Test = row.function(self._at(version).python(row))
        return test

    def sql(self, column: str, version: str | None = None) -> str:
        """Return a Spark SQL expression over a column of struct type that has the fields; it is never null.

        `version`: the column with the API's version.
        """
        return self.in_sql(Sql(column, version))

    @property
    def description(self) -> str:
        """The condition as text, for people."""
        return self.words("it")

    def at(self, version: int) -> Condition:
        """Return the condition for that version of the API."""
        return self.mapped(lambda part: part.at(version))

    def _at(self, version: int | None) -> Condition:
        return self if version is None else self.at(version)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        """Return the same condition with changed parts; itself if it has no parts."""
        return self

    def fields(self) -> frozenset[str]:
        """Return the fields of the row that it reads; only the first part of a path."""
        row = Row()
        self.python(row)
        return row.fields

    @abstractmethod
    def python(self, row: Row) -> str:
        """Return a Python expression that is True or False."""

    @abstractmethod
    def in_sql(self, sql: Sql) -> str:
        """Return the condition in Spark SQL; never null."""

    @abstractmethod
    def words(self, it: str) -> str:
        """Return the condition as text; `it` is the name of an array's element."""

    @abstractmethod
    def check(self, struct: Field) -> None:
        """Check the condition against a schema.

        Raises SchemaError for a field that no version has, and for a comparison of values of two kinds.
        """

    def or_as_one(self, other: Condition) -> Condition | None:
        """Return `self | other` as one condition that loops over the same elements only once; None if none are."""
        return None


class Truth(Condition, frozen=True, eq=False):
    """A condition that is always true, or always false."""

    holds: bool

    def python(self, row: Row) -> str:
        return str(self.holds)

    def in_sql(self, sql: Sql) -> str:
        return str(self.holds).lower()

    def words(self, it: str) -> str:
        return "always" if self.holds else "never"

    def check(self, struct: Field) -> None:
        pass


ALWAYS: Final = Truth(True)
NEVER: Final = Truth(False)


class And(Condition, frozen=True, eq=False):
    """True if all items are true."""

    items: tuple[Condition, ...]

    def python(self, row: Row) -> str:
        return "(" + " and ".join([item.python(row) for item in self.items]) + ")"

    def in_sql(self, sql: Sql) -> str:
        return "(" + " AND ".join([item.in_sql(sql) for item in self.items]) + ")"

    def words(self, it: str) -> str:
        texts = [f"({item.words(it)})" if item.is_list else item.words(it) for item in self.items if item != ALWAYS]
        return " and ".join(texts) or ALWAYS.words(it)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return And(tuple(map(change, self.items)))

    def check(self, struct: Field) -> None:
        for item in self.items:
            item.check(struct)


class Or(Condition, frozen=True, eq=False):
    """True if at least one item is true."""

    is_list: ClassVar[bool] = True
    items: tuple[Condition, ...]

    def python(self, row: Row) -> str:
        return "(" + " or ".join([item.python(row) for item in _together(self.items)]) + ")"

    def in_sql(self, sql: Sql) -> str:
        return "(" + " OR ".join([item.in_sql(sql) for item in self.items]) + ")"

    def words(self, it: str) -> str:
        return " or ".join(item.words(it) for item in self.items)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return Or(tuple(map(change, self.items)))

    def check(self, struct: Field) -> None:
        for item in self.items:
            item.check(struct)


class Not(Condition, frozen=True, eq=False):
    """True if the item is false."""

    item: Condition

    def python(self, row: Row) -> str:
        return f"(not {self.item.python(row)})"

    def in_sql(self, sql: Sql) -> str:
        return f"(NOT {self.item.in_sql(sql)})"

    def words(self, it: str) -> str:
        return f"not ({self.item.words(it)})"

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return Not(change(self.item))

    def check(self, struct: Field) -> None:
        self.item.check(struct)


def compiled_together(conditions: Sequence[Condition], version: int | None = None) -> Callable[[Any], tuple[int, ...]]:
    """Compile a function that returns the indexes, from 0, of the conditions that are true for a body.

    If none is true, the function loops over each array only once.
    """
    row = Row()
    settled = [condition._at(version) for condition in conditions]
    numbers = "".join(
        [f"*(({number},) if {condition.python(row)} else ()), " for number, condition in enumerate(settled)]
    )
    indexes: Callable[[Any], tuple[int, ...]] = row.function(f"({numbers}) if {either(settled).python(row)} else ()")
    return indexes


def _items(kind: type[And] | type[Or], condition: Condition) -> tuple[Condition, ...]:
    return condition.items if isinstance(condition, kind) else (condition,)


def either(conditions: Iterable[Condition]) -> Condition:
    """Return `a | b | ...` with as few conditions as possible."""
    joined = _together([item for condition in conditions for item in _items(Or, condition)])
    return joined[0] if len(joined) == 1 else Or(tuple(joined))


def _together(items: Iterable[Condition]) -> list[Condition]:
    joined: list[Condition] = []
    for item in items:
        for index, other in enumerate(joined):
            both = other.or_as_one(item)
            if both is not None:
                joined[index] = both
                break
        else:
            joined.append(item)
    return joined
