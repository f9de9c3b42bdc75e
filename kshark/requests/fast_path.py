"""Write the JSON of ordinary bodies to bytes, in one pass without a check of each value.

A writer is a tree of functions, one for each field or run of fixed-size fields. It raises NotOrdinary (or KeyError,
TypeError, ValueError, struct.error) for JSON that it does not write: with tagged fields, or that does not fit. The
exact way (kshark.requests.bodies) then writes it, or says what is wrong.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Any, Final

from kshark.codec.primitives import uuid_bytes
from kshark.codec.shapes import Shape, Slot
from kshark.codec.writer import uvarint_bytes
from kshark.schema import FIXED

#: Appends the bytes of a value.
Append = Callable[[Any, bytearray], None]
_LENGTH: Final = {"string": Struct(">h").pack}
_LENGTH_32: Final = Struct(">i").pack
#: Most names that are no fields, for each struct.
_NAMES: Final = 64
_COMPACT: Final = [uvarint_bytes(length + 1) for length in range(1024)]


class NotOrdinary(Exception):
    """This JSON needs the exact way."""


@lru_cache(maxsize=16384)
def struct_writer(shape: Shape) -> Append:
    """Return a writer of a struct."""
    appends, tags = [*_appends(shape)], _Tags(shape)
    names = sum(slot.type != "records" for slot in shape.slots)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise NotOrdinary
        for append in appends:
            append(value, out)
        if len(value) != names:
            tags.append(value, out, names)
        elif shape.flexible:
            out.append(0)

    return write


class _Tags:
    """The tagged fields of a struct, which JSON has if they are not the default; and names that are no fields."""

    def __init__(self, shape: Shape) -> None:
        self._writers = {_camel(slot.name): (tag, _value(slot)) for tag, slot in shape.tags.items()}
        fields = (slot for slot in (*shape.slots, *shape.tags.values()) if slot.type != "records")
        self._fields = {slot.name.replace("_", "") for slot in fields}
        #: By name in JSON.
        self._ignored: dict[str, bool] = {}
        self._flexible = shape.flexible

    def append(self, value: dict[str, Any], out: bytearray, names: int) -> None:
        """Append the section of tagged fields. `names`: number of fields of the struct that are not tagged."""
        present = sorted(self._writers[name] + (name,) for name in value if name in self._writers)
        if len(value) != names + len(present) + sum(map(self._is_ignored, value)):
            raise NotOrdinary
        if self._flexible:
            out += uvarint_bytes(len(present))
        for tag, write, name in present:
            part = bytearray()
            write(value[name], part)
            out += uvarint_bytes(tag) + uvarint_bytes(len(part)) + part

    def _is_ignored(self, name: str) -> bool:
        is_ignored = self._ignored.get(name)
        if is_ignored is None:
            is_ignored = name.lower() not in self._fields
            if len(self._ignored) < _NAMES:
                self._ignored[name] = is_ignored
        return is_ignored


def _appends(shape: Shape) -> Iterator[Append]:
    """Yield functions that take the whole struct; neighbours of a fixed size are one."""
    for is_number, slots in groupby(shape.slots, lambda slot: slot.type in FIXED and slot.type != "uuid"):
        if is_number:
            yield _numbers([*slots])
        else:
            yield from map(_field, slots)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _type(slot: Slot) -> type:
    return {"bool": bool, "float64": float}.get(slot.type, int)


def _numbers(slots: list[Slot]) -> Append:
    names = [_camel(slot.name) for slot in slots]
    types = [_type(slot) for slot in slots]
    pack = Struct(">" + "".join(FIXED[slot.type][0] for slot in slots)).pack

    def append(value: Any, out: bytearray) -> None:
        numbers = [value[name] for name in names]
        if [*map(type, numbers)] != types:
            raise NotOrdinary
        out += pack(*numbers)

    return append


def _field(slot: Slot) -> Append:
    if slot.type == "records":
        length = _null(slot) if slot.nullable else _length(slot, 0)
        return lambda value, out: out.extend(length)
    name, write = _camel(slot.name), _value(slot)
    return lambda value, out: write(value[name], out)


def _null(slot: Slot) -> bytes:
    return b"\0" if slot.compact else _LENGTH.get(slot.type, _LENGTH_32)(-1)


def _length(slot: Slot, length: int) -> bytes:
    if slot.compact:
        return _COMPACT[length] if length < len(_COMPACT) else uvarint_bytes(length + 1)
    return _LENGTH.get(slot.type, _LENGTH_32)(length)


def _value(slot: Slot) -> Append:
    """Return a writer of a value that is no number, or an element of an array."""
    if slot.shape is not None:
        return _struct(slot, slot.shape)
    if slot.element is not None:
        return _array(slot, slot.element)
    if slot.type == "uuid":
        return lambda value, out: out.extend(uuid_bytes(_text(value)))
    if slot.type == "string":
        return _sized(slot, lambda value: _text(value).encode())
    if slot.type == "bytes":
        return _sized(slot, lambda value: b64decode(_text(value), validate=True))
    if slot.type in FIXED:
        one = Struct(">" + FIXED[slot.type][0]).pack
        expected = _type(slot)

        def append(value: Any, out: bytearray) -> None:
            if type(value) is not expected:
                raise NotOrdinary
            out += one(value)

        return append
    return _refuse


def _refuse(value: Any, out: bytearray) -> None:
    raise NotOrdinary


def _text(value: Any) -> str:
    if type(value) is not str:
        raise NotOrdinary
    return value


def _sized(slot: Slot, raw_of: Callable[[Any], bytes]) -> Append:
    null = _null(slot) if slot.nullable else None

    def append(value: Any, out: bytearray) -> None:
        if value is None and null is not None:
            out += null
            return
        raw = raw_of(value)
        out += _length(slot, len(raw))
        out += raw

    return append


def _struct(slot: Slot, shape: Shape) -> Append:
    write = struct_writer(shape)
    if not slot.nullable:
        return write

    def append(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(0 if slot.tagged else 255)
        else:
            out.append(1)
            write(value, out)

    return append


def _array(slot: Slot, element: Slot) -> Append:
    null = _null(slot) if slot.nullable else None
    write = _value(element)

    def append(value: Any, out: bytearray) -> None:
        if value is None and null is not None:
            out += null
            return
        if type(value) is not list:
            raise NotOrdinary
        out += _length(slot, len(value))
        for item in value:
            write(item, out)

    return append
