"""Words with which dissectors locate Kafka's structures inside bytes fields.

They give the field, its possible contents, and the rule that chooses one of several. All of it is data, which
kshark.embedded follows. Bytes fields inside a structure may hold structures again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from kshark.schema import Layout

#: Position of a structure's version: in an int16 before it, in its own first field (an int16), in the numbers before a
#: record's value, or absent: then the newest version that ends exactly with the bytes is used.
VersionFrom = Literal["prefix", "first_field", "numbers", "length"]


class Structure(Struct, frozen=True, eq=False):
    """A layout inside bytes; `inside`: the contents of its own bytes fields."""

    layout: Layout
    version_from: VersionFrom = "prefix"
    inside: tuple[OpaqueField, ...] = ()


class Numbers(Struct, frozen=True):
    """Numbers before a record's key or value, by name.

    `type` is the kind of record, `version` the version of the value.
    """

    names: tuple[str, ...] = ()
    encoding: Literal["int16", "uvarint"] = "int16"


NONE: Final = Numbers()


class Log(Struct, frozen=True, eq=False):
    """Records that a part of Kafka writes for itself.

    `types` maps the record's type, one of the numbers of `key` or `value`, to the key's layout (None: the key is its
    numbers only) and the value's structure.
    """

    types: Mapping[int, tuple[Layout | None, Structure]]
    key: Numbers = NONE
    value: Numbers = NONE


class Foreign(Struct, frozen=True):
    """Bytes in a format that is not Kafka's, by its name in kshark.embedded.

    The field `compression` names the codec.
    """

    format: str
    compression: str


class Whole(Struct, frozen=True):
    """A whole message with its header, which identifies it.

    For a response, the request's field `of` holds the request with its header.
    """

    kind: Literal["request", "response"]
    of: str = ""


Holding = Structure | Log | Foreign | Whole


class OpaqueField(Struct, frozen=True, eq=False):
    """A field of bytes or records in a body, and its possible contents.

    `path` is written with dots, through arrays too. `by`: fields whose value chooses an entry of `holds`. The value is
    searched next to the field, then in the structs around it, last in the request; a topic id counts as its topic's
    name. If no such field has a value, the entry that fits the bytes to their end is used, if it is the only one.
    Without `by` the content is the entry "". `control`: the content of control batches. `call`: other names here of the
    fields that the inner structures use. `certain` False: other software may put other bytes there, so that a misfit is
    not a fault.
    """

    path: str
    holds: Mapping[str, Holding]
    by: tuple[str, ...] = ()
    control: Log | None = None
    call: Mapping[str, str] = field(default_factory=dict)
    certain: bool = True
    way: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "way", tuple(self.path.split(".")))


def structures(fields: Iterable[OpaqueField]) -> Iterator[tuple[int | None, Layout]]:
    """Yield every layout that the fields can hold, at any depth, with its record type.

    The type is None for a layout that is not a record.
    """
    for opaque in fields:
        for holding in (*opaque.holds.values(), *((opaque.control,) if opaque.control else ())):
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
