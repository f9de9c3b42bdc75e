"""The bytes of a keyboard as names of keys."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

_ESCAPE: Final = "\x1b"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)")
#: The beginning of a sequence whose end has not come.
_OPEN: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?\Z")
_NAMES: Final = {
    "A": "up",
    "B": "down",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "7~": "home",
    "8~": "end",
}
_CONTROLS: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace"}


class Keys:
    """`feed` takes bytes and returns keys: a character, or a name such as `up`, `enter` or `esc`."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._open = ""

    def feed(self, data: bytes) -> list[str]:
        return [*self._keys(self._open + self._decoder.decode(data))]

    @property
    def waits(self) -> bool:
        """True if a sequence began; it is the key Esc if nothing follows."""
        return bool(self._open)

    def settle(self) -> list[str]:
        """Return the keys of a sequence whose rest did not come."""
        text, self._open = self._open, ""
        return ["esc"] if text else []

    def _keys(self, text: str) -> Iterator[str]:
        self._open = ""
        at = 0
        while at < len(text):
            if text[at] != _ESCAPE:
                key = _CONTROLS.get(text[at], text[at])
                at += 1
                if key.isprintable():
                    yield key
            elif found := _SEQUENCE.match(text, at):
                at = found.end()
                name = _NAMES.get(found[0][2:])
                if name is not None:
                    yield name
            elif _OPEN.match(text, at):
                self._open = text[at:]
                return
            else:
                at += 1
                yield "esc"
