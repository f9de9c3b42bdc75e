"""A terminal small enough to be checked by reading: the sequences that the painter uses, on a grid of characters."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.S)


class Screenful:
    """The characters of a terminal, and its modes. Raises ValueError for a sequence that it does not know."""

    def __init__(self, columns: int, lines: int) -> None:
        self.size = columns, lines
        self.rows = [[" "] * columns for _ in range(lines)]
        self.modes: dict[str, bool] = {}
        self.at = (0, 0)
        self.written = 0

    def feed(self, data: bytes) -> None:
        for private, numbers, final, char in _TOKEN.findall(data.decode()):
            if char:
                self._put(char)
            elif private:
                self.modes[numbers] = final == "h"
            elif final == "H":
                line, _, column = (numbers or "1;1").partition(";")
                self.at = int(line) - 1, int(column) - 1
            elif final == "K":
                line, column = self.at
                self.rows[line][column:] = [" "] * (self.size[0] - column)
            elif final == "J":
                self.rows = [[" "] * self.size[0] for _ in range(self.size[1])]
            elif final != "m":
                raise ValueError(f"ESC [ {numbers} {final}")

    def _put(self, char: str) -> None:
        """Without wrapping, what does not fit is lost."""
        line, column = self.at
        if not char.isprintable():
            raise ValueError(f"a control character: {char!r}")
        if column < self.size[0]:
            self.rows[line][column] = char
            self.written += 1
        self.at = line, column + 1

    @property
    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self.rows) + "\n"
