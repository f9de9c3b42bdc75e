"""Objects as JSON lines, a page of them in one C call.

Strings of a capture may contain anything: what a terminal obeys, or what turns the direction of writing, is escaped, as JSON allows; the
values stay the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

_ENCODER = msgspec.json.Encoder()
#: In UTF-8: DEL and the controls C1; marks, embeddings and isolates of direction, separators of lines, and other invisible characters.
_UNPRINTABLE: Final = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xf3\xa0[\x80-\x87].", re.DOTALL
)


def json_lines(objects: Sequence[Any]) -> bytes:
    """One object a line: structs in the order of their fields without what is UNSET, bytes as base64."""
    return escaped(_ENCODER.encode_lines(objects))


def pretty(value: Any) -> bytes:
    """One object for a person: indented, a newline at its end."""
    return escaped(msgspec.json.format(_ENCODER.encode(value), indent=2)) + b"\n"


def escaped(encoded: bytes) -> bytes:
    """JSON with nothing in it that is not to be seen."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0].decode()).strip('"').replace("\x7f", "\\u007f").encode(), encoded)
