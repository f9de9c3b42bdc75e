"""A layout in one version: exactly the fields on the wire, with every question about versions answered.

Reader, interpreter and writer all work from the same Shape and make objects of the same classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from kshark.schema import FIXED, VARYING, Field, Layout

#: Attribute and JSON key of tagged fields that are not in the schema: a dict from tag, as text, to bytes.
UNKNOWN_TAGS: Final = "_tagged"
#: Suffix of the attribute next to a bytes field that holds its decoded content (kshark.embedded sets it).
DECODED: Final = "_decoded"


class Slot(Struct, frozen=True, eq=False):
    """One field on the wire; with an empty name, the element of an array.

    `compact` lengths are an unsigned varint of length + 1 (KIP-482), others an int16 (string) or int32. A nullable
    struct begins with an int8, negative for null (KIP-893); in a tagged field (`tagged`) it begins with an unsigned
    varint, 0 for null.
    """

    name: str
    type: str
    compact: bool
    nullable: bool
    tagged: bool
    default: Any
    #: Bytes that the shortest value takes.
    least: int
    element: Slot | None = None
    shape: Shape | None = None
    aligned: bool = True


class Shape(Struct, frozen=True, eq=False):
    """A struct on the wire: its slots in order, then, if flexible, a section of tagged fields.

    `make` is the class of its values. The class has the slots as attributes in wire order, then the tagged fields by
    tag, the decoded contents of bytes fields, and `_tagged`; all of them are UNSET when absent. Structs in it are
    typed, so that msgspec makes the same objects from packed bytes.
    """

    name: str
    slots: tuple[Slot, ...]
    tags: Mapping[int, Slot]
    flexible: bool
    make: type[msgspec.Struct]
    #: Bytes that the shortest value takes.
    least: int
    #: Tagged fields of other versions, by tag. Kafka's readers refuse these tags in this version.
    foreign: Mapping[int, Field] = field(default_factory=dict)


def shape_of(layout: Layout, version: int, older: bool = False) -> Shape:
    """Return the layout in one version.

    `older`: the other layout that this version once had (KeyError where there is none).
    """
    return _shape_of(layout, version, older)


# lru_cache keys positional and keyword arguments apart. Here all are positional, so that a shape has one class only.
@lru_cache(maxsize=4096)
def _shape_of(layout: Layout, version: int, older: bool) -> Shape:
    root = layout.older[version] if older else layout.root
    return _shape(root, version, version in layout.flexible, layout.name)


def _shape(field: Field, version: int, flexible: bool, name: str) -> Shape:
    slots = tuple(_slot(f, version, flexible, name) for f in field.in_wire_order(version))
    tags = (
        {tag: _slot(f, version, flexible, name) for tag, f in sorted(field.by_tag(version).items())} if flexible else {}
    )
    attributes: list[Any] = [(slot.name, _python_type(slot), msgspec.UNSET) for slot in (*slots, *tags.values())]
    attributes += [
        (slot.name + DECODED, Any, msgspec.UNSET) for slot in (*slots, *tags.values()) if slot.type == "bytes"
    ]
    if flexible:
        attributes.append((UNKNOWN_TAGS, Any, msgspec.UNSET))
    make = msgspec.defstruct(name, attributes, module=__name__, gc=False)
    foreign = {f.tag: f for f in field.fields if f.tag is not None and f.tag not in tags} if flexible else {}
    return Shape(name, slots, tags, flexible, make, sum(slot.least for slot in slots) + flexible, foreign)


def _slot(field: Field, version: int, flexible: bool, owner: str) -> Slot:
    flexible = flexible and version in field.flexible
    name = f"{owner}.{field.name}" if field.name else owner
    element = shape = None
    if field.element is not None:
        element = _slot(field.element, version, flexible, name)
    elif field.type == "struct":
        shape = _shape(field, version, flexible, name)
    nullable, tagged = version in field.nullable, version in field.tagged
    least = _least(field.type, flexible, nullable, shape)
    return Slot(field.name, field.type, flexible, nullable, tagged, field.default, least, element, shape, field.aligned)


def _python_type(slot: Slot) -> Any:
    if slot.element is not None:
        return list[_python_type(slot.element)] | None  # type: ignore[misc]
    return Any if slot.shape is None else slot.shape.make | None


def _least(type: str, compact: bool, nullable: bool, shape: Shape | None) -> int:
    if type in FIXED:
        return FIXED[type][1]
    if shape is not None:
        return 1 if nullable else shape.least
    if compact or type in VARYING:
        return 1
    return 2 if type == "string" else 4
