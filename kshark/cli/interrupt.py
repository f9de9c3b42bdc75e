"""Ctrl-C while a pipe is read is the end of the capture: what was found, and the summary, are told."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any, Final

from kshark.capture.files import is_pipe
from kshark.capture.stop import Stop

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals(files: Sequence[str]) -> Iterator[Stop | None]:
    """What the first Ctrl-C sets, or the first SIGTERM; a second one ends the program. None where no file is a pipe."""
    if not any(map(is_pipe, files)) or current_thread() is not main_thread():
        yield None
        return
    stop, before = Stop(), {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number in _SIGNALS:
            signal.signal(number, before[number])

    def end(number: int, frame: Any) -> None:
        restore()
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()
        stop.close()
