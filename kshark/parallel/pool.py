"""Worker processes: started, handed items through pipes, asked for results, and ended whatever happens.

Each pipe is written by a thread of its own, so that nobody computes less because somebody else reads late; large
buffers go through shared memory (kshark.parallel.shared_memory)."""

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
from kshark.parallel.shared_memory import SharedRing

#: Objects made before the garbage collector looks at the young ones: messages form no cycles, and a batch makes fewer.
_YOUNG: Final = 500_000
#: Items that may be under way before the oldest result is waited for: enough that no process waits for another's large
#: batch.
WINDOW: Final = 8
#: Nothing more is to be written.
_END: Final = object()


class Handler(Protocol):
    """What runs in a worker process: it takes the items sent there, one after the other."""

    def take(self, item: Any) -> Any:
        """The result, which is sent back."""


class WorkerLost(Error):
    """A process ended before its work was done."""


class WorkerPool:
    """`jobs` processes, each with the Handler that `make_handler` makes there; it can be pickled. Use it in a with
    statement.

    `method`: how processes start; fork where there is one (5 ms a process instead of 300, with everything imported),
    else spawn."""

    def __init__(self, jobs: int, make_handler: Callable[[], Handler], method: str | None = None) -> None:
        known = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context(method or ("fork" if "fork" in known else "spawn"))
        self.jobs = jobs
        self._processes: list[_Process] = []
        sys.stdout.flush()
        for _ in range(jobs):
            self._processes.append(_Process(context, make_handler, [each.connection for each in self._processes]))
        for each in self._processes:
            each.start_writer()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            each.process.terminate()
        for each in self._processes:
            each.close()

    def send(self, worker: int, item: Any) -> None:
        """Hands the item to that worker; never waits."""
        self._processes[worker].outbox.put(item)

    def ready(self, worker: int) -> bool:
        """Whether `receive` need not wait."""
        return self._processes[worker].connection.poll()

    def receive(self, worker: int) -> Any:
        """The result of the oldest item that was sent there. Raises what the process raised, WorkerLost where it is
        gone."""
        each = self._processes[worker]
        try:
            result = each.results.load(each.connection.recv())
        except (EOFError, OSError):
            each.process.join()
            raise WorkerLost(
                f"a process of this run ended unexpectedly (exit code {each.process.exitcode}); try --jobs 1"
            ) from None
        if isinstance(result, BaseException):
            raise result
        return result


class _Process:
    """One worker process as the first one sees it: the pipe, and a ring of shared memory for each direction."""

    def __init__(self, context: BaseContext, make_handler: Callable[[], Handler], others: list[Connection]) -> None:
        self.connection, theirs = context.Pipe()
        self.outbox: SimpleQueue[Any] = SimpleQueue()
        forked = context.get_start_method() == "fork"
        slots = WINDOW + 2 if forked else 0
        self.results, items = SharedRing(slots), SharedRing(slots)
        inherited = [*others, self.connection] if forked else []
        arguments = (theirs, inherited, make_handler, items, self.results)
        self.process = context.Process(target=_work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        self.process.start()
        theirs.close()
        self._writer = Thread(target=_write, args=(self.connection, self.outbox, items), daemon=True)

    def start_writer(self) -> None:
        """Once all processes are there: a fork with threads running may inherit a lock that nobody frees."""
        self._writer.start()

    def close(self) -> None:
        """Once the process was told to end: what was not written yet has no reader."""
        self.process.join()
        self.outbox.put(_END)
        self._writer.join()
        self.connection.close()


def _work(
    connection: Connection,
    inherited: list[Connection],
    make_handler: Callable[[], Handler],
    items: SharedRing,
    results: SharedRing,
) -> None:
    """The life of a worker process. It ends when the pipe does, and the pipe ends with the first process.

    `inherited`: the first process's ends of pipes, which a fork copies; as long as one is open here its pipe would not
    end."""
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends the others
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)
    outbox: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_write, args=(connection, outbox, results), daemon=True).start()
    try:
        handler = make_handler()
        while True:
            outbox.put(handler.take(items.load(connection.recv())))
    except (EOFError, OSError):
        os._exit(0)
    except Exception as error:
        outbox.put(error)
        _wait_for_the_end(connection)


def _wait_for_the_end(connection: Connection) -> None:
    """Until the first process has read everything and is gone, or ends this one."""
    with suppress(EOFError, OSError):
        while True:
            connection.recv()


def _write(connection: Connection, outbox: SimpleQueue[Any], ring: SharedRing) -> None:
    """A thread: sends what is put into the outbox, until _END or until nobody reads."""
    try:
        while (item := outbox.get()) is not _END:
            connection.send(ring.store(item))
    except OSError:
        return
