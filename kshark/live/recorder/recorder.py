"""The flight recorder as a consumer of a running capture."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kshark.errors import UsageError
from kshark.evidence.connections import Connections
from kshark.limits import TLS_SECRETS_BYTES
from kshark.live.consumer import Status
from kshark.live.files.capture_files import print_note
from kshark.live.files.folder import need_writable
from kshark.live.files.interfaces import Interfaces
from kshark.live.recorder.due import Due, DueRecordings
from kshark.live.recorder.helper import Helper
from kshark.live.recorder.private_folder import PrivateFolder
from kshark.live.recorder.saving import JOB, KEYS, RESULT, Job, Result, Saved, Saving, around, every
from kshark.live.recorder.segments import Segments
from kshark.model import Event, Finding, PacketBatch
from kshark.units import counted, duration, safe, size

#: Seconds in which the last recordings are awaited when the capture ends.
_LAST_SECONDS: Final = 2.0
_FOREVER: Final = (1 << 63) - 1
_GIVES: Final = {
    True: ", which gives the finding again",
    False: ", which does not give the finding alone (finding.txt says why)",
    None: "",
}


class Recorder:
    """Hold the last packets, and save those around a violation, while the capture goes on.

    The folder for recordings is made at once; `start` comes when the process has given up its rights, before the first
    packet and before there are threads. At the end, recordings are awaited for `last_seconds`; those that take longer
    are still completed, by the other process. Raises UsageError for a folder that cannot be used.
    """

    def __init__(
        self,
        saving: Saving,
        interfaces: Interfaces,
        *,
        note: Callable[[str], object] = print_note,
        last_seconds: float = _LAST_SECONDS,
    ) -> None:
        options = saving.recorder
        self._saving = saving
        self._interfaces = interfaces
        self._note = note
        self._last_seconds = last_seconds
        self._due = DueRecordings(options)
        self._asked: deque[str] = deque()
        self._connections = Connections(options.held_ns)
        self._now_ns = 0
        self._dropped = 0
        self._keys = b""
        self._started: _Started | None = None
        self._is_made = not options.folder.exists()
        #: Recordings that were written.
        self.saved: list[Saved] = []
        try:
            options.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{safe(str(options.folder))}: {error.strerror}; name another folder with --on-violation save=DIR"
            ) from None

    def give_to(self, user: int, group: int) -> None:
        """Make another user the owner of the folder for recordings, if it is new."""
        if self._is_made:
            os.chown(self._saving.recorder.folder, user, group)

    def start(self) -> None:
        """Begin to hold packets. Raises UsageError if this process cannot write recordings."""
        options = self._saving.recorder
        need_writable(options.folder, "--on-violation save=")
        folder = PrivateFolder()
        self._started = _Started(folder, self._saving, self._interfaces)
        if folder.free < options.held_bytes:
            self._note(
                f"the flight recorder may hold {size(options.held_bytes)}, and {folder.path.parent} has room for "
                f"{size(folder.free)}; name another folder with TMPDIR=DIR, or hold less with --record"
            )

    def save(self, reason: str) -> None:
        """Save everything that is held, soon; from any thread or signal handler."""
        self._asked.append(reason)

    @property
    def state(self) -> str:
        """Time and bytes that are held: `60.0 s/112 MB`; empty before the start."""
        started = self._started
        return "" if started is None else f"{duration(started.segments.span_ns)}/{size(started.segments.size)}"

    def packets(self, batch: PacketBatch) -> None:
        if len(batch.number):
            self._now_ns = max(self._now_ns, int(batch.time_ns.max()))
        if batch.secrets:
            self._keys = (self._keys + batch.secrets)[-TLS_SECRETS_BYTES:]
        self._hold(lambda segments: segments.add(batch))

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        self._connections.page(page)
        for finding in findings:
            self._due.add(finding, self._now_ns)
        self._save_due(self._now_ns)

    def status(self, status: Status) -> None:
        self._now_ns = max(self._now_ns, status.now_ns - status.delay_ns)
        self._dropped, more = status.dropped, status.dropped - self._dropped
        if more > 0:
            self._hold(lambda segments: segments.lost(more))
        self._save_due(self._now_ns)

    def close(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self._due.add(finding, self._now_ns)
        started = self._started
        if started is None:
            return
        self._begin([*self._taken(_FOREVER)])
        until = time.monotonic() + self._last_seconds
        while not started.helper.is_idle and time.monotonic() < until:
            started.helper.wait(until - time.monotonic())
            self._take_results(started)
        if not started.helper.is_idle:
            many = counted(started.waiting, "recording")
            self._note(f"{many} not written yet; another process goes on to write to {self._folder}")
        started.helper.close(1.0 if started.helper.is_idle else 0.0)
        self._started = None
        for sentence in self.notes():
            self._note(sentence)

    def notes(self) -> list[str]:
        """Return what was saved, in a sentence; nothing if nothing was to be saved."""
        due = self._due
        others = [
            f"{counted(due.repeats, 'repeat')} of their findings have no recording of their own" if due.repeats else "",
            f"{counted(due.left_out, 'finding')} were too many at once" if due.left_out else "",
        ]
        rest = "".join(f"; {other}" for other in others if other)
        return [f"saved {counted(len(self.saved), 'recording')} to {self._folder}{rest}"] if self.saved or rest else []

    @property
    def _folder(self) -> str:
        return safe(str(self._saving.recorder.folder))

    def _hold(self, use: Callable[[Segments], object]) -> None:
        """Write to what is held; if that is impossible, say it and hold no more."""
        if self._started is None:
            return
        try:
            use(self._started.segments)
        except OSError as error:
            self._note(
                f"the flight recorder stops: {error.strerror or error} in {self._started.folder.path.parent}; "
                "packets are judged as before"
            )
            self._started.helper.close(0.0)
            self._started = None

    def _save_due(self, now_ns: int) -> None:
        started = self._started
        if started is None:
            return
        self._take_results(started)
        if (self._due or self._asked) and started.helper.is_idle:
            self._begin(self._taken(now_ns))

    def _taken(self, now_ns: int) -> list[Due]:
        while self._asked:
            self._due.ask(self._asked.popleft())
        return self._due.take(now_ns)

    def _begin(self, dues: list[Due]) -> None:
        started = self._started
        if not dues or started is None:
            return
        try:
            started.begin(dues, self._connections, self._keys)
        except OSError as error:
            self._note(f"{counted(len(dues), 'recording')} cannot be saved: {error.strerror or error}")

    def _take_results(self, started: _Started) -> None:
        for result in started.results():
            self.saved += result.saved
            for saved in result.saved:
                self._note(f"saved {self._folder}/{safe(saved.name)} ({size(saved.size)}){_GIVES[saved.gives]}")
            for failure in result.failures:
                self._note(f"a recording cannot be saved: {failure}")


class _Started:
    """The packets that are held, and the process that saves them."""

    def __init__(self, folder: PrivateFolder, saving: Saving, interfaces: Interfaces) -> None:
        options = saving.recorder
        self.folder = folder
        self._options = options
        self.segments = Segments(folder.path, interfaces, options.held_ns, options.held_bytes)
        self.helper = Helper(saving, folder.remove, folder.lock)
        self._jobs = 0
        #: Recordings of each job that has not ended.
        self._waiting: dict[Path, int] = {}

    def begin(self, dues: list[Due], connections: Connections, keys: bytes) -> None:
        """Begin a job. What is held now stays until it ends. Raises OSError."""
        self.segments.end()
        held = self.segments.held
        if held is None:
            raise OSError(0, "no packet is held")
        self._jobs += 1
        job = self.folder.path / f"job-{self._jobs}"
        job.mkdir(mode=0o700)
        try:
            paths = [job / path.name for path in held.paths]
            for path, link in zip(held.paths, paths, strict=True):
                os.link(path, link)
            (job / KEYS).write_bytes(keys)
            findings = [due.finding for due in dues if due.finding is not None]
            work = Job(
                [*map(str, paths)],
                held.first,
                held.since_ns,
                held.until_ns,
                dues,
                [around(finding, connections, self._options, held.first) for finding in findings],
                every(connections, held.first) if findings else [],
            )
            (job / JOB).write_bytes(msgspec.msgpack.encode(work))
            self.helper.begin(job)
            self._waiting[job] = len(dues)
        except OSError:
            shutil.rmtree(job, ignore_errors=True)
            raise

    def results(self) -> list[Result]:
        """Return the results of the jobs that ended."""
        ended = self.helper.ended()
        for job, _ in ended:
            self._waiting.pop(job, None)
        return [_result(job, failure) for job, failure in ended]

    @property
    def waiting(self) -> int:
        """Recordings that are being written."""
        return sum(self._waiting.values())


def _result(job: Path, failure: str) -> Result:
    """Return the result of a job, and remove its folder."""
    try:
        return msgspec.msgpack.decode((job / RESULT).read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError):
        return Result(failures=[failure or "its result is missing"])
    finally:
        shutil.rmtree(job, ignore_errors=True)
