"""What is true or false of a message, and how conditions are joined: and, or, not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from kshark.conditions.source import Row, Sql
from kshark.schema import Field

Test = Callable[[Any], bool]


class Condition(ABC):
    """A condition over a row: a body, an element of an array, or a whole message. Immutable; equal when it is written
    the same."""

    __slots__ = ()

    #: Its words have several parts, of which one or another holds.
    is_list: ClassVar[bool] = False

    def __and__(self, other: Condition) -> Condition:
        return And((*_items(And, self), *_items(And, other)))

    def __or__(self, other: Condition) -> Condition:
        return Or((*_items(Or, self), *_items(Or, other)))

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition is true or false of a body only: join conditions by & | ~, not by and, or, not, or a < b < c"
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def compiled(self, version: int | None = None) -> Test:
        """A function that says whether it holds of a decoded body; `version` is the API's, for what depends on it."""
        row = Row()
        test: Test = row.function(self._at(version).python(row))
        return test

    def sql(self, column: str, version: str | None = None) -> str:
        """A Spark SQL expression, never null, over a column of struct type that has the fields; `version`: the column
        of API versions."""
        return self.in_sql(Sql(column, version))

    @property
    def told(self) -> str:
        """The condition in words, for people."""
        return self.words("it")

    def at(self, version: int) -> Condition:
        """What it means in that version of the API."""
        return self.mapped(lambda part: part.at(version))

    def _at(self, version: int | None) -> Condition:
        return self if version is None else self.at(version)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        """The same of changed parts; itself where it has none."""
        return self

    def fields(self) -> frozenset[str]:
        """The fields of the row that it asks for; of a path the first part."""
        row = Row()
        self.python(row)
        return row.fields

    @abstractmethod
    def python(self, row: Row) -> str:
        """An expression that is True or False."""

    @abstractmethod
    def in_sql(self, sql: Sql) -> str:
        """The same in Spark SQL, never null."""

    @abstractmethod
    def words(self, it: str) -> str:
        """The same in words; `it` is what an array's element is called."""

    @abstractmethod
    def check(self, struct: Field) -> None:
        """Raises SchemaError for what rows of that schema can have in no version, and for values of two kinds beside
        each other."""

    def or_as_one(self, other: Condition) -> Condition | None:
        """`self | other` as one condition that goes through the same elements only once; None where there are no
        such."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Truth(Condition):
    """True or false of everything."""

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


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    """All of them."""

    items: tuple[Condition, ...]

    def python(self, row: Row) -> str:
        return "(" + " and ".join([item.python(row) for item in self.items]) + ")"

    def in_sql(self, sql: Sql) -> str:
        return "(" + " AND ".join([item.in_sql(sql) for item in self.items]) + ")"

    def words(self, it: str) -> str:
        told = [f"({item.words(it)})" if item.is_list else item.words(it) for item in self.items if item != ALWAYS]
        return " and ".join(told) or ALWAYS.words(it)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return And(tuple(map(change, self.items)))

    def check(self, struct: Field) -> None:
        for item in self.items:
            item.check(struct)


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    """At least one of them."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    """It does not hold."""

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
    """A function that gives the numbers, from 0, of the conditions that hold of a body. Arrays are gone through once
    where none does."""
    row = Row()
    known = [condition._at(version) for condition in conditions]
    numbers = "".join(
        [f"*(({number},) if {condition.python(row)} else ()), " for number, condition in enumerate(known)]
    )
    found: Callable[[Any], tuple[int, ...]] = row.function(f"({numbers}) if {either(known).python(row)} else ()")
    return found


def _items(kind: type[And] | type[Or], condition: Condition) -> tuple[Condition, ...]:
    return condition.items if isinstance(condition, kind) else (condition,)


def either(conditions: Iterable[Condition]) -> Condition:
    """`a | b | ...`, as few conditions as say it."""
    found = _together([item for condition in conditions for item in _items(Or, condition)])
    return found[0] if len(found) == 1 else Or(tuple(found))


def _together(items: Iterable[Condition]) -> list[Condition]:
    found: list[Condition] = []
    for item in items:
        for at, other in enumerate(found):
            one = other.or_as_one(item)
            if one is not None:
                found[at] = one
                break
        else:
            found.append(item)
    return found
