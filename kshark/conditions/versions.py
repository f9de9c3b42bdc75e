"""Conditions that differ between versions of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from kshark.conditions.condition import NEVER, Condition
from kshark.conditions.source import Row, Sql
from kshark.errors import UsageError
from kshark.schema import OPEN, Field, Versions, versions_of


def by_version(cases: Mapping[str, Condition]) -> Condition:
    """Return a condition with a case for each range of versions: `by_version({"0-1": ..., "2+": ...})`.

    False in a version of no range.
    """
    return ByVersion(tuple((versions_of(versions), condition) for versions, condition in cases.items()))


class ByVersion(Condition, frozen=True, eq=False):
    """A condition for each range of versions."""

    is_list: ClassVar[bool] = True
    cases: tuple[tuple[Versions, Condition], ...]

    def at(self, version: int) -> Condition:
        return next((condition.at(version) for versions, condition in self.cases if version in versions), NEVER)

    def python(self, row: Row) -> str:
        raise UsageError("this condition depends on the API's version: give the version, as in condition.compiled(1)")

    def in_sql(self, sql: Sql) -> str:
        version = sql.required_version()
        cases = [
            f"WHEN {_within(versions, version)} THEN {condition.in_sql(sql)}" for versions, condition in self.cases
        ]
        return f"(CASE {' '.join(cases)} ELSE false END)"

    def words(self, it: str) -> str:
        return "; ".join(f"{condition.words(it)} in version {versions}" for versions, condition in self.cases)

    def mapped(self, change: Callable[[Condition], Condition]) -> Condition:
        return ByVersion(tuple((versions, change(condition)) for versions, condition in self.cases))

    def check(self, struct: Field) -> None:
        for _, condition in self.cases:
            condition.check(struct)


def _within(versions: Versions, column: str) -> str:
    return (
        f"{column} >= {versions.low}"
        if versions.high == OPEN
        else f"{column} BETWEEN {versions.low} AND {versions.high}"
    )
