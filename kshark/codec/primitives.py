"""Functions that compiled readers call: the parts of a body that are too long to repeat in their source.

They raise Misfit, or any other Python error, on bytes that do not fit; the interpreter then names the fault. Source:
Kafka protocol guide, "Protocol Primitive Types"; KIP-482.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from kshark.codec.shapes import UNKNOWN_TAGS


class Misfit(Exception):
    """The compiled reader cannot read these bytes."""


def uvarint(b: bytes, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits at `p`; return it and the position after it."""
    value = shift = 0
    while True:
        byte = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise Misfit
    if value > 0xFFFFFFFF:
        raise Misfit
    return value, p


def uvarlong(b: bytes, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 64 bits at `p`; return it and the position after it."""
    value = shift = 0
    while True:
        byte = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Misfit
    if value > 0xFFFFFFFFFFFFFFFF:
        raise Misfit
    return value, p


def length(b: bytes, p: int, end: int) -> tuple[int, int]:
    """Read a compact length (0: null, else length + 1) that takes more than one byte.

    The bytes that it announces must lie before `end`. Return the length and the position after it.
    """
    second = b[p + 1]
    if second < 128:
        value = b[p] & 127 | second << 7
        p += 2
    else:
        value, p = uvarint(b, p)
    if value - 1 > end - p:
        raise Misfit
    return value, p


#: Reads the value of a tagged field from its bytes, `start` to `end`.
TagReader = Callable[[bytes, int, int], tuple[Any, int]]


def tag_section(struct: Any, b: bytes, p: int, end: int, readers: Mapping[int, tuple[str, TagReader]]) -> int:
    """Set the tagged fields of a struct, unknown ones as `_tagged`; return the position after the section."""
    count, p = uvarint(b, p)
    unknown: dict[str, bytes] = {}
    last = -1
    for _ in range(count):
        tag, p = uvarint(b, p)
        size, p = uvarint(b, p)
        stop = p + size
        if tag <= last or stop > end:
            raise Misfit
        last = tag
        if tag in readers:
            name, read = readers[tag]
            value, p = read(b, p, stop)
            if p != stop:
                raise Misfit
            setattr(struct, name, value)
        else:
            unknown[str(tag)] = b[p:stop]
            p = stop
    if unknown:
        setattr(struct, UNKNOWN_TAGS, unknown)
    return p


def refused(b: bytes, p: int, stop: int) -> tuple[Any, int]:
    """Refuse a tagged field of another version: the interpreter names it."""
    raise Misfit


def uuid_text(raw: bytes) -> str:
    """Return Kafka's text of a uuid: 22 characters of URL-safe base64 without padding. Kafka: Uuid.toString."""
    return b2a_base64(raw, newline=False)[:22].decode("ascii").replace("+", "-").replace("/", "_")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a uuid's text; raise ValueError for any other text."""
    raw = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    if len(text) != 22 or len(raw) != 16 or uuid_text(raw) != text:
        raise ValueError(f"{text!r} is not a uuid of 22 base64 characters")
    return raw


class _Uuids(dict[bytes, str]):
    """Texts of uuids by their bytes; the same topic ids are repeated in many messages."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) >= 20_000:
            self.clear()
        text = self[raw] = uuid_text(raw)
        return text


UUID: Final = _Uuids()

Unpack = Callable[[bytes, int], tuple[Any, ...]]


class Counted(dict[int, Unpack]):
    """Unpackers by count: `Counted("i")[n]` unpacks n numbers of one type."""

    def __init__(self, letter: str) -> None:
        self._letter = letter

    def __missing__(self, n: int) -> Unpack:
        if len(self) >= 1_000:
            self.clear()
        unpack = self[n] = Struct(f">{n}{self._letter}").unpack_from
        return unpack
