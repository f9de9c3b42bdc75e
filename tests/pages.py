"""Commands of pages: read from console blocks, run in one folder, compared with what the page shows below them.

    python -m tests.pages docs/tour.md      writes what the commands print today into the page; read the difference

A page's commands run in its order, in a folder with `captures/` (a link) and the captures of STANDINS. `...` alone on a
line stands for any lines. A command without lines below it must only succeed, which for kshark is exit code 0, 1 or 3.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from kshark.cli import main
from tests.shared import CAPTURES, ROOT, pythonpath

#: Names of captures that pages use for the reader's own files, and the bundled captures that stand for them.
STANDINS: Final = {
    "trace.pcap": "share-restart.pcap",
    "before.pcap": "share-java-explicit-4.0.0.pcap",
    "after.pcap": "java-limit.pcap",
    "incident.pcap": "aimed-4.1.2.pcap",
}
#: What makes a command one of a shell.
_SHELL: Final = re.compile(r"[|<>;]|&&|\$\?|^cat |^ls |^cd ")
#: Programs besides kshark that pages may run; they end by themselves.
_PROGRAMS: Final = frozenset(
    ("kshark", "jq", "duckdb", "tshark", "cat", "ls", "cd", "head", "tail", "grep", "sort", "uniq", "wc", "cut", "echo")
)
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
ELLIPSIS: Final = "..."


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the lines below it."""

    line: int
    command: str
    output: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command, comments=True)

    @property
    def is_run(self) -> bool:
        """False for make, and for `kshark live`, also under sudo: it needs an interface and never ends."""
        words = self.words
        return words[0] != "make" and ("kshark", "live") not in pairwise(words)


def documents() -> list[Path]:
    """Return the README and the pages in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown(text: str) -> Iterator[Shown]:
    """Return the commands of a page in its order."""
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        for part in re.split(r"^(?=\$ )", block[1], flags=re.M):
            if part.startswith("$ "):
                rows = part.rstrip("\n").split("\n")
                end = next((index for index, row in enumerate(rows) if not row.endswith("\\")), len(rows) - 1)
                command = " ".join(row.removesuffix("\\").strip() for row in rows[: end + 1])
                yield Shown(line, command.removeprefix("$ "), tuple(_trimmed(rows[end + 1 :])))
            line += part.count("\n")


def _trimmed(lines: list[str]) -> list[str]:
    """Return the lines without empty ones at the end: before the next command a page may have one."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def fits(output: list[str], expected: tuple[str, ...]) -> bool:
    """True if the output is what the page shows."""
    if ELLIPSIS not in expected:
        return output == [*expected]
    at = expected.index(ELLIPSIS)
    head, tail = [*expected[:at]], [*expected[at + 1 :]]
    if ELLIPSIS in tail:
        raise ValueError("a page may leave out lines of an output in one place only")
    return output[:at] == head and (not tail or output[-len(tail) :] == tail) and len(output) >= len(head) + len(tail)


def pictures(text: str) -> list[str]:
    """Return the names of a page's pictures. One that a command of the page writes is a copy of what it writes."""
    return re.findall(r"!\[[^]]*\]\(([^)/]+)\)", text)


class Folder:
    """The folder in which the commands of a page run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.code, self.notes = 0, ""
        (path / "captures").symlink_to(CAPTURES)
        for name, capture in STANDINS.items():
            (path / name).symlink_to(CAPTURES / capture)
        programs = path / ".bin"
        programs.mkdir()
        (programs / "kshark").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kshark "$@"\n')
        (programs / "kshark").chmod(0o755)
        self._environment = {**os.environ, "PYTHONPATH": pythonpath(), "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, shown: Shown) -> list[str] | None:
        """Return the lines that a command prints; None if a program is missing here. Keeps the exit code."""
        if shown.command == "echo $?":
            return [str(self.code)]
        if _SHELL.search(re.sub(r"'[^']*'", "", shown.command)) or shown.words[0] != "kshark":
            return self._shell(shown.command)
        with (
            contextlib.chdir(self.path),
            io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) as out,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(io.StringIO()) as notes,
        ):
            try:
                self.code = main(shown.words[1:])
            except SystemExit as leaving:  # argparse
                self.code = int(leaving.code or 0)
            out.seek(0)
            self.notes = notes.getvalue()
            return _trimmed(out.read().split("\n"))

    def _shell(self, command: str) -> list[str] | None:
        programs = {part.split()[0] for part in re.split(r"\|\|?|&&|;", re.sub(r"'[^']*'", "''", command))}
        if programs - _PROGRAMS:
            foreign = ", ".join(sorted(programs - _PROGRAMS))
            raise ValueError(f"a test cannot run {foreign}: move this to a block of sh: {command}")
        if any(shutil.which(name, path=self._environment["PATH"]) is None for name in programs - {"cd", "echo"}):
            return None
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.path,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code, self.notes = done.returncode, done.stderr
        return _trimmed(done.stdout.split("\n"))


def updated(text: str, folder: Folder) -> str:
    """Return a page with what its commands print today. Lines that it leaves out stay left out."""
    lines, moved = text.split("\n"), 0
    for command in shown(text):
        output = folder.run(command) if command.is_run else None
        if folder.code not in (0, 1, 3):
            print(f"line {command.line}: {command.command}: exit code {folder.code}: {folder.notes}")
        if output is None or not command.output:
            continue
        if ELLIPSIS in command.output and command.output != (ELLIPSIS,):
            at = command.output.index(ELLIPSIS)
            tail = len(command.output) - at - 1
            output = [*output[:at], ELLIPSIS, *(output[-tail:] if tail else [])]
        start = command.line - 1 + moved
        while lines[start].endswith("\\"):
            start += 1
        lines[start + 1 : start + 1 + len(command.output)] = output
        moved += len(output) - len(command.output)
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            page = Path(name)
            page.write_text(updated(page.read_text(), Folder(Path(place))))
            for picture in pictures(page.read_text()):
                shutil.copy(Path(place) / picture, page.parent)
