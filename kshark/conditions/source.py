"""What a condition is written into: Python source, or Spark SQL. Each knows the row that fields are taken from."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any, Final

from msgspec import UNSET

from kshark.errors import UsageError

#: What a term may be compared with.
Constant = bool | int | float | str | bytes

#: Spark SQL's string literals know backslashes (spark.sql.parser.escapedStringLiterals is off unless somebody says
#: otherwise).
_ESCAPES: Final = {
    ord("\\"): "\\\\",
    ord("'"): "\\'",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0: "\\0",
    26: "\\Z",
}


class Row:
    """A row in Python source: each field that is asked for is read once, into a variable. `has`: what every row has as
    an attribute.

    `known` are names that the source uses.
    """

    def __init__(
        self,
        name: str = "row",
        known: dict[str, Any] | None = None,
        numbers: count[int] | None = None,
        has: Collection[str] = (),
    ) -> None:
        self.name = name
        self._has = has
        self.known: dict[str, Any] = {"UNSET": UNSET} if known is None else known
        self._numbers = count() if numbers is None else numbers
        self._fields: dict[str, str] = {}
        self._reads: list[tuple[str, str]] = []

    def field(self, name: str) -> str:
        """The variable that has a field, None or UNSET where it is absent; dots lead into structs."""
        known = self._fields.get(name)
        if known is None:
            owner, _, last = name.rpartition(".")
            known = self._fields[name] = f"v{next(self._numbers)}"
            of = self.field(owner) if owner else self.name
            self._reads.append((known, f"{of}.{last}" if name in self._has else f"getattr({of}, {last!r}, None)"))
        return known

    @property
    def fields(self) -> frozenset[str]:
        """The fields that were asked for; of a path the first part."""
        return frozenset(name for name in self._fields if "." not in name)

    def inside(self) -> Row:
        """A row of its own, for an array's elements."""
        return Row(f"x{next(self._numbers)}", self.known, self._numbers)

    def keep(self, value: Any) -> str:
        """The name of a value that has no literal."""
        name = f"k{next(self._numbers)}"
        self.known[name] = value
        return name

    def loops(self) -> str:
        """The reads inside a comprehension, where Python makes plain assignments of them."""
        return "".join(f" for {variable} in ({value},)" for variable, value in self._reads)

    def function(self, result: str) -> Any:
        """A function of the row that returns what the expression says."""
        reads = "".join(f"    {variable} = {value}\n" for variable, value in self._reads)
        return self._made(f"def made({self.name}):\n{reads}    return {result}\n")

    def chooser(self, test: str) -> Any:
        """A function of many rows that returns a list of those for which the expression is true: a call for each would
        cost as much."""
        return self._made(
            f"def made(rows):\n    return [{self.name} for {self.name} in rows{self.loops()} if {test}]\n"
        )

    def _made(self, source: str) -> Any:
        names = {"__builtins__": {"getattr": getattr, "len": len}, **self.known}
        exec(_compiled(source), names)
        return names["made"]


@lru_cache(1 << 10)
def _compiled(source: str) -> CodeType:
    """Each of many analyses, of captures or of buckets, asks for the same."""
    return compile(source, "<condition>", "exec")


@dataclass(frozen=True, slots=True)
class Sql:
    """An expression over `row`, a column or a lambda's variable; `version` is the column of the API's version, where
    there is one."""

    row: str
    version: str | None = None
    depth: int = 0

    def inside(self) -> Sql:
        """Where fields are those of an array's element."""
        return replace(self, row=f"x{self.depth}", depth=self.depth + 1)

    def known_version(self) -> str:
        if self.version is None:
            raise UsageError(
                "this condition depends on the API's version; name the column that has it: condition.sql(column, "
                "version)"
            )
        return self.version


def sql_literal(value: Constant) -> str:
    """A constant in Spark SQL. Bytes are base64 text, as in the JSON of a body."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return f"{value!r}D"
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return f"'{text.translate(_ESCAPES)}'"
