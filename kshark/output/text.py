"""The look of text on a terminal: the colours of styles, and lines cropped to the width."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from kshark.output.spans import Line, plain
from kshark.output.text_table import cropped

STYLES: Final = {
    "dim": "bright_black",
    "label": "blue",
    "value": "default",
    "api": "bold",
    "request": "cyan",
    "response": "green",
    "code": "bold",
    "error": "bold red",
    "warn": "yellow",
    "note": "cyan",
    "good": "bold green",
    "chosen": "reverse",
    "packet": "default",
}


class Terminal:
    """A terminal's width and colours; respects NO_COLOR, TERM and COLUMNS."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream)
        self.width = console.width
        self._colours = None if console.no_color else COLOR_SYSTEMS.get(console.color_system or "")
        self._styles = {name: Style.parse(style) for name, style in STYLES.items()}

    def paint(self, line: Line, *, crop: bool = False) -> str:
        """Return the line with its colours; `crop` ends it with `…` if it would wrap."""
        if crop:
            line = cropped(line, self.width)
        if self._colours is None:
            return plain(line)
        return "".join(
            [
                self._styles[style].render(text, color_system=self._colours) if style and text else text
                for text, style in line
            ]
        )
