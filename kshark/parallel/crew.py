"""The other processes: started, handed their shares, asked for what they made, and ended whatever happens.

Shares and results go through pipes, each written by a thread of its own, so that nobody computes less because somebody else reads late;
their bytes lie in memory that both processes see (kshark.parallel.shelf).
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol

from kshark.errors import Error
from kshark.parallel.shelf import Shelf

#: Objects made before the garbage collector looks at the young ones: messages form no cycles.
_YOUNG: Final = 200_000
#: Batches that are handed out before the oldest has to be there: enough that no process waits for another's large batch.
WINDOW: Final = 8
#: Nothing more is to be written.
_END: Final = object()


class Hired(Protocol):
    """What works in another process: takes what is sent there, one after the other."""

    def take(self, item: Any) -> Any:
        """What is sent back."""


class WorkerLost(Error):
    """A process ended before its work."""


class Crew:
    """`jobs` processes, each with what `hire` makes there; it and what it refers to can be pickled. Use it in a with statement.

    `method`: how processes begin; fork where there is one (5 ms a process instead of 300, with everything imported), else spawn.
    """

    def __init__(self, jobs: int, hire: Callable[[], Hired], method: str | None = None) -> None:
        known = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context(method or ("fork" if "fork" in known else "spawn"))
        self.jobs = jobs
        self._hands: list[_Hand] = []
        sys.stdout.flush()
        for _ in range(jobs):
            self._hands.append(_Hand(context, hire, [hand.connection for hand in self._hands]))
        for hand in self._hands:
            hand.start()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self._hands:
            hand.process.terminate()
        for hand in self._hands:
            hand.close()

    def send(self, worker: int, item: Any) -> None:
        """Hands it over, at once."""
        self._hands[worker].outbox.put(item)

    def ready(self, worker: int) -> bool:
        """Whether `receive` need not wait."""
        return self._hands[worker].connection.poll()

    def receive(self, worker: int) -> Any:
        """What became of the oldest that was sent there. Raises what the process raised, WorkerLost where it is gone."""
        hand = self._hands[worker]
        try:
            made = hand.shelf.taken(hand.connection.recv())
        except (EOFError, OSError):
            hand.process.join()
            raise WorkerLost(f"a process of this run ended unexpectedly (exit code {hand.process.exitcode}); try --jobs 1") from None
        if isinstance(made, BaseException):
            raise made
        return made


class _Hand:
    """One process and the way to it."""

    def __init__(self, context: BaseContext, hire: Callable[[], Hired], others: list[Connection]) -> None:
        self.connection, theirs = context.Pipe()
        self.outbox: SimpleQueue[Any] = SimpleQueue()
        forked = context.get_start_method() == "fork"
        places = WINDOW + 2 if forked else 0
        self.shelf, shares = Shelf(places), Shelf(places)
        inherited = [*others, self.connection] if forked else []
        self.process = context.Process(target=_work, args=(theirs, inherited, hire, shares, self.shelf), daemon=True)  # type: ignore[attr-defined]
        self.process.start()
        theirs.close()
        self._writer = Thread(target=_write, args=(self.connection, self.outbox, shares), daemon=True)

    def start(self) -> None:
        self._writer.start()

    def close(self) -> None:
        """Behind the process's end: what was not written yet has no reader."""
        self.process.join()
        self.outbox.put(_END)
        self._writer.join()
        self.connection.close()


def _work(connection: Connection, inherited: list[Connection], hire: Callable[[], Hired], shares: Shelf, shelf: Shelf) -> None:
    """A process's life: it ends with the pipe, which ends with the first process."""
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is asked, and ends the others
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)
    outbox: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_write, args=(connection, outbox, shelf), daemon=True).start()
    try:
        worker = hire()
        while True:
            outbox.put(worker.take(shares.taken(connection.recv())))
    except (EOFError, OSError):
        os._exit(0)
    except Exception as error:
        outbox.put(error)
        _wait_for_the_end(connection)


def _wait_for_the_end(connection: Connection) -> None:
    """Until the first process has read all and is gone, or ends this one."""
    with suppress(EOFError, OSError):
        while True:
            connection.recv()


def _write(connection: Connection, outbox: SimpleQueue[Any], shelf: Shelf) -> None:
    """Writes what comes until nothing more does, or nobody reads it."""
    try:
        while (item := outbox.get()) is not _END:
            connection.send(shelf.put(item))
    except OSError:
        return
