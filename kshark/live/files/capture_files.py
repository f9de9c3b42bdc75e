"""`-w`: the packets of a running capture as pcapng files, whole at any time."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.capture.batches import chosen
from kshark.capture.pcapng_writer import PcapngWriter
from kshark.limits import TLS_SECRETS_BYTES
from kshark.live.consumer import Status
from kshark.live.files.conditions import NO_CONDITIONS, Conditions
from kshark.live.files.folder import need_writable
from kshark.live.files.interfaces import Interfaces
from kshark.live.files.output import Output, open_output
from kshark.live.files.rotation import Part, Rotation
from kshark.model import Event, Finding, PacketBatch
from kshark.units import counted, safe, size

if TYPE_CHECKING:
    from kshark.model import Int64s

_SECOND: Final = 1_000_000_000
#: File numbers have five digits; after 99999 comes 0.
_NUMBERS: Final = 100_000
#: Bytes of a section header and an interface, roughly: sizes of files count them.
_HEADER: Final = 120


def print_note(sentence: str) -> None:
    """Print a note."""
    print(f"kshark: {sentence}", file=sys.stderr, flush=True)


def file_name(path: str, number: int, time_ns: int) -> str:
    """Return the name of one of several files, as dumpcap makes it: `trace_00001_20261128170000.pcapng`.

    The time is local, as dumpcap's.
    """
    stem, dot, suffix = Path(path).name.rpartition(".")
    if not stem:
        stem, dot, suffix = Path(path).name, "", ""
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(time_ns // _SECOND))
    return str(Path(path).with_name(f"{stem}_{number % _NUMBERS:05}_{stamp}{dot}{suffix}"))


class CaptureFiles:
    """Write packets to one file or several, and end the capture when its conditions say so.

    The first file is opened at once, others as their first packet comes. `path`: None for conditions without files.
    `since_ns`: the beginning of the capture. `secrets`: TLS secrets are written, too. If a file cannot be written, this
    is said once and writing stops; everything else goes on. Raises OSError if the first file cannot be opened.
    """

    def __init__(
        self,
        path: str | None,
        interfaces: Interfaces,
        ends: Conditions = NO_CONDITIONS,
        full: Conditions = NO_CONDITIONS,
        *,
        since_ns: int,
        secrets: bool = False,
        note: Callable[[str], object] = print_note,
    ) -> None:
        self._path = path
        self._interfaces = interfaces
        self._rotation = Rotation(ends, full, since_ns, _HEADER)
        self._is_single = full == NO_CONDITIONS
        self._keep = full.files
        self._note = note
        self._parts: list[Part] = []
        #: All TLS secrets so far: each file begins with them. None: they are not written.
        self._secrets: bytes | None = b"" if secrets else None
        self._dropped = 0
        self._written = _Written()
        self._file: _OpenFile | None = None
        self._names: deque[str] = deque()
        if path is not None:
            self._open(since_ns)

    @property
    def is_complete(self) -> bool:
        """True if the capture ends: by a condition of `-a`, or because nobody reads standard output any more."""
        return self._rotation.is_complete or self._written.is_unread

    def give_to(self, user: int, group: int) -> None:
        """Make another user the owner of the first file: it was opened with more rights than the rest of the capture
        has.
        """
        if self._file is not None:
            self._file.output.give_to(user, group)

    def need_writable(self) -> None:
        """Raise UsageError if this process cannot make the next files; called after it gave up its rights."""
        if self._path is not None and not self._is_single:
            need_writable(Path(self._path).parent, "-w")

    def cut(self, batch: PacketBatch) -> PacketBatch:
        """Return the packets that are part of the capture; to be called once for each batch, before `packets`."""
        self._parts = self._rotation.take(batch)
        end = self._parts[-1].end if self._parts else 0
        if end == len(batch.number):
            return batch
        part = chosen(batch, slice(0, end))
        part.secrets = batch.secrets
        return part

    def packets(self, batch: PacketBatch) -> None:
        if self._secrets is not None and batch.secrets:
            self._secrets = (self._secrets + batch.secrets)[-TLS_SECRETS_BYTES:]
        numbers = self._interfaces.of(batch)
        for begin, end, opens in self._parts:
            if opens and self._path is not None and self._written.error is None:
                self._close()
                self._open(int(batch.time_ns[begin]))
            if self._file is not None:
                whole = end - begin == len(batch.number)
                part = batch if whole else chosen(batch, slice(begin, end))
                part.secrets = batch.secrets
                self._write(part, numbers[begin:end])
        self._parts = []

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        pass

    def status(self, status: Status) -> None:
        self._dropped, more = status.dropped, status.dropped - self._dropped
        if self._file is not None and more > 0:
            self._try(lambda file: file.lost(more))
        if self._rotation.passed(status.now_ns - status.delay_ns) and not self._is_single:
            self._close()

    def close(self, findings: Sequence[Finding]) -> None:
        self._close()
        for sentence in self.notes():
            self._note(sentence)

    def notes(self) -> list[str]:
        """Return what was written, in a sentence; nothing without files."""
        written = self._written
        if self._path is None:
            return []
        name = "standard output" if self._path == "-" else safe(self._names[-1] if self._names else self._path)
        several = f"{counted(written.files, 'file')}, the last of them {name}" if not self._is_single else name
        lost = f"; {counted(written.lost, 'packet')} found no room there" if written.lost else ""
        return [f"wrote {counted(written.packets, 'packet')} ({size(written.bytes)}) to {several}{lost}"]

    def _open(self, time_ns: int) -> None:
        assert self._path is not None
        written = self._written
        name = self._path if self._is_single else file_name(self._path, written.files + 1, time_ns)
        try:
            self._file = _OpenFile(open_output(name), self._interfaces, time_ns)
            written.files += 1
            self._names.append(name)
            self._try(lambda file: file.begin(self._secrets or b""))
        except OSError as error:
            if written.files == 0:
                raise
            self._stop(name, error)
        while self._keep is not None and len(self._names) > self._keep:
            self._remove(self._names.popleft())

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass  # somebody has taken it away: it takes no room
        except OSError as error:
            self._stop(name, error)

    def _write(self, batch: PacketBatch, numbers: Int64s) -> None:
        secrets = batch.secrets if self._secrets is not None else b""
        blocks = self._try(lambda file: file.packets(batch, numbers, secrets))
        if blocks is not None:
            self._written.packets += len(numbers) if blocks else 0
            self._written.lost += 0 if blocks else len(numbers)

    def _close(self) -> None:
        self._try(lambda file: file.close())
        self._file = None

    def _try(self, write: Callable[[_OpenFile], int]) -> int | None:
        """Write to the file; None if that is not possible any more."""
        if self._file is None:
            return None
        try:
            written = write(self._file)
            self._written.bytes += written
            return written
        except OSError as error:
            self._stop(self._names[-1] if self._names else str(self._path), error)
            return None

    def _stop(self, name: str, error: OSError) -> None:
        """Write no more, and say it."""
        self._file, written = None, self._written
        if written.error is not None:
            return
        written.error = error
        what = "standard output" if name == "-" else safe(name)
        if isinstance(error, BrokenPipeError):
            written.is_unread = True
            self._note(f"{what}: nobody reads it any more; the capture ends")
            return
        why = error.strerror or str(error)
        self._note(
            f"{what}: {why[:1].lower() + why[1:]}, after {counted(written.packets, 'packet')}; "
            "no more is written, and packets are judged as before"
        )


class _Written:
    """Counts of what was written so far."""

    def __init__(self) -> None:
        self.files = 0
        self.packets = 0
        self.bytes = 0
        #: Packets for which a pipe had no room.
        self.lost = 0
        self.error: OSError | None = None
        #: True if the reader of a pipe has gone.
        self.is_unread = False


class _OpenFile:
    """One file that is written. Methods raise OSError and return the bytes written; 0 if there is no room.

    Its counters begin with the file.
    """

    def __init__(self, output: Output, interfaces: Interfaces, time_ns: int) -> None:
        self.output = output
        self._interfaces = interfaces
        self._writer = PcapngWriter(interfaces.origins)
        self._since_ns = time_ns
        self._received: Counter[int] = Counter()
        #: Packets that the file lacks. Which interface they came from is unknown: the first one has their number.
        self._lost = 0
        #: Blocks without packets that are written before the next packets.
        self._due = b""
        self._is_loss_due = False

    def begin(self, secrets: bytes) -> int:
        """Write the header, and the interfaces and secrets so far."""
        self._due = self._writer.begin() + self._writer.describe(self._interfaces.numbers)
        return self._put(secrets)

    def packets(self, batch: PacketBatch, numbers: Int64s, secrets: bytes) -> int:
        self._due += self._writer.describe(np.unique(numbers).tolist())
        written = self._put(secrets, self._writer.packets(batch, numbers))
        if written:
            self._received.update(dict(enumerate(np.bincount(numbers).tolist())))
        else:
            self._lost += len(numbers)
            self._is_loss_due = True
        return written

    def lost(self, packets: int) -> int:
        """Say at this place of the file that it lacks packets."""
        self._lost += packets
        self._is_loss_due = True
        return self._put(b"")

    def close(self) -> int:
        """Write the counters, and end the file."""
        self._is_loss_due = True
        written = self._put(b"")
        self.output.close()
        return written

    def _put(self, secrets: bytes, packets: bytes = b"") -> int:
        if secrets:
            self._due += self._writer.secrets(secrets)
        counters = b""
        if self._is_loss_due and self._writer.has_interfaces:
            counters = self._writer.statistics({0: self._lost}, self._received, self._since_ns)
        blocks = self._due + counters + packets
        if not self.output.write(blocks):
            return 0
        self._due, self._is_loss_due = b"", self._is_loss_due and not counters
        return len(blocks)
