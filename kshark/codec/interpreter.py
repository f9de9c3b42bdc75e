"""Read bodies exactly: make the same objects as the compiled reader and check every step against the frame's end.

This reader never raises, whatever the bytes are. Bytes that do not fit become a BodyFault with a code of the catalogue;
the values read before them stay. Kafka's brokers accept some odd bodies (a null where none is allowed, tags out of
order, text that is not UTF-8), and this reader accepts them too.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark import limits
from kshark.codec.compiler import RecordsReader
from kshark.codec.primitives import uuid_text
from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot, shape_of
from kshark.schema import FIXED, Layout

_UNPACK: Final = {type: Struct(">" + letter).unpack_from for type, (letter, _) in FIXED.items()}


class BodyFault(msgspec.Struct, frozen=True):
    """Place where a body does not fit its layout.

    `code` is a code of the catalogue, `offset` is in bytes from the body's start, `path` names the field. `fatal`: the
    position after it is not certain, so reading stopped there.
    """

    code: str
    offset: int
    path: str
    detail: str
    fatal: bool = True


class Reading(msgspec.Struct, frozen=True):
    """A body as far as it could be read, the position where reading ended, and the faults in order.

    Fields after a fatal fault are UNSET.
    """

    body: Any
    position: int
    faults: tuple[BodyFault, ...] = ()


def interpret(
    layout: Layout, version: int, buffer: bytes, start: int, end: int, *, records: RecordsReader | None = None
) -> Reading:
    """Read the body that lies from `start` to `end`.

    If this version once had an older layout, and only that one ends exactly there, the older one is used and the fault
    LAYOUT_DRIFT reports it.
    """
    end = min(end, len(buffer))
    reading = _read(shape_of(layout, version), buffer, start, end, records)
    if reading.faults and version in layout.older:
        older = _read(shape_of(layout, version, older=True), buffer, start, end, records)
        if not older.faults:
            drift = BodyFault(
                "LAYOUT_DRIFT", 0, "", "an older layout of this version ends where the frame does", fatal=False
            )
            return Reading(older.body, older.position, (drift,))
    return reading


def _read(shape: Shape, buffer: bytes, start: int, end: int, records: RecordsReader | None) -> Reading:
    cursor = _Cursor(buffer, start, end, records)
    body = cursor.struct(shape)
    if body is UNSET:
        body = shape.make(*[UNSET] * len(shape.slots))
    if not cursor.stopped and cursor.position < end:
        cursor.fault("TRAILING_BYTES", cursor.position, f"{end - cursor.position} bytes after the body")
    return Reading(body, cursor.position, tuple(cursor.faults))


class _Cursor:
    """Position in one body.

    Every method reads a value and moves on. After a fatal fault it returns the part that it has read, or UNSET.
    """

    def __init__(self, buffer: bytes, start: int, end: int, records: RecordsReader | None) -> None:
        self.position = start
        self.faults: list[BodyFault] = []
        self.stopped = False
        self._buffer = buffer
        self._start = start
        self._end = end
        self._records = records
        self._path: list[str] = []

    # -- faults

    def fault(self, code: str, at: int, detail: str) -> None:
        """Note a fault after which reading continues; only the first few are listed."""
        if len(self.faults) < limits.FAULTS_PER_BODY:
            self.faults.append(BodyFault(code, at - self._start, self._where(), detail, fatal=False))

    def _stop(self, code: str, at: int, detail: str) -> Any:
        self.faults.append(BodyFault(code, at - self._start, self._where(), detail))
        self.stopped = True
        return UNSET

    def _where(self) -> str:
        return "".join(self._path).removeprefix(".")

    # -- structs

    def struct(self, shape: Shape) -> Any:
        values: list[Any] = []
        for slot in shape.slots:
            values.append(self._named(slot))
            if self.stopped:
                nothing = len(values) == 1 and values[0] is UNSET
                return UNSET if nothing else shape.make(*values, *[UNSET] * (len(shape.slots) - len(values)))
        tagged = self._tags(shape) if shape.flexible else {}
        return shape.make(*values, **tagged)

    def _named(self, slot: Slot) -> Any:
        self._path.append(f".{slot.name}")
        value = self._value(slot)
        self._path.pop()
        return value

    def _tags(self, shape: Shape) -> dict[str, Any]:
        """Return the tagged fields by name, the unknown ones under `_tagged`."""
        tagged: dict[str, Any] = {}
        unknown: dict[str, bytes] = {}
        last = -1
        for _ in range(self._uvarint() or 0):
            at = self.position
            tag = self._uvarint()
            size = None if tag is None else self._uvarint()
            if tag is None or size is None:
                break
            stop = self.position + size
            if stop > self._end:
                self._stop(
                    "LENGTH_INVALID", at, f"tag {tag} announces {size} bytes, {self._end - self.position} are left"
                )
                break
            if tag <= last:
                self.fault("TAGS_UNSORTED", at, f"tag {tag} after tag {last}")
            last = tag
            if tag in shape.tags:
                tagged[shape.tags[tag].name] = self._tag(shape.tags[tag], stop)
                if self.stopped:
                    break
            else:
                if tag in shape.foreign:
                    field = shape.foreign[tag]
                    self._path.append(f".{field.name}")
                    self.fault("TAG_OF_OTHER_VERSION", at, f"tag {tag} is of versions {field.versions} only")
                    self._path.pop()
                unknown[str(tag)] = self._buffer[self.position : stop]
            self.position = stop
        if unknown:
            tagged[UNKNOWN_TAGS] = unknown
        return tagged

    def _tag(self, slot: Slot, stop: int) -> Any:
        """Return the value of a known tag, which must end at `stop`."""
        start, end, self._end = self.position, self._end, stop
        self._path.append(f".{slot.name}")
        value = self._value(slot)
        self._end = end
        if not self.stopped and self.position < stop:
            detail = f"tag's content takes {self.position - start} of its {stop - start} bytes"
            self._stop("TAG_LENGTH_MISMATCH", start, detail)
        elif self.stopped and self.faults[-1].code in _OUTSIDE:
            self.faults.pop()
            self._stop("TAG_LENGTH_MISMATCH", start, f"tag's content goes beyond its {stop - start} bytes")
        self._path.pop()
        return value

    # -- values

    def _value(self, slot: Slot) -> Any:
        if slot.type in FIXED:
            return self._fixed(slot.type)
        match slot.type:
            case "struct":
                return self._struct(slot)
            case "varint":
                return self._zigzag(5)
            case "varlong":
                return self._zigzag(10)
            case "array":
                return self._array(slot)
            case _:
                return self._sized(slot)

    def _struct(self, slot: Slot) -> Any:
        assert slot.shape is not None
        if slot.nullable:
            marker = self._present() if slot.tagged else self._fixed("int8")
            if self.stopped:
                return UNSET
            if marker < 0:
                return None
        return self.struct(slot.shape)

    def _present(self) -> int:
        """Convert the null marker of a tagged nullable struct to that of an untagged one: negative for null."""
        return (self._uvarint() or 0) - 1

    def _fixed(self, type: str) -> Any:
        at, size = self.position, FIXED[type][1]
        if size > self._end - at:
            return self._stop("BODY_TOO_SHORT", at, f"{size} bytes expected, {self._end - at} are left")
        self.position += size
        (value,) = _UNPACK[type](self._buffer, at)
        return uuid_text(value) if type == "uuid" else value

    def _uvarint(self, most: int = 5) -> int | None:
        """Read an unsigned varint of at most `most` bytes: 5 for 32 bits, 10 for 64."""
        at, value = self.position, 0
        for count in range(most):
            if self.position >= self._end:
                self._stop("BODY_TOO_SHORT", at, "the frame ends inside a varint")
                return None
            byte = self._buffer[self.position]
            self.position += 1
            value |= (byte & 127) << (7 * count)
            if byte < 128 and value < 1 << (32 if most == 5 else 64):
                return value
        self._stop("VARINT_TOO_LONG", at, f"a varint of more than {32 if most == 5 else 64} bits")
        return None

    def _zigzag(self, most: int) -> Any:
        value = self._uvarint(most)
        return UNSET if value is None else (value >> 1) ^ -(value & 1)

    # -- values with a length

    def _length(self, slot: Slot) -> int | None:
        """Read a length or count; negative for null."""
        if slot.compact:
            value = self._uvarint()
            return None if value is None else value - 1
        value = self._fixed("int16" if slot.type == "string" else "int32")
        return None if self.stopped else value

    def _null(self, slot: Slot, at: int) -> None:
        """Return null for any negative length, as Kafka's brokers do; report it where null is not allowed."""
        if not slot.nullable:
            self.fault(
                "NULL_NOT_ALLOWED",
                at,
                f"null for {'an' if slot.type == 'array' else 'a'} {slot.type} that cannot be null",
            )

    def _sized(self, slot: Slot) -> Any:
        at = self.position
        size = self._length(slot)
        if size is None:
            return UNSET
        if size < 0:
            return self._null(slot, at)
        start = self.position
        if size > self._end - start:
            return self._stop("LENGTH_INVALID", at, f"{slot.type} of {size} bytes, {self._end - start} are left")
        self.position += size
        if slot.type == "records" and self._records is not None:
            return self._records(self._buffer, start, self.position, slot.aligned)
        raw = self._buffer[start : self.position]
        return self._text(raw, at) if slot.type == "string" else raw

    def _text(self, raw: bytes, at: int) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.fault("NOT_UTF8", at, f"byte {error.start} of a string of {len(raw)} bytes is not UTF-8")
            return raw.decode("utf-8", "backslashreplace")

    def _array(self, slot: Slot) -> Any:
        """Read an array. If it announces more elements than fit into the bytes left, return those that are readable."""
        assert slot.element is not None
        at = self.position
        count = self._length(slot)
        if count is None:
            return UNSET
        if count < 0:
            return self._null(slot, at)
        left = self._end - self.position
        values = []
        for index in range(count):
            self._path.append(f"[{index}]")
            value = self._value(slot.element)
            self._path.pop()
            if value is not UNSET:
                values.append(value)
            if self.stopped:
                break
        # The broker makes this check too. Every element takes at least one byte, so reading has ended at a fault.
        if count > left:
            self.faults.pop()
            self._stop("TOO_MANY_ELEMENTS", at, f"{count} elements in {left} bytes")
        return values


#: Faults inside a tagged field that a wrong length of that field explains.
_OUTSIDE: Final = ("BODY_TOO_SHORT", "LENGTH_INVALID", "TOO_MANY_ELEMENTS")
