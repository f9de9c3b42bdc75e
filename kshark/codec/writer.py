"""Encode values to bytes: dicts of plain values, or bodies as the readers make them, in the layout of one version.

Canonical bytes are written back unchanged. Decoded contents of bytes fields are ignored; the bytes count. A value that
does not fit raises EncodeError with the field's path.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final

import msgspec

from kshark.codec.primitives import uuid_bytes
from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot, shape_of
from kshark.errors import EncodeError
from kshark.schema import FIXED, Layout

Writer = Callable[[Any], bytes]

_PACK: Final = {type: Struct(">" + letter).pack for type, (letter, _) in FIXED.items()}
#: Python types that a fixed-size field accepts, where it is not an int.
_ACCEPTED: Final[Mapping[str, Any]] = {"bool": bool, "float64": (int, float), "uuid": str}
#: The value of a missing field that has no default and may not be null.
_ZERO: Final[Mapping[str, Any]] = {
    "bool": False, "float64": 0.0, "uuid": "A" * 22, "string": "", "bytes": b"", "records": b"", "array": (),
    "struct": {},
}  # fmt: skip


@lru_cache(maxsize=4096)
def compile_writer(layout: Layout, version: int, *, older: bool = False) -> Writer:
    """Return a writer of the bodies of one version: `write(value) -> bytes`.

    Missing fields get the schema's default, else null if they may be null, else zero or empty; missing tagged fields
    are not written. `older`: use the older layout that this version once had; otherwise a value that has exactly that
    layout's fields is written in it.
    """
    shape = shape_of(layout, version, older)
    other = shape_of(layout, version, True) if version in layout.older and not older else None

    def write(value: Any) -> bytes:
        fits_other_only = other is not None and _spells(other, value) and not _spells(shape, value)
        sheet = _Sheet()
        sheet.struct(other if other is not None and fits_other_only else shape, value)
        return bytes(sheet.out)

    return write


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Return a struct's values by field name; None if the value is not a struct."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, msgspec.Struct):
        by_name = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: x for name, x in by_name.items() if x is not msgspec.UNSET}
    return None


def _spells(shape: Shape, value: Any) -> bool:
    """True if a value has every untagged field of the shape, at every depth, and no other field."""
    fields = _fields(value)
    if fields is None:
        return False
    required = {slot.name for slot in shape.slots}
    if not required <= fields.keys() or fields.keys() - set(shape.make.__struct_fields__):
        return False
    for slot in shape.slots:
        inner = slot.shape or (slot.element and slot.element.shape)
        if inner and fields[slot.name] is not None:
            parts = fields[slot.name] if slot.element else [fields[slot.name]]
            if not all(_spells(inner, part) for part in parts):
                return False
    return True


def uvarint_bytes(value: int) -> bytes:
    """Encode an unsigned varint in as few bytes as possible."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Sheet:
    """Body while it is written: the bytes so far, and the path of the current field."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._path: list[str] = []

    def _refuse(self, detail: str) -> EncodeError:
        return EncodeError("".join(self._path).removeprefix("."), detail)

    # -- structs

    def struct(self, shape: Shape, value: Any) -> None:
        fields = _fields(value)
        if fields is None:
            raise self._refuse(f"expects a dict, not {_shown(value)}")
        for name in fields.keys() - set(shape.make.__struct_fields__):
            raise self._refuse(f"{shape.name} has no field {name!r} in this version")
        for slot in shape.slots:
            self._named(slot, fields[slot.name] if slot.name in fields else _default(slot))
        if shape.flexible:
            self._tags(shape, fields)

    def _named(self, slot: Slot, value: Any) -> None:
        self._path.append(f".{slot.name}")
        self._value(slot, value)
        self._path.pop()

    def _tags(self, shape: Shape, fields: Mapping[str, Any]) -> None:
        parts = self._unknown_tags(shape, fields.get(UNKNOWN_TAGS, {}))
        whole = self.out
        for tag, slot in shape.tags.items():
            if slot.name in fields:
                self.out = bytearray()
                self._named(slot, fields[slot.name])
                parts[tag] = bytes(self.out)
        self.out = whole
        self.out += uvarint_bytes(len(parts))
        for tag, part in sorted(parts.items()):
            self.out += uvarint_bytes(tag) + uvarint_bytes(len(part)) + part

    def _unknown_tags(self, shape: Shape, value: Any) -> dict[int, bytes]:
        self._path.append(f".{UNKNOWN_TAGS}")
        if not isinstance(value, Mapping):
            raise self._refuse(f"expects a dict of tag to bytes, not {_shown(value)}")
        parts = {}
        for text, raw in value.items():
            tag = int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() else -1
            if not 0 <= tag <= 0xFFFFFFFF or str(tag) != text:
                raise self._refuse(f"{_shown(text)} is not a tag number")
            if tag in shape.tags:
                raise self._refuse(f"tag {tag} is the field {shape.tags[tag].name}")
            if not isinstance(raw, bytes):
                raise self._refuse(f"tag {tag} expects bytes, not {raw!r:.40}")
            parts[tag] = raw
        self._path.pop()
        return parts

    # -- values

    def _value(self, slot: Slot, value: Any) -> None:
        if slot.type in FIXED:
            self._fixed(slot.type, value)
        elif slot.type in ("varint", "varlong"):
            self._zigzag(value, 32 if slot.type == "varint" else 64)
        elif value is None:
            self._null(slot)
        elif slot.shape is not None:
            if slot.nullable:
                self.out.append(1)
            self.struct(slot.shape, value)
        elif slot.element is not None:
            if not isinstance(value, (list, tuple)):
                raise self._refuse(f"expects a list, not {_shown(value)}")
            self._length(slot, len(value))
            for index, item in enumerate(value):
                self._path.append(f"[{index}]")
                self._value(slot.element, item)
                self._path.pop()
        else:
            raw = self._raw(slot, value)
            self._length(slot, len(raw))
            self.out += raw

    def _null(self, slot: Slot) -> None:
        if not slot.nullable:
            raise self._refuse(f"{slot.type} cannot be null in this version")
        if slot.shape is not None:
            self.out.append(0 if slot.tagged else 255)
        else:
            self._length(slot, -1)

    def _length(self, slot: Slot, length: int) -> None:
        if slot.compact:
            self.out += uvarint_bytes(length + 1)
            return
        try:
            self.out += _PACK["int16" if slot.type == "string" else "int32"](length)
        except struct.error:
            raise self._refuse(f"{length} bytes are too long for a string") from None

    def _raw(self, slot: Slot, value: Any) -> bytes:
        if slot.type == "string":
            if not isinstance(value, str):
                raise self._refuse(f"expects a str, not {_shown(value)}")
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise self._refuse(f"{_shown(value)} cannot be encoded as UTF-8") from None
        if not isinstance(value, bytes):
            raise self._refuse(f"{slot.type} expects bytes, not {_shown(value)}")
        return value

    def _fixed(self, type: str, value: Any) -> None:
        if not isinstance(value, _ACCEPTED.get(type, int)) or isinstance(value, bool) != (type == "bool"):
            raise self._refuse(f"{type} does not accept {_shown(value)}")
        try:
            self.out += _PACK[type](uuid_bytes(value) if type == "uuid" else value)
        except (struct.error, ValueError, OverflowError):
            raise self._refuse(f"{_shown(value)} does not fit {type}") from None

    def _zigzag(self, value: Any, bits: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self._refuse(f"{_shown(value)} is not an integer of {bits} bits")
        self.out += uvarint_bytes((value << 1) ^ (value >> (bits - 1)))


def _shown(value: Any) -> str:
    """Return a value as errors show it, shortened.

    A value may be long, and Python refuses to print very large integers.
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    shown = repr(value) if isinstance(value, (str, bytes, int, float, type(None))) else f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _default(slot: Slot) -> Any:
    if slot.default is not None or slot.nullable:
        return slot.default
    return _ZERO.get(slot.type, 0)
