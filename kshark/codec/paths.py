"""Locate fields in a body: the paths of a schema, and the values that a decoded body has there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct

from kshark.schema import Field, Versions

#: `("topics", "partitions", "error_code")`: names from the body's root; arrays have no name of their own.
Names = tuple[str, ...]


class Path(Struct, frozen=True):
    """One field of a body and the way to it."""

    names: Names
    field: Field
    #: The arrays and structs that it lies in, outermost first.
    owners: tuple[Field, ...] = ()

    def __str__(self) -> str:
        return ".".join(self.names)

    @property
    def type(self) -> Field:
        """The field itself, or an array's element type: it carries enum, fields and type."""
        return self.field.element or self.field


def paths(struct: Field, version: int, above: Path | None = None) -> Iterator[Path]:
    """Yield every field of one version; a container comes before its fields, tagged fields come last.

    `above`: the path of the struct itself.
    """
    for field in (*struct.in_wire_order(version), *struct.by_tag(version).values()):
        path = _below(above, field)
        yield path
        yield from paths(path.type, version, path)


def paths_of_versions(struct: Field, versions: Versions, above: Path | None = None) -> Iterator[tuple[Path, Versions]]:
    """Yield every field that one of these versions has, with the versions that have it, in the order of the schema."""
    for field in struct.fields:
        within = versions & field.versions
        if within.low <= within.high:
            path = _below(above, field)
            yield path, within
            yield from paths_of_versions(path.type, within, path)


def _below(above: Path | None, field: Field) -> Path:
    if above is None:
        return Path((field.name,), field)
    return Path((*above.names, field.name), field, (*above.owners, above.field))


def values(body: Any, names: Names) -> Iterator[Any]:
    """Yield every value of the field, in wire order; an array at the end yields its elements.

    Absent fields and null containers yield nothing.
    """
    value = body
    for at, name in enumerate(names):
        if isinstance(value, list | tuple):
            for element in value:
                yield from values(element, names[at:])
            return
        value = value.get(name, UNSET) if isinstance(value, dict) else getattr(value, name, UNSET)
        if value is UNSET:
            return
    if isinstance(value, list | tuple):
        yield from value
    else:
        yield value
