"""Where Kafka's structures lie inside bytes fields, as words for dissectors: the field, what it holds, and how one of
several is chosen.

All of it is data, which kshark.embedded follows. Bytes fields inside a structure may hold structures again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from kshark.schema import Layout

#: Where a structure's version is found: in an int16 before it, in its own first field (an int16), in the numbers before
#: a record's value, or nowhere: then it is the newest version that ends where the bytes do.
VersionFrom = Literal["prefix", "first_field", "numbers", "length"]


class Structure(Struct, frozen=True, eq=False):
    """A layout inside bytes; `inside`: the contents of its own bytes fields."""

    layout: Layout
    version_from: VersionFrom = "prefix"
    inside: tuple[OpaqueField, ...] = ()


class Numbers(Struct, frozen=True):
    """Numbers before a record's key or value, by name: `type` is the kind of record, `version` the version of the
    value."""

    names: tuple[str, ...] = ()
    encoding: Literal["int16", "uvarint"] = "int16"


NONE: Final = Numbers()


class Log(Struct, frozen=True, eq=False):
    """Records that a part of Kafka writes for itself. `types`: by the record's type, which is one of the numbers of
    `key` or `value`, the key's layout (None: the key is its numbers only) and the value's structure."""

    types: Mapping[int, tuple[Layout | None, Structure]]
    key: Numbers = NONE
    value: Numbers = NONE


class Foreign(Struct, frozen=True):
    """Bytes in a format that is not Kafka's, by its name in kshark.embedded; the field `compression` names the
    codec."""

    format: str
    compression: str


class Whole(Struct, frozen=True):
    """A whole message with its header, which says what it is; of a response the request's field `of` holds the request
    header."""

    kind: Literal["request", "response"]
    of: str = ""


Holding = Structure | Log | Foreign | Whole


class OpaqueField(Struct, frozen=True, eq=False):
    """A field of bytes or records in a body, `path` with dots (through arrays too), and what it can hold.

    `by`: fields whose value chooses an entry of `holds`. The value is looked for next to the place, then in the structs
    around it, last in the request; a topic id counts as its topic's name. If no such field has a value, the one entry
    that fits the bytes to their end is taken, if it is the only one. Without `by` the content is the entry "".
    `control`: the content of control batches. `call`: other names that the fields used by places inside have here.
    `certain` False: other software may put other bytes there, so a misfit is no fault."""

    path: str
    holds: Mapping[str, Holding]
    by: tuple[str, ...] = ()
    control: Log | None = None
    call: Mapping[str, str] = field(default_factory=dict)
    certain: bool = True
    way: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "way", tuple(self.path.split(".")))


def structures(places: Iterable[OpaqueField]) -> Iterator[tuple[int | None, Layout]]:
    """Every layout that the places can hold, at any depth, with its record type (None: it is no record)."""
    for place in places:
        for holding in (*place.holds.values(), *((place.control,) if place.control else ())):
            match holding:
                case Structure(layout, _, inside):
                    yield None, layout
                    yield from structures(inside)
                case Log(types):
                    for number, (key, value) in types.items():
                        if key is not None:
                            yield number, key
                        yield number, value.layout
                        yield from structures(value.inside)
