"""Where Kafka's structures lie inside bytes, as words for dissectors: the field, what it holds, and what tells which of several it is.

All of it is data; kshark.embedded obeys it. Bytes inside a structure may hold structures again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kshark.schema import Layout

#: What tells the version of a structure: an int16 before the body, the body's first field (an int16), the numbers before a record's
#: value, or nothing but the length: then it is the newest version that ends where the bytes do.
VersionFrom = Literal["prefix", "first_field", "numbers", "length"]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """A layout as it lies in bytes; `inside`: what bytes fields of its own hold."""

    layout: Layout
    version_from: VersionFrom = "prefix"
    inside: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers before a record's key or value, by name: the one called `type` tells what the record is, `version` the value's version."""

    names: tuple[str, ...] = ()
    encoding: Literal["int16", "uvarint"] = "int16"


NONE: Final = Numbers()


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Records that a part of Kafka writes for itself. `types`: key's layout (None: it has no more than its numbers) and value's
    structure, by the record type that the numbers of `key`, or those of `value`, tell."""

    types: Mapping[int, tuple[Layout | None, Structure]]
    key: Numbers = NONE
    value: Numbers = NONE


@dataclass(frozen=True, slots=True)
class Foreign:
    """Bytes in a format that is not Kafka's, by its name in kshark.embedded; `compression` is the field that names the codec."""

    format: str
    compression: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole message behind its header, which says what it is; of a response the field `of` of the request holds that header."""

    kind: Literal["request", "response"]
    of: str = ""


Holding = Structure | Log | Foreign | Whole


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A field of bytes or records in a body, `path` dotted (arrays are walked through), and what it can hold.

    `holds`: by the value of one of the fields `by`, the innermost that has one: beside the place, further out, last in the request;
    topic ids count as their topic's name. Where none has a value, what fits the bytes to their end is taken, if only one does. Without
    `by` it holds what stands under "". `control`: what records of control batches are. `call`: names by which the places inside find
    fields that are called otherwise here. `certain` False: others may put other bytes there, so what does not fit is not wrong.
    """

    path: str
    holds: Mapping[str, Holding]
    by: tuple[str, ...] = ()
    control: Log | None = None
    call: Mapping[str, str] = field(default_factory=dict)
    certain: bool = True
    way: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "way", tuple(self.path.split(".")))


def structures(places: Iterable[Place]) -> Iterator[tuple[int | None, Layout]]:
    """Every layout that the places can hold, at any depth, with the record type that stands for it (None: it is no record)."""
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
