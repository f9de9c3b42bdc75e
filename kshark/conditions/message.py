"""Terms of a whole message: the truth of a condition, and what a function makes of a value, such as the port of an
end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kshark.conditions.condition import Condition
from kshark.conditions.source import Row, Sql
from kshark.conditions.terms import Term
from kshark.endpoints import KEPT, Address, address_of
from kshark.errors import UsageError
from kshark.schema import Field


@dataclass(frozen=True, slots=True, eq=False)
class Whether(Term):
    """The truth of a condition, as a value."""

    condition: Condition

    def value(self, row: Row) -> tuple[list[str], str]:
        return [], self.condition.python(row)

    def in_sql(self, sql: Sql) -> str:
        return self.condition.in_sql(sql)

    def words(self, it: str) -> str:
        return self.condition.words(it)

    def kind(self, struct: Field) -> str:
        return "truth"


@dataclass(frozen=True, slots=True, eq=False)
class Made(Term):
    """What a Python function makes of a value; `name` says in words what that is. It has no SQL."""

    name: str
    function: Callable[[Any], Any]
    of: Term

    def value(self, row: Row) -> tuple[list[str], str]:
        tests, value = self.of.value(row)
        return tests, f"{row.keep(self.function)}({value})"

    def in_sql(self, sql: Sql) -> str:
        raise UsageError(f"{self.words('it')} cannot be asked for in SQL")

    def words(self, it: str) -> str:
        return f"{self.name} of {self.of.words(it)}"

    def kind(self, struct: Field) -> str:
        raise UsageError(f"{self.words('it')} is of no schema")


def lies_in(low: Address, high: Address) -> Callable[[str], bool]:
    """Whether the address of `address:port` is one of those."""

    @lru_cache(KEPT)
    def lies(end: str) -> bool:
        found: Any = address_of(end)
        return found is not None and found.version == low.version and low <= found <= high

    return lies
