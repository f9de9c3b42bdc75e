"""Standard output: pages of JSON lines or text, written as they come, so that a reader of a pipe need not wait."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TextIO, TypeVar

from kshark.output.jsonlines import json_lines
from kshark.output.spans import Line, plain

T = TypeVar("T")
#: Objects, and lines, that are written at once.
_PAGE: Final = 1_000


class Sink:
    """Writes to a text stream: with colours and cropped lines if it is a terminal, else plain text.

    Raises BrokenPipeError when the reader has gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._crop = stream.isatty()
        self._terminal = None
        if self._crop or os.environ.get("FORCE_COLOR"):
            from kshark.output.text import Terminal  # rich only where somebody looks

            self._terminal = Terminal(stream)
        #: Whether it takes text without styles only, as a pipe does.
        self.bare = self._terminal is None
        #: Columns of the terminal; None: no limit.
        self.width = self._terminal.width if self._terminal is not None and self._crop else None

    def json(self, objects: Iterable[Any]) -> None:
        """One object a line."""
        for page in _pages(objects):
            self.bytes(memoryview(json_lines(page)))

    def bytes(self, data: memoryview) -> None:
        """What another sink of the same kind has written."""
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.flush()

    def lines(self, lines: Iterable[Line], *, crop: bool = False) -> None:
        """Text lines; `crop` cuts them at the edge of a terminal."""
        terminal = self._terminal
        for page in _pages(lines):
            if terminal is None:
                text = "".join([plain(line) + "\n" for line in page])
            else:
                text = "".join([terminal.paint(line, crop=crop and self._crop) + "\n" for line in page])
            self.text(text)

    def text(self, text: str) -> None:
        """Text as it is."""
        if text:
            self._stream.write(text)
            self._stream.flush()


def _pages(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while page := [*islice(left, _PAGE)]:
        yield page
