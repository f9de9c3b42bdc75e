"""Fields of bodies in a filter: a test becomes a condition when a message's API, version and direction are known."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from kshark.codec import DECODED
from kshark.codec.paths import Names, Path, values
from kshark.conditions.condition import ALWAYS, NEVER, Condition, either
from kshark.conditions.elements import AnyOf
from kshark.conditions.field_test import FieldTest
from kshark.conditions.fields import BodyField
from kshark.conditions.literals import OF_KIND, TEXT, type_of
from kshark.conditions.message import Made
from kshark.conditions.source import Row, Sql
from kshark.conditions.terms import ELEMENT, F
from kshark.conditions.topics import Topics
from kshark.errors import FilterError, UsageError
from kshark.model import Message
from kshark.schema import Field

#: Kinds of values that no schema describes: values in decoded bytes.
_KINDS: Final = {bool: "truth", int: "number", float: "fraction", str: "text", bytes: "bytes"}


class OfMessages(Condition, frozen=True, eq=False):
    """A condition that only filters have: it has no SQL and no schema."""

    def in_sql(self, sql: Sql) -> str:
        raise UsageError(f"{self.description} has no SQL form")

    def check(self, struct: Field) -> None:
        raise UsageError(f"{self.description} belongs to no schema")


class InBody(OfMessages, frozen=True, eq=False):
    """A test of some occurrence of a body's field, wherever it is; `apis` are the APIs that have the field."""

    field: BodyField
    test: FieldTest
    apis: frozenset[int]

    def fields(self) -> frozenset[str]:
        return frozenset({"body"})

    def python(self, row: Row) -> str:
        raise UsageError(f"{self.description}: the path of the field depends on the message")

    def words(self, it: str) -> str:
        return self.test.description

    def where(self, paths: Iterable[Path]) -> Condition:
        """Return the condition for messages whose bodies have the field at these paths.

        For values of another type no test is true.
        """
        conditions = []
        for path in paths:
            with suppress(FilterError):
                conditions.append(self.at_path(path))
        if (name := self.field.owner) is not None:
            with suppress(FilterError):
                conditions.append(self.test.of(F(name), TEXT))
        return either(conditions) if conditions else NEVER

    def at_path(self, path: Path) -> Condition:
        """Return the condition for one path, through arrays and structs to the field.

        Raises FilterError if the test does not fit the field's values.
        """
        way, arrays = "body", []
        for name, field in zip(path.names, (*path.owners, path.field), strict=True):
            way = f"{way}.{name}" if way else name
            if field.type == "array":
                arrays.append(F(way))
                way = ""
        if way and path.names[-1].endswith(DECODED):
            condition = self._inside(F(way))
        elif not way and self.test.operator == "present":
            condition = ALWAYS  # the array has an element
        else:
            condition = self.test.of(F(way) if way else ELEMENT, type_of(path.field))
        for array in reversed(arrays):
            condition = AnyOf(array, condition)
        return condition

    def _inside(self, opened: F) -> Condition:
        """Return the condition for values in decoded bytes: only for values of a fitting kind."""
        if self.test.operator == "present":
            return AnyInside(opened, self.field.rest, ELEMENT.present())
        conditions = []
        for kind, type in OF_KIND.items():
            try:
                conditions.append((Made("kind", _kind_of, ELEMENT) == kind) & self.test.of(ELEMENT, type))
            except FilterError as error:
                wrong = error
        if not conditions:
            raise wrong
        return AnyInside(opened, self.field.rest, either(conditions))


class OfTopics(OfMessages, frozen=True, eq=False):
    """A test of some topic of a message: its id and its name are one occurrence, and either may pass.

    `text`: the test as a condition on one text.
    """

    topics: Topics
    test: FieldTest
    text: Condition
    apis: frozenset[int]

    def fields(self) -> frozenset[str]:
        return frozenset({"body"})

    def python(self, row: Row) -> str:
        test, topics = self.text.compiled(), self.topics
        holds = all if self.test.operator == "!=" else any

        def passes(message: Message) -> bool:
            return any(holds(test(text) for text in topic if text is not None) for topic in topics.of(message))

        return f"{row.keep(passes)}({row.name})"

    def words(self, it: str) -> str:
        return self.test.description


class AnyInside(OfMessages, frozen=True, eq=False):
    """Some value at the end of a path that no schema describes; arrays on the path are searched."""

    opened: F
    names: Names
    condition: Condition

    def python(self, row: Row) -> str:
        opened, inside = row.field(self.opened.name), row.inside()
        test = self.condition.python(inside)
        return (
            f"([1 for {inside.name} in {row.keep(values)}({opened}, {self.names!r}){inside.loops()} if {test}] != [])"
        )

    def words(self, it: str) -> str:
        return f"some {'.'.join((self.opened.name, *self.names))} with {self.condition.words('value')}"


def _kind_of(value: Any) -> str:
    return _KINDS.get(type(value), "")
