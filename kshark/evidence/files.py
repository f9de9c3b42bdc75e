"""Files that are written: they appear when they are complete, and never replace the capture that is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from kshark.errors import UsageError

STANDARD_OUTPUT: Final = "-"


def need_output(path: str, inputs: Iterable[str], option: str) -> None:
    """Raise UsageError if a file cannot be written: it is one of the inputs, a folder, or its folder does not exist."""
    if path == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise UsageError(f"{option} - writes a capture, and standard output is a terminal; name a file")
        return
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{path} is a folder; name a file with {option}")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a folder; make it first, or name another file with {option}")
    if any(target.exists() and Path(file).exists() and target.samefile(file) for file in inputs):
        raise UsageError(f"{path} is the capture itself; name another file with {option}")


@contextmanager
def appearing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing; `-` is standard output. It appears when it is complete, and not if an error occurs."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or a pipe
        with target.open("wb") as file:
            yield file
        return
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
