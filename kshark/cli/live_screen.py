"""The screen of `kshark live`: when it is shown, and what is kept from the terminal meanwhile."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from kshark.live import Status
from kshark.names import TopicNames
from kshark.output.spans import WARN

if TYPE_CHECKING:
    from kshark.cli.parser import Parser
    from kshark.live.screen import Screen

#: Texts for stderr that are kept while the screen is shown: the last ones.
_KEPT: Final = 1_000


def add_lines(parser: Parser) -> None:
    parser.add_argument(
        "--lines",
        action="store_true",
        help="lines instead of the screen; -V, -q, -c and -T json have lines too, and so has a pipe",
    )


def wants_screen(args: Namespace) -> bool:
    """True if people look at a terminal, and did not ask for lines."""
    asks_for_lines = args.lines or args.verbose or args.quiet or args.count is not None or args.format != "text"
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    return has_terminal and not asks_for_lines and os.environ.get("TERM", "dumb") != "dumb"


def begin_screen(args: Namespace, names: TopicNames | None, save: Callable[[], str] | None = None) -> Screen:
    """Return a screen that is not shown yet. `q` does the same as Ctrl-C.

    `save` saves what the flight recorder holds, and returns a sentence; None without a recorder. Call it before rights
    are given up: it opens the terminal.
    """
    from kshark.live.screen import Model, Screen  # imports rich only for a terminal
    from kshark.output.text import Terminal

    model = Model({} if names is None else names.by_id, args.filter or "")
    terminal = Terminal(sys.stdout)
    terminal.paint([("…", WARN)])  # imports the rest of rich
    output, keys = sys.stdout.fileno(), sys.stdin.fileno()
    return Screen(model, terminal.paint, lambda: os.kill(os.getpid(), signal.SIGINT), save, keys=keys, output=output)


@contextmanager
def shown_screen(screen: Screen | None, interfaces: tuple[str, ...]) -> Iterator[Callable[[], object]]:
    """Show a screen, if there is one, and restore the terminal at the end, whatever happens. Text for stderr waits.

    Yields a function that restores the terminal at once.
    """
    if screen is None:
        yield lambda: None
        return
    stderr, waiting = sys.stderr, _Waiting(sys.stderr)
    sys.stderr = waiting
    try:
        now_ns = time.time_ns()
        screen.start(Status(interfaces, now_ns, now_ns))
        yield screen.end
    finally:
        screen.end()
        sys.stderr = stderr
        waiting.release()


class _Waiting(io.TextIOBase):
    """Keep the last texts until `release` writes them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._texts: deque[str] | None = deque(maxlen=_KEPT)

    def write(self, text: str) -> int:
        if self._texts is None:
            return self._stream.write(text)
        self._texts.append(text)
        return len(text)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def release(self) -> None:
        """Write the texts, and all later ones at once."""
        texts, self._texts = self._texts, None
        self._stream.write("".join(texts or ()))
        self._stream.flush()
