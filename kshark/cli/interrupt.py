"""Ctrl-C while reading a pipe ends the capture; the findings and the summary are still printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kshark.capture.files import is_pipe
from kshark.capture.stop import Stop


@contextmanager
def ended_by_signals(files: Sequence[str]) -> Iterator[Stop | None]:
    """Return the stop that the first Ctrl-C or SIGTERM sets; a second signal ends the program.

    None if no file is a pipe.
    """
    if any(map(is_pipe, files)):
        with _ended_by_signals() as stop:
            yield stop
    else:
        yield None


@contextmanager
def _ended_by_signals() -> Iterator[Stop | None]:
    import signal  # 1 ms with threading; not needed for files
    from threading import current_thread, main_thread

    if current_thread() is not main_thread():
        yield None
        return
    numbers = signal.SIGINT, signal.SIGTERM
    stop, before = Stop(), {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number in numbers:
            signal.signal(number, before[number])

    def end(number: int, frame: Any) -> None:
        restore()
        stop.set()

    for number in numbers:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()
        stop.close()
