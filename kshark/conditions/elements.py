"""Conditions on the elements of an array."""

from __future__ import annotations

from collections.abc import Callable

from kshark.conditions.condition import Condition, either
from kshark.conditions.source import Row, Sql
from kshark.conditions.terms import F, element
from kshark.schema import Field


def any_of(path: str | F, condition: Condition) -> Condition:
    """Return a condition that is true if at least one element fulfils the inner condition.

    `any_of("topics.partitions", F("partition_index") < 0)`: each name of the path is an array.
    `any_of(F("assignment.topic_partitions"), ...)`: the path is one array inside structs.
    """
    arrays = [path] if isinstance(path, F) else [F(name) for name in path.split(".")]
    for array in reversed(arrays):
        condition = AnyOf(array, condition)
    return condition


class AnyOf(Condition, frozen=True, eq=False):
    """At least one element of one array fulfils a condition; false if the array is absent or null."""

    array: F
    condition: Condition

    def python(self, row: Row) -> str:
        return f"([1{self._loops(row)}] != [])"

    def _loops(self, row: Row) -> str:
        array, inside = row.field(self.array.name), row.inside()
        rest = (
            self.condition._loops(inside)
            if isinstance(self.condition, AnyOf)
            else f" if {self.condition.python(inside)}"
        )
        return f" for {inside.name} in {array} or (){inside.loops()}{rest}"

    def in_sql(self, sql: Sql) -> str:
        inside = sql.inside()
        return f"coalesce(exists({self.array.in_sql(sql)}, {inside.row} -> {self.condition.in_sql(inside)}), false)"

    def words(self, it: str) -> str:
        if isinstance(self.condition, AnyOf):  # the innermost array is enough
            return self.condition.words(it)
        noun = singular(self.array.name.rpartition(".")[2])
        inside = self.condition.words(noun)
        return f"some {inside}" if inside.startswith(noun) else f"some {noun} with {inside}"

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return AnyOf(self.array, change(self.condition))

    def check(self, struct: Field) -> None:
        self.condition.check(element(self.array, struct))

    def or_as_one(self, other: Condition) -> Condition | None:
        if isinstance(other, AnyOf) and other.array.name == self.array.name:
            return AnyOf(self.array, either((self.condition, other.condition)))
        return None


def singular(name: str) -> str:
    """Return the singular of an array's name: `acknowledgement_batches` gives `acknowledgement batch`."""
    words = name.replace("_", " ")
    for plural, ending in (("ies", "y"), ("ches", "ch"), ("sses", "ss"), ("ses", "se"), ("s", "")):
        if words.endswith(plural) and not words.endswith(("data", "ss")):
            return words.removesuffix(plural) + ending
    return words
