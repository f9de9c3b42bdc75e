"""Show Spark's progress on a terminal: the tasks done. Nothing is written if the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S: Final = 0.3
_CLEARED: Final = "\r\x1b[K"


@contextmanager
def shown(spark: SparkSession, screen: TextIO | None = None) -> Iterator[Callable[[], None]]:
    """Show one line of progress on a terminal while Spark works, and clear it at the end.

    The context is a function that clears the line, for output before the end.
    """
    screen = screen or sys.stderr
    context = getattr(spark, "_sc", None)  # none with Spark Connect
    if not screen.isatty() or context is None:
        yield _nothing
        return
    over = Event()
    thread = Thread(target=_watch, args=(context.statusTracker(), screen, over), daemon=True)
    thread.start()
    try:
        yield partial(_clear, screen)
    finally:
        over.set()
        thread.join()
        _clear(screen)


def _nothing() -> None:
    """Clear nothing: no line is shown."""


def _clear(screen: TextIO) -> None:
    screen.write(_CLEARED)
    screen.flush()


def _watch(tracker: Any, screen: TextIO, over: Event) -> None:
    while not over.wait(_EVERY_S):
        line = progress_line(tracker)
        if line:
            screen.write(f"{_CLEARED}kshark-spark: {line}")
            screen.flush()


def progress_line(tracker: Any) -> str:
    """Return the active stages: their tasks done, running and in total. Empty without an active stage."""
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    if not stages:
        return ""
    done, tasks = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    running = sum(stage.numActiveTasks for stage in stages)
    return f"stage {max(stage.stageId for stage in stages) + 1}: {done} of {tasks} tasks done, {running} running"
