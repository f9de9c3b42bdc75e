"""Objects as JSON lines, a page of them in one C call.

Strings of a capture may contain anything: what a terminal obeys, or what turns the direction of writing, is escaped, as
JSON allows; the values stay the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

_ENCODER = msgspec.json.Encoder()
_DEL: Final = 0x7F
#: What may have to be escaped: all but ASCII, and DEL.
_FOREIGN: Final = re.compile("[^\0-~]")


def json_lines(objects: Sequence[Any]) -> bytes:
    """One object a line: structs in the order of their fields without what is UNSET, bytes as base64."""
    return escaped(_ENCODER.encode_lines(objects))


def pretty(value: Any) -> bytes:
    """One object for a person: indented, a newline at its end."""
    return escaped(msgspec.json.format(_ENCODER.encode(value), indent=2)) + b"\n"


def escaped(encoded: bytes) -> bytes:
    """JSON with nothing in it that is not to be seen."""
    if np.frombuffer(encoded, np.uint8).max(initial=0) < _DEL:
        return encoded
    text = encoded.decode()
    return encoded if text.replace("\n", "").isprintable() else _FOREIGN.sub(_shown, text).encode()


def _shown(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
