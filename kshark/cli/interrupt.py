"""Ctrl-C ends the reading of a capture; what was found by then is still printed.

For a pipe this is the end of the capture. Of a file the rest is not read, and exit code and output say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kshark.capture.files import is_pipe
from kshark.capture.stop import Stop


@contextmanager
def ended_by_signals(files: Sequence[str], *, stops: bool = False) -> Iterator[Stop | None]:
    """Return the stop that the first Ctrl-C sets (for a pipe also SIGTERM); a second signal ends the program.

    None if no file is a pipe, unless `stops`: then Ctrl-C also ends the reading of files.
    """
    has_pipe = any(map(is_pipe, files))
    if has_pipe or stops:
        from signal import SIGINT, SIGTERM  # 0.5 ms

        with _ended_by_signals(SIGINT, *([SIGTERM] if has_pipe else ())) as stop:
            yield stop
    else:
        yield None


@contextmanager
def _ended_by_signals(*numbers: int) -> Iterator[Stop | None]:
    import signal

    stop, before = Stop(), {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(number: int, frame: Any) -> None:
        restore()
        stop.set()

    try:
        for number in numbers:
            signal.signal(number, end)
    except ValueError:  # only the main thread may set handlers
        before.clear()
    try:
        yield stop if before else None
    finally:
        restore()
        stop.close()
