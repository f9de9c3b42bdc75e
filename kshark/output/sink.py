"""Standard output: pages of JSON lines or text, flushed at once, so that a reader of a pipe does not wait."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TextIO, TypeVar

from kshark.output.jsonlines import json_lines
from kshark.output.spans import Line, plain

T = TypeVar("T")
#: Objects, or lines, in one write.
_PAGE: Final = 1_000


class Sink:
    """Write to a text stream: with colours and cropped lines on a terminal, otherwise plain text.

    Raises BrokenPipeError if the reader has gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._crop = stream.isatty()
        self._terminal = None
        if self._crop or os.environ.get("FORCE_COLOR"):
            from kshark.output.text import Terminal  # imports rich only for a terminal

            self._terminal = Terminal(stream)
        #: True if it writes text without styles, as in a pipe.
        self.bare = self._terminal is None
        #: Columns of the terminal; None: no limit.
        self.width = self._terminal.width if self._terminal is not None and self._crop else None

    def json(self, objects: Iterable[Any]) -> None:
        """Write one object a line."""
        for page in _pages(objects):
            self.bytes(memoryview(json_lines(page)))

    def bytes(self, data: memoryview) -> None:
        """Write the output of another sink of the same kind."""
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.flush()

    def lines(self, lines: Iterable[Line], *, crop: bool = False) -> None:
        """Write text lines; `crop` cuts them at the edge of a terminal."""
        terminal = self._terminal
        for page in _pages(lines):
            if terminal is None:
                text = "".join([plain(line) + "\n" for line in page])
            else:
                text = "".join([terminal.paint(line, crop=crop and self._crop) + "\n" for line in page])
            self.text(text)

    def text(self, text: str) -> None:
        """Write text unchanged."""
        if text:
            self._stream.write(text)
            self._stream.flush()


def _pages(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while page := [*islice(rest, _PAGE)]:
        yield page
