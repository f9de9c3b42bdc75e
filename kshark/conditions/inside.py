"""Fields of bodies in a filter: what is said of them becomes a condition when a message's API, version and direction
are known."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kshark.codec import DECODED
from kshark.codec.paths import Names, Path, values
from kshark.conditions.condition import ALWAYS, NEVER, Condition, either
from kshark.conditions.elements import AnyOf
from kshark.conditions.fields import BodyField
from kshark.conditions.literals import OF_KIND, TEXT, type_of
from kshark.conditions.message import Made
from kshark.conditions.said import Said
from kshark.conditions.source import Row, Sql
from kshark.conditions.terms import ELEMENT, F
from kshark.errors import FilterError, UsageError
from kshark.schema import Field

#: What values may be that no schema describes: those of what bytes hold.
_KINDS: Final = {bool: "truth", int: "number", float: "fraction", str: "text", bytes: "bytes"}


class OfMessages(Condition):
    """A condition that only filters have: it has no SQL, and no schema to be checked against."""

    __slots__ = ()

    def in_sql(self, sql: Sql) -> str:
        raise UsageError(f"{self.told} cannot be asked for in SQL")

    def check(self, struct: Field) -> None:
        raise UsageError(f"{self.told} is of no schema")


@dataclass(frozen=True, slots=True, eq=False)
class InBody(OfMessages):
    """Something is said of some occurrence of a field in the body, wherever that is; `apis` are those that have the
    field."""

    field: BodyField
    said: Said
    apis: frozenset[int]

    def fields(self) -> frozenset[str]:
        return frozenset({"body"})

    def python(self, row: Row) -> str:
        raise UsageError(f"{self.told}: where that is depends on the message")

    def words(self, it: str) -> str:
        return self.said.told

    def where(self, paths: Iterable[Path]) -> Condition:
        """The same of messages in whose bodies the field is at these paths; of values of another type nothing that is
        said is true."""
        found = []
        for path in paths:
            with suppress(FilterError):
                found.append(self.at_path(path))
        if (name := self.field.owner) is not None:
            with suppress(FilterError):
                found.append(self.said.of(F(name), TEXT))
        return either(found) if found else NEVER

    def at_path(self, path: Path) -> Condition:
        """Through arrays and structs to the field. Raises FilterError where what is said does not fit its values."""
        way, arrays = "body", []
        for name, field in zip(path.names, (*path.owners, path.field), strict=True):
            way = f"{way}.{name}" if way else name
            if field.type == "array":
                arrays.append(F(way))
                way = ""
        if way and path.names[-1].endswith(DECODED):
            condition = self._inside(F(way))
        elif not way and self.said.operator == "present":
            condition = ALWAYS  # an element is there
        else:
            condition = self.said.of(F(way) if way else ELEMENT, type_of(path.field))
        for array in reversed(arrays):
            condition = AnyOf(array, condition)
        return condition

    def _inside(self, opened: F) -> Condition:
        """Of what bytes hold: of values of the kinds that fit."""
        if self.said.operator == "present":
            return AnyInside(opened, self.field.rest, ELEMENT.present())
        found = []
        for kind, type in OF_KIND.items():
            try:
                found.append((Made("kind", _kind_of, ELEMENT) == kind) & self.said.of(ELEMENT, type))
            except FilterError as error:
                wrong = error
        if not found:
            raise wrong
        return AnyInside(opened, self.field.rest, either(found))


@dataclass(frozen=True, slots=True, eq=False)
class AnyInside(OfMessages):
    """Some value at the end of a way that no schema describes, arrays on it walked through."""

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
