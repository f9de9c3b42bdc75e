"""Objects as JSON lines, a page of them in one C call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()


def json_lines(objects: Sequence[Any]) -> bytes:
    """One object a line: structs in the order of their fields without what is UNSET, bytes as base64."""
    return _ENCODER.encode_lines(objects)


def pretty(value: Any) -> bytes:
    """One object for a person: indented, a newline at its end."""
    return msgspec.json.format(_ENCODER.encode(value), indent=2) + b"\n"
