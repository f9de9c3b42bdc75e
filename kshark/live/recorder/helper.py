"""A process that does jobs one after the other, each in a process of its own, while the capture goes on.

It is forked before the first packet and before threads: it has the modules and options, and no rights that the capture
gave up.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_LINE: Final = b"\n"


class Helper:
    """Does jobs, named by their folders: `work` is called with each. `leave` is called when this process has ended.

    `lock`: a file that the helper keeps open.
    """

    def __init__(self, work: Callable[[Path], object], leave: Callable[[], object], lock: int) -> None:
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            try:
                _serve(theirs, work, leave, lock)
            finally:
                os._exit(0)
        theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._waiting: list[Path] = []
        self._received = b""

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def begin(self, job: Path) -> None:
        """Give it a job. Raises OSError if the helper has ended."""
        self._socket.sendall(bytes(job) + _LINE)
        self._waiting.append(job)

    def ended(self) -> list[tuple[Path, str]]:
        """Return the jobs that ended since the last call, each with why it failed; empty if it did not."""
        jobs: list[tuple[Path, str]] = []
        try:
            while True:
                received = self._socket.recv(4096)
                if not received:
                    jobs += [(job, "the process that saves has ended") for job in self._waiting]
                    self._waiting.clear()
                    return jobs
                self._received += received
        except BlockingIOError:
            pass
        except OSError as error:
            jobs += [(job, str(error)) for job in self._waiting]
            self._waiting.clear()
        *lines, self._received = self._received.split(_LINE)
        return [*((self._waiting.pop(0), line.decode()) for line in lines), *jobs]

    def wait(self, seconds: float) -> None:
        """Wait until a job ends, at most so long."""
        select.select([self._socket], [], [], max(0.0, seconds))

    def close(self, seconds: float) -> None:
        """Let the helper end after its jobs, and wait for it so long; later it ends by itself."""
        self._socket.close()
        until = time.monotonic() + seconds
        with suppress(ChildProcessError):
            while os.waitpid(self._pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
                time.sleep(0.005)


def _serve(jobs: socket.socket, work: Callable[[Path], object], leave: Callable[[], object], lock: int) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _keep_only({jobs.fileno(), lock})
    gc.freeze()
    os.nice(10)
    os.umask(0o077)
    try:
        with suppress(OSError), jobs.makefile("rb") as lines:
            for line in lines:
                jobs.sendall(_done(work, Path(os.fsdecode(line.rstrip(_LINE)))).encode() + _LINE)
    finally:
        leave()


def _done(work: Callable[[Path], object], job: Path) -> str:
    """Do a job in a process of its own, so that its memory is given back; return why it failed."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work(job)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"it was ended by signal {-code}" + (", perhaps for lack of memory" if code == -signal.SIGKILL else "")
    return "" if code == 0 else "it ended before it was written"


def _keep_only(files: set[int]) -> None:
    """Close all other files: who reads what kshark prints waits for their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in files:
            with suppress(OSError):
                os.close(number)
