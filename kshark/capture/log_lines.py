"""Name the lines of request logs in texts: a log has lines, and no packets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from kshark.capture.numbering import Locate
from kshark.model import Finding

#: `packet 41`, `packets 41, 44`, `packets 41 and 44`, `packets 41 to 44`; a number before it counts packets.
_PACKETS: Final = re.compile(r"(?<!\d )\b([Pp])ackets? (\d+(?:(?:, | and | to )\d+)*)(?! packet)")
_NUMBER: Final = re.compile(r"(, | and | to )")


class LogLines:
    """The lines of one log, or several, by the numbers of their messages.

    A request and its response are one line. A line that is forgotten keeps the number of the message.
    """

    def __init__(self, locate: Locate, names: Sequence[str]) -> None:
        self._locate = locate
        short = [PurePath(name).name for name in names]
        self._names = dict(zip(names, short if len({*short}) == len(short) else names, strict=True))
        self._files = {name: index for index, name in enumerate(names, 1)}

    def text(self, text: str) -> str:
        """Return a text with lines in place of packets: `(packets 85, 86)` is `(line 45)`."""
        return _PACKETS.sub(self._named, text) if "acket" in text else text

    def named(self, finding: Finding) -> Finding:
        """Return the finding, with lines in its sentence."""
        finding.argument = self.text(str(finding.argument))
        return finding

    def cell(self, packet: int) -> str:
        """Return a line for a table: `45`, or `2:45` for the second of several logs."""
        found = self._locate(packet)
        if found is None:
            return str(packet)
        file, line = found
        return str(line) if len(self._files) == 1 else f"{self._files[file]}:{line}"

    def _named(self, match: re.Match[str]) -> str:
        noun = "Line" if match[1] == "P" else "line"
        first, *rest = _NUMBER.split(match[2])
        text, last = "", None
        plural = False
        for between, number in zip(["", *rest[::2]], [first, *rest[1::2]], strict=True):
            found = self._locate(int(number))
            if found is None:
                return f"{'Message' if match[1] == 'P' else 'message'}{'s' * bool(rest)} {match[2]}"
            if found == last:
                continue
            file, line = found
            changes = last is not None and last[0] != file
            text += f"{self._of(last)}{between}{'line ' * changes}{line}" if changes else f"{between}{line}"
            plural = plural or (last is not None and not changes)
            last = found
        return f"{noun}{'s' * plural} {text}{self._of(last)}"

    def _of(self, found: tuple[str, int] | None) -> str:
        return f" of {self._names[found[0]]}" if found is not None and len(self._files) > 1 else ""
