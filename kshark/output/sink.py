"""Standard output: pages of JSON lines or text, flushed at once, so that a reader of a pipe does not wait."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TextIO, TypeVar

from kshark.capture.log_lines import LogLines
from kshark.output.jsonlines import json_lines
from kshark.output.spans import DIM, PACKET, Line, Span, plain

T = TypeVar("T")
#: Objects, or lines, in one write.
_PAGE: Final = 256
#: A cell of a table that names a packet.
_CELL: Final = re.compile(r"packet \d+")


class Sink:
    """Write to a text stream: with colours and cropped lines on a terminal, otherwise plain text.

    `log_lines`: returns the lines of a request log, with which the text names packets; None: they are packets. Raises
    BrokenPipeError if the reader has gone.
    """

    def __init__(self, stream: TextIO, log_lines: Callable[[], LogLines | None] = lambda: None) -> None:
        self._stream = stream
        self._log_lines = log_lines
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
        terminal, log_lines = self._terminal, self._log_lines()
        for page in _pages(lines):
            if log_lines is not None:
                page = [_in_lines(line, log_lines) for line in page]
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


def _in_lines(line: Line, log_lines: LogLines) -> Line:
    """Return a text line that names lines of a log in place of packets; the columns of tables keep their width."""
    return [_span(span, log_lines, is_last=span is line[-1]) for span in line]


def _span(span: Span, log_lines: LogLines, *, is_last: bool) -> Span:
    text, style = span
    if style == PACKET and text.isdecimal():
        return log_lines.cell(int(text)).rjust(len(text)), style
    if (text, style) == (PACKET, DIM):
        return "line".rjust(len(text)), style
    named = log_lines.text(text)
    return named if is_last or not _CELL.fullmatch(text) else named.ljust(len(text)), style
