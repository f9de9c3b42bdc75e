"""Terms of a whole message: the truth of a condition, and values computed by a function, such as a port."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kshark.conditions.condition import Condition
from kshark.conditions.source import Row, Sql
from kshark.conditions.terms import Term
from kshark.endpoints import KEPT, Address, address_of
from kshark.errors import UsageError
from kshark.schema import Field


class Whether(Term, frozen=True, eq=False):
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


class Made(Term, frozen=True, eq=False):
    """A value computed by a Python function; `name` describes it for people. It has no SQL."""

    name: str
    function: Callable[[Any], Any]
    of: Term

    def value(self, row: Row) -> tuple[list[str], str]:
        tests, value = self.of.value(row)
        return tests, f"{row.keep(self.function)}({value})"

    def in_sql(self, sql: Sql) -> str:
        raise UsageError(f"{self.words('it')} has no SQL form")

    def words(self, it: str) -> str:
        return f"{self.name} of {self.of.words(it)}"

    def kind(self, struct: Field) -> str:
        raise UsageError(f"{self.words('it')} belongs to no schema")


def lies_in(low: Address, high: Address) -> Callable[[str], bool]:
    """Return a test that is true if the address of `address:port` is in the range."""

    @lru_cache(KEPT)
    def lies(end: str) -> bool:
        address: Any = address_of(end)
        return address is not None and address.version == low.version and low <= address <= high

    return lies
