"""Fast access to fields of bodies: the paths of one layout and version, compiled to list comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from keyword import iskeyword
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct

from kshark.codec.paths import Names, Path, values
from kshark.schema import Field


class Reach(Struct, frozen=True):
    """Reads bodies, or structures in them, of the class that `struct` has in `version`.

    `exact` False: bodies of other versions too; fields that they do not have give nothing.
    """

    struct: Field
    version: int
    exact: bool

    def every(self, names: Names) -> Callable[[Any], Sequence[Any]]:
        """Every value of the field, in wire order; an array gives its elements, a null container nothing."""
        if not self.exact:
            return lambda body: [value for value in values(body, names) if value is not None]
        field = self._fields(names)[-1]
        if field.type == "array" and len(names) == 1:
            return _compiled(f"{_of('body', names[0])} or ()")
        loops, owner = self._loops(names[:-1])
        if field.type == "array":
            return _compiled(f"[value{loops} for value in {_of(owner, names[-1])} or ()]")
        return _compiled(f"[value{loops} for value in ({_of(owner, names[-1])},) if value is not UNSET]")

    def rows(self, way: Names, fields: Names, *, true: bool = False) -> Callable[[Any], Sequence[tuple[Any, ...]]]:
        """These fields of every structure at the end of `way`, absent ones UNSET; `true`: only structures where one of
        them is neither 0 nor empty."""
        if not self.exact:
            rows = partial(_rows, way, fields)
            return lambda body: [row for row in rows(body) if any(row) or not true]
        loops, owner = self._loops(way)
        taken = [_of(owner, name) for name in fields]
        row, wanted = f"({', '.join(taken)},)", " or ".join(taken)
        if not loops:
            return _compiled(f"({row},) if {wanted} else ()" if true else f"({row},)")
        return _compiled(f"[{row}{loops}{f' if {wanted}' if true else ''}]")

    def beside(self, paths: Iterable[Path]) -> list[Callable[[Any], Sequence[tuple[Any, ...]]]]:
        """`rows` for each structure that has some of these fields, without those where all are 0 or empty."""
        return [self.rows(way, tuple(names), true=True) for way, names in _together(paths).items()]

    def holds_any(self, paths: Iterable[Path]) -> Callable[[Any], Any]:
        """Whether one of these fields is neither 0 nor empty, in any structure: something true."""
        if not self.exact:
            every = self.beside(paths)
            return lambda body: any(rows(body) for rows in every)
        tests: list[str] = []
        for way, names in _together(paths).items():
            loops, owner = self._loops(way)
            wanted = " or ".join(_of(owner, name) for name in names)
            tests.append(f"[True{loops} if {wanted}]" if loops else wanted)
        return _compiled(" or ".join(tests) or "False")

    def first_value(self, names: Names) -> Callable[[Any], Any]:
        """The value of a field outside arrays; None or UNSET if there is none."""
        if self.exact and len(names) == 1:
            return attrgetter(names[0])
        if self.exact and not self.in_array(names):
            every = self.every(names)
            return lambda body: next(iter(every(body)), None)
        return lambda body: next(values(body, names), None)

    def inside(self, path: Path) -> Reach:
        """The same for structures of an array."""
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

    def _loops(self, way: Names) -> tuple[str, str]:
        """Source of the loops along a way, and the name of what is at its end: ` for at1 in body.topics or () for at2
        in at1.partitions or ()`, `at2`."""
        loops, owner = "", "body"
        for depth, (name, field) in enumerate(zip(way, self._fields(way), strict=True), 1):
            if field.type == "array":
                loops += f" for at{depth} in {_of(owner, name)} or ()"
            else:
                loops += f" for at{depth} in ({_of(owner, name)},) if at{depth}"
            owner = f"at{depth}"
        return loops, owner


def _together(paths: Iterable[Path]) -> dict[Names, list[str]]:
    """Names of fields by the way to the structure that they stand in."""
    together: dict[Names, list[str]] = {}
    for path in paths:
        together.setdefault(path.names[:-1], []).append(path.names[-1])
    return together


def _of(owner: str, name: str) -> str:
    return f"getattr({owner}, {name!r})" if iskeyword(name) else f"{owner}.{name}"


def _compiled(source: str) -> Callable[[Any], Any]:
    read: Callable[[Any], Any] = eval(f"lambda body: {source}", {"UNSET": UNSET})
    return read


def _rows(way: Names, fields: Names, body: Any) -> Iterator[tuple[Any, ...]]:
    for owner in values(body, way) if way else (body,):
        yield tuple(next(values(owner, (name,)), UNSET) for name in fields)
