"""How tests look at damaged bodies: the compiled reader refuses, the interpreter says why."""

from __future__ import annotations

from typing import Any

from kshark.codec import compile_reader, interpret, plain
from kshark.schema import Field, Layout, layout


def of(*fields: Field, flexible: str = "0+", older: dict[int, Field] | None = None) -> Layout:
    """A layout with these fields in version 0."""
    from kshark.schema import struct

    return layout("Body", versions="0", flexible=flexible, fields=struct(*fields), older=older)


def is_taken(layout: Layout, data: bytes) -> bool:
    """Whether the compiled reader takes these bytes for a whole body. Other messages' bytes lie before and behind."""
    buffer = b"\xff" * 9 + data + b"\0" * 99
    try:
        return bool(compile_reader(layout, 0)(buffer, 9, 9 + len(data))[1] == 9 + len(data))
    except Exception:
        return False


def faults(layout: Layout, data: bytes) -> list[tuple[str, int, str]]:
    """Code, offset and path of each fault; none exactly where the compiled reader takes the bytes."""
    reading = interpret(layout, 0, b"\xff" * 9 + data + b"\0" * 99, 9, 9 + len(data))
    assert is_taken(layout, data) == (not reading.faults)
    return [(fault.code, fault.offset, fault.path) for fault in reading.faults]


def rest(layout: Layout, data: bytes) -> Any:
    """What could be read, as plain values."""
    return plain(interpret(layout, 0, data, 0, len(data)).body)
