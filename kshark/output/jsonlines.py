"""Objects as JSON lines, a page in one C call.

Strings of a capture may contain any characters. Terminal control characters and changes of writing direction are
escaped, as JSON allows; the values stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET

from kshark.model import Message

_ENCODER = msgspec.json.Encoder()
_DEL: Final = 0x7F
#: Characters that may need escaping: non-ASCII, and DEL.
_FOREIGN: Final = re.compile("[^\0-~]")


def json_lines(objects: Sequence[Any]) -> bytes:
    """Encode one object a line: structs in field order without UNSET fields, bytes as base64."""
    return escaped(_ENCODER.encode_lines(objects))


def shown(message: Message) -> Message:
    """Return the message as its JSON line shows it: without the facts that only rules need."""
    message = copy(message)
    message.knows = UNSET
    return message


def pretty(value: Any) -> bytes:
    """Encode one object for people: indented, with a newline at the end."""
    return escaped(msgspec.json.format(_ENCODER.encode(value), indent=2)) + b"\n"


def escaped(encoded: bytes) -> bytes:
    """Escape the unprintable characters of JSON."""
    if np.frombuffer(encoded, np.uint8).max(initial=0) < _DEL:
        return encoded
    text = encoded.decode()
    return encoded if text.replace("\n", "").isprintable() else _FOREIGN.sub(_shown, text).encode()


def _shown(match: re.Match[str]) -> str:
    letter = match[0]
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
