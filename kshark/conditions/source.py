"""Targets that a condition is compiled to: Python source and Spark SQL. Each knows how to read the fields of a row."""

from __future__ import annotations

import base64
from collections.abc import Collection
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from kshark.errors import UsageError

#: Values that a term may be compared with.
Constant = bool | int | float | str | bytes

#: Spark SQL's string literals use backslash escapes (spark.sql.parser.escapedStringLiterals is off by default).
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
    """A row in Python source; each field is read once, into a variable.

    `has`: the attributes that every row has. `names`: names that the source uses, with their values.
    """

    def __init__(
        self,
        name: str = "row",
        names: dict[str, Any] | None = None,
        numbers: count[int] | None = None,
        has: Collection[str] = (),
    ) -> None:
        self.name = name
        self._has = has
        self.names: dict[str, Any] = {"UNSET": UNSET} if names is None else names
        self._numbers = count() if numbers is None else numbers
        self._fields: dict[str, str] = {}
        self._reads: list[tuple[str, str]] = []

    def field(self, name: str) -> str:
        """Return the variable that holds a field; None or UNSET if it is absent. Dots separate structs."""
        variable = self._fields.get(name)
        if variable is None:
            owner, _, last = name.rpartition(".")
            variable = self._fields[name] = f"v{next(self._numbers)}"
            of = self.field(owner) if owner else self.name
            self._reads.append((variable, f"{of}.{last}" if name in self._has else f"getattr({of}, {last!r}, None)"))
        return variable

    @property
    def fields(self) -> frozenset[str]:
        """The fields that were read; only the first part of a path."""
        return frozenset(name for name in self._fields if "." not in name)

    def inside(self) -> Row:
        """Return a new row for an array's elements."""
        return Row(f"x{next(self._numbers)}", self.names, self._numbers)

    def keep(self, value: Any) -> str:
        """Return a name for a value that cannot be written as a literal."""
        name = f"k{next(self._numbers)}"
        self.names[name] = value
        return name

    def loops(self) -> str:
        """Return the reads as `for` clauses of a comprehension; Python compiles them to plain assignments."""
        return "".join(f" for {variable} in ({value},)" for variable, value in self._reads)

    def function(self, result: str) -> Any:
        """Compile a function of the row that returns the expression's value."""
        reads = "".join(f"    {variable} = {value}\n" for variable, value in self._reads)
        return self._made(f"def made({self.name}):\n{reads}    return {result}\n")

    def chooser(self, test: str) -> Any:
        """Compile a function of many rows that returns the rows for which the expression is true.

        A call for each row would cost as much as the test.
        """
        return self._made(
            f"def made(rows):\n    return [{self.name} for {self.name} in rows{self.loops()} if {test}]\n"
        )

    def _made(self, source: str) -> Any:
        names = {"__builtins__": {"getattr": getattr, "len": len}, **self.names}
        exec(_compiled(source), names)
        return names["made"]


@lru_cache(1 << 10)
def _compiled(source: str) -> CodeType:
    """Compile source; cached, since each capture or bucket compiles the same conditions."""
    return compile(source, "<condition>", "exec")


class Sql(Struct, frozen=True):
    """An SQL expression over `row`, a column or a lambda's variable; `version`: the column with the API's version."""

    row: str
    version: str | None = None
    depth: int = 0

    def inside(self) -> Sql:
        """Return the target for fields of an array's element."""
        return replace(self, row=f"x{self.depth}", depth=self.depth + 1)

    def required_version(self) -> str:
        if self.version is None:
            raise UsageError(
                "this condition depends on the API's version; name the column with the version: condition.sql(column, "
                "version)"
            )
        return self.version


def sql_literal(value: Constant) -> str:
    """Return a constant in Spark SQL. Bytes are base64 text, as in the JSON of a body."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return f"{value!r}D"
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return f"'{text.translate(_ESCAPES)}'"
