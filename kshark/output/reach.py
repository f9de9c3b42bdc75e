"""Values of a body by their path, without a question asked twice: paths of one layout and version, compiled to comprehensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from msgspec import UNSET

from kshark.paths import Names, Path, values
from kshark.schema import Field

#: What is taken of every value: all that the body has, or only what is not zero and not empty.
_PRESENT: Final = "is not UNSET"
_TRUE: Final = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """Reads bodies, or the structures in them, whose class has the fields of `struct` in `version`.

    Bodies of another layout are read as well where `exact` is false: of fields that they do not have there is nothing.
    """

    struct: Field
    version: int
    exact: bool

    def every(self, names: Names, *, true: bool = False) -> Callable[[Any], list[Any]]:
        """Every occurrence in wire order, an array's elements each; `true`: of those only what is neither zero nor empty."""
        if not self.exact:
            return lambda body: [value for value in values(body, names) if value or (value is not None and not true)]
        compiled: Callable[[Any], list[Any]] = eval(self._source(names, _TRUE if true else _PRESENT), {"UNSET": UNSET})
        return compiled

    def one(self, names: Names) -> Callable[[Any], Any]:
        """The value of a field outside arrays; None or UNSET where there is none."""
        if self.exact and len(names) == 1:
            return attrgetter(names[0])
        if self.exact and not self.in_array(names):
            every = self.every(names)
            return lambda body: next(iter(every(body)), None)
        return lambda body: next(values(body, names), None)

    def inside(self, path: Path) -> Reach:
        """The same for the structures of an array."""
        return Reach(path.type, self.version, self.exact)

    def in_array(self, names: Names) -> bool:
        """Whether the field lies inside an array."""
        return any(field.type == "array" for field in self._fields(names)[:-1])

    def _fields(self, names: Names) -> list[Field]:
        fields: list[Field] = []
        struct = self.struct
        for name in names:
            here = (*struct.in_wire_order(self.version), *struct.by_tag(self.version).values())
            fields.append(next(field for field in here if field.name == name))
            struct = fields[-1].element or fields[-1]
        return fields

    def _source(self, names: Names, taken: str) -> str:
        """`lambda body: [value for at1 in body.topics or () for value in (at1.error_code,) if value is not UNSET]`."""
        loops, owner = "", "body"
        for depth, (name, field) in enumerate(zip(names, self._fields(names), strict=True), 1):
            here = f"{owner}.{name} or ()" if field.type == "array" else f"({owner}.{name},)"
            owner = f"at{depth}" if depth < len(names) else "value"
            loops += f" for {owner} in {here}" + (f" if {owner}" if depth < len(names) and field.type != "array" else "")
        return f"lambda body: [value{loops} if value {taken}]"
