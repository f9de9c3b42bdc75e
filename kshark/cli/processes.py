"""Run work in several processes, each on one item after the other; output and results keep the order of the items.

A process sends everything it prints through a pipe. The output of the first unfinished item is printed immediately;
the output of later items waits in temporary files.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from tempfile import SpooledTemporaryFile
from threading import Thread
from typing import Any, Final, Generic, NamedTuple, TextIO, TypeVar

from kshark.cli.ending import Stopped, ended
from kshark.errors import Error

T = TypeVar("T")
R = TypeVar("R")

#: Bytes of output of one item that are kept in memory; more goes to a temporary file.
_MEMORY_BYTES: Final = 1 << 20
#: Items per process that may be started before the first of them is done; limits the output that waits.
_AHEAD: Final = 4
_BUFFER_BYTES: Final = 1 << 16


class ProcessLost(Error):
    """A process ended before its work was done."""


class _Form(NamedTuple):
    """How a stream encodes text, and whether it is a terminal."""

    encoding: str | None
    errors: str | None
    terminal: bool

    @classmethod
    def of(cls, stream: TextIO) -> _Form:
        return cls(stream.encoding, stream.errors, stream.isatty())


def in_processes(
    work: Callable[[T], R], items: Iterable[tuple[str, T]], jobs: int, *, forks: bool
) -> Generator[R, None, None]:
    """Yield the results of `work` for the items, each with a name, from `jobs` processes.

    A process keeps what it imported and compiled for the items before: 25 ms for each small capture. `forks`: fork
    processes if the system can (5 ms instead of 300); otherwise `work` is pickled, as items always are. Raises
    ProcessLost for a process that died, and Stopped if the work ended the command and printed the reason.
    """
    forks = forks and "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if forks else "spawn")
    left = iter(items)
    tasks: deque[_Task[R]] = deque()
    workers = _Workers[R](context, work, jobs)
    try:
        while True:
            while len(tasks) < _AHEAD * jobs and workers.has_idle and (item := next(left, None)) is not None:
                tasks.append(workers.begin(*item))
            if not tasks:
                return
            tasks[0].pass_on()
            workers.wait()
            while tasks and not tasks[0].is_running:
                tasks[0].pass_on()
                yield tasks.popleft().result()
    finally:
        for task in tasks:
            task.close()
        workers.close()


class _Workers(Generic[R]):
    """Up to `jobs` processes, started when there is work for them."""

    def __init__(self, context: BaseContext, work: Callable[[Any], R], jobs: int) -> None:
        self._context, self._work, self._jobs = context, work, jobs
        self._all: list[_Worker[R]] = []

    @property
    def has_idle(self) -> bool:
        """True if a process has no work, or may be started."""
        return len(self._all) < self._jobs or any(it.task is None for it in self._all)

    def begin(self, name: str, item: Any) -> _Task[R]:
        """Let a process work on an item."""
        worker = next((it for it in self._all if it.task is None), None)
        if worker is None:
            worker = _Worker(self._context, self._work)
            self._all.append(worker)
        return worker.begin(name, item)

    def wait(self) -> None:
        """Wait for the next messages of the processes that work."""
        busy = {worker.connection: worker for worker in self._all if worker.task is not None}
        for connection in wait([*busy]) if busy else ():
            busy[connection].receive()  # type: ignore[index]
        self._all = [worker for worker in self._all if not worker.has_ended]

    def close(self) -> None:
        """End all processes."""
        for worker in self._all:
            worker.process.terminate()
        for worker in self._all:
            worker.close()


class _Worker(Generic[R]):
    """A process, and the item it works on."""

    def __init__(self, context: BaseContext, work: Callable[[Any], R]) -> None:
        self.task: _Task[R] | None = None
        self.has_ended = False
        self.connection, theirs = context.Pipe()
        forms = _Form.of(sys.stdout), _Form.of(sys.stderr)
        self.process = context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, forms, work), daemon=True
        )
        sys.stdout.flush()
        self.process.start()
        theirs.close()

    def begin(self, name: str, item: Any) -> _Task[R]:
        """Give it an item. Returns the task."""
        self.task = task = _Task[R](name)
        with suppress(OSError):  # if it has ended: that is seen when the task is waited for
            self.connection.send(item)
        return task

    def receive(self) -> None:
        """Receive the next message of the process: a piece of output, the outcome of its item, or its end."""
        task = self.task
        assert task is not None
        try:
            number, data = self.connection.recv()
        except (EOFError, OSError):
            self.close()
            task.end(None, self.process.exitcode)
            self.task, self.has_ended = None, True
            return
        if number == 0:
            task.end(data)
            self.task = None
        else:
            task.print(number, data)

    def close(self) -> None:
        self.process.join()
        self.connection.close()


class _Task(Generic[R]):
    """One item: its output, which waits until it may be printed, and its outcome."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
        self._passes_on = False
        self._outcome: tuple[int, list[R]] | None = None
        self._exit_code: int | None = None
        self.is_running = True

    def end(self, outcome: tuple[int, list[R]] | None, exit_code: int | None = None) -> None:
        """Take the outcome; None if the process ended before, with that exit code."""
        self._outcome, self._exit_code, self.is_running = outcome, exit_code, False

    def print(self, number: int, data: bytes) -> None:
        """Take a piece of output."""
        if self._passes_on:
            _print(number, data)
        else:
            pickle.dump((number, data), self._kept)

    def pass_on(self) -> None:
        """Print the kept output, and print later output immediately."""
        if self._passes_on:
            return
        self._passes_on = True
        end = self._kept.tell()
        self._kept.seek(0)
        while self._kept.tell() < end:
            _print(*pickle.load(self._kept))
        self._kept.close()

    def result(self) -> R:
        """Return the result. Raises ProcessLost, Stopped."""
        self.close()
        if self._outcome is None:
            raise ProcessLost(
                f"{self._name}: the process that read it ended unexpectedly (exit code {self._exit_code}); try --jobs 1"
            )
        code, results = self._outcome
        if not results:
            raise Stopped(code)
        return results[0]

    def close(self) -> None:
        self._kept.close()


def _print(number: int, data: bytes) -> None:
    """Write to stdout (1) or stderr (2)."""
    stream = sys.stdout if number == 1 else sys.stderr
    stream.flush()
    stream.buffer.write(data)
    stream.flush()


# -- in the other process


class _Sent(io.RawIOBase):
    """A file that sends its bytes through the pipe."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._connection.send((self._number, bytes(data)))
        return len(data)


class _Stream(io.TextIOWrapper):
    """A text stream of that form, so that its output is the same as in the first process."""

    def __init__(self, connection: Connection, number: int, form: _Form) -> None:
        buffer = io.BufferedWriter(_Sent(connection, number), _BUFFER_BYTES)
        super().__init__(buffer, form.encoding, form.errors, newline="", write_through=True)
        self._terminal = form.terminal

    def isatty(self) -> bool:
        return self._terminal


def _work(connection: Connection, forms: tuple[_Form, _Form], work: Callable[[Any], R]) -> None:
    """Work on items until there are none; errors are printed here, as the first process would print them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C and ends the others
    Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout, sys.stderr = (_Stream(connection, number, form) for number, form in enumerate(forms, 1))
    with suppress(EOFError):
        while True:
            _work_on(connection, work, connection.recv())


def _work_on(connection: Connection, work: Callable[[T], R], item: T) -> None:
    results: list[R] = []

    def run() -> int:
        results.append(work(item))
        return 0

    code = ended("kshark", run)
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send((0, (code, results)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
