"""Read fields of bodies fast: the paths of one layout and version, compiled to list comprehensions."""

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
    """Reader of fields in bodies, or in structures of them, of the class that `struct` has in `version`.

    `exact` False: bodies of other versions are accepted too; fields that they do not have yield nothing.
    """

    struct: Field
    version: int
    exact: bool

    def every(self, names: Names) -> Callable[[Any], Sequence[Any]]:
        """Return a reader of every value of the field, in wire order.

        An array yields its elements, a null container nothing.
        """
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
        """Return a reader of these fields, in every structure at the end of `way`; absent fields are UNSET.

        `true`: only structures in which one of the fields is neither 0 nor empty.
        """
        if not self.exact:
            rows = partial(_rows, way, fields)
            return lambda body: [row for row in rows(body) if any(row) or not true]
        loops, owner = self._loops(way)
        columns = [_of(owner, name) for name in fields]
        row, wanted = f"({', '.join(columns)},)", " or ".join(columns)
        if not loops:
            return _compiled(f"({row},) if {wanted} else ()" if true else f"({row},)")
        return _compiled(f"[{row}{loops}{f' if {wanted}' if true else ''}]")

    def beside(self, paths: Iterable[Path]) -> list[Callable[[Any], Sequence[tuple[Any, ...]]]]:
        """Return `rows` for each structure that has some of these fields, without rows where all are 0 or empty."""
        return [self.rows(way, tuple(names), true=True) for way, names in _by_structure(paths).items()]

    def holds_any(self, paths: Iterable[Path]) -> Callable[[Any], Any]:
        """Return a test of bodies: does any structure have one of these fields neither 0 nor empty?

        The result of the test is any true or false value.
        """
        if not self.exact:
            every = self.beside(paths)
            return lambda body: any(rows(body) for rows in every)
        tests: list[str] = []
        for way, names in _by_structure(paths).items():
            loops, owner = self._loops(way)
            wanted = " or ".join(_of(owner, name) for name in names)
            tests.append(f"[True{loops} if {wanted}]" if loops else wanted)
        return _compiled(" or ".join(tests) or "False")

    def first_value(self, names: Names) -> Callable[[Any], Any]:
        """Return a reader of the value of a field outside arrays; it returns None or UNSET if there is none."""
        if self.exact and len(names) == 1:
            return attrgetter(names[0])
        if self.exact and not self.in_array(names):
            every = self.every(names)
            return lambda body: next(iter(every(body)), None)
        return lambda body: next(values(body, names), None)

    def inside(self, path: Path) -> Reach:
        """Return a Reach for the structures of an array."""
        return Reach(path.type, self.version, self.exact)

    def in_array(self, names: Names) -> bool:
        """True if the field lies inside an array."""
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
        """Return the source of the loops along a way, and the name of the variable at its end.

        Example: ` for at1 in body.topics or () for at2 in at1.partitions or ()`, `at2`.
        """
        loops, owner = "", "body"
        for depth, (name, field) in enumerate(zip(way, self._fields(way), strict=True), 1):
            if field.type == "array":
                loops += f" for at{depth} in {_of(owner, name)} or ()"
            else:
                loops += f" for at{depth} in ({_of(owner, name)},) if at{depth}"
            owner = f"at{depth}"
        return loops, owner


def _by_structure(paths: Iterable[Path]) -> dict[Names, list[str]]:
    """Group the names of fields by the way to their structure."""
    grouped: dict[Names, list[str]] = {}
    for path in paths:
        grouped.setdefault(path.names[:-1], []).append(path.names[-1])
    return grouped


def _of(owner: str, name: str) -> str:
    return f"getattr({owner}, {name!r})" if iskeyword(name) else f"{owner}.{name}"


def _compiled(source: str) -> Callable[[Any], Any]:
    read: Callable[[Any], Any] = eval(f"lambda body: {source}", {"UNSET": UNSET})
    return read


def _rows(way: Names, fields: Names, body: Any) -> Iterator[tuple[Any, ...]]:
    for owner in values(body, way) if way else (body,):
        yield tuple(next(values(owner, (name,)), UNSET) for name in fields)
