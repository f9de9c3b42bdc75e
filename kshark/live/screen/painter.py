"""Bytes for a terminal: only the lines that changed, each frame inside synchronized output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kshark.output.spans import Line

#: The alternate screen, without a cursor and without wrapping of long lines; and back. The end of synchronized output
#: comes first: a frame may have been cut.
ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
LEAVE: Final = b"\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
#: Terminals without synchronized output ignore these.
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"


class Painter:
    """Remember the lines on the terminal. `paint` returns a line with its colours."""

    def __init__(self, paint: Callable[[Line], str]) -> None:
        self._paint = paint
        self._shown: list[Line] = []
        self._size = (0, 0)

    def frame(self, lines: Sequence[Line], size: tuple[int, int]) -> bytes:
        """Return what changes the terminal of so many columns and lines to these lines; nothing if nothing changed."""
        out: list[str] = []
        if size != self._size:
            self._size, self._shown = size, [[] for _ in range(size[1])]
            out.append("\x1b[0m\x1b[2J")
        for number, line in enumerate(lines[: size[1]]):
            if line != self._shown[number]:
                out.append(f"\x1b[{number + 1};1H\x1b[K{self._paint(line)}\x1b[0m")
                self._shown[number] = line
        return f"{_BEGIN}{''.join(out)}{_END}".encode() if out else b""

    def forget(self) -> None:
        """Paint everything with the next frame: the terminal shows something else."""
        self._size = (0, 0)
