"""A capture file that grows, read as by `tail -F`, with the files that are written after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from io import RawIOBase
from pathlib import Path
from typing import Any, Final

from kshark.capture.compressed import COMPRESSIONS
from kshark.capture.files import open_file
from kshark.capture.in_order import TimeOrder
from kshark.capture.kinds import kind_of
from kshark.capture.paths import printable
from kshark.capture.pcap import PcapReader
from kshark.capture.pcapng import PcapngReader
from kshark.capture.resume_point import START, ResumePoint
from kshark.capture.series import Series, missed
from kshark.capture.source import HEAD, packet_reader_for
from kshark.capture.stop import Stop
from kshark.errors import Damaged, NoCapture, UnreadableInput
from kshark.limits import BATCH_BYTES
from kshark.model import Lost, PacketBatch, Weird
from kshark.units import counted

#: The file is asked for more bytes so often, its folder for new files after so many times, and packets wait no longer
#: for earlier ones than after that.
_POLL_S: Final = 0.05
_POLLS: Final = 5


class Growing:
    """The bytes of one capture that grows, fed in pieces of any size: packets and weirds out.

    A block that is not whole waits for its rest: only `close` reports that it was cut. `begin`: the position after the
    file before this one, which numbers and times continue. Raises NoCapture if the bytes are no pcap or pcapng.
    """

    def __init__(self, name: str, begin: ResumePoint[Any] = START) -> None:
        self.name = name
        self._head = b""
        self._begin = begin._replace(facts=None)
        self._reader: PcapReader | PcapngReader | None = None

    @property
    def resume_point(self) -> ResumePoint[Any]:
        """The position after the whole packets so far."""
        return self._begin if self._reader is None else self._reader.resume_point

    def feed(self, data: bytes) -> Iterator[PacketBatch | Weird]:
        if self._reader is None:
            self._head += data
            if len(self._head) < HEAD:
                return
            data, self._head = self._head, b""
            self._reader = packet_reader_for(data, self._begin)
            if self._reader is None:
                raise NoCapture(f"{self.name}: no capture (pcap or pcapng), but {_kind_of(data, self.name)}")
        yield from self._reader.feed(data)
        while rest := self._reader.rest:  # another capture begins in the same file
            begin = self._reader.resume_point._replace(facts=None)
            yield from self._reader.close()
            reader = packet_reader_for(rest, begin)
            assert reader is not None
            self._reader = reader
            yield from reader.feed(rest)

    def close(self) -> Iterator[PacketBatch | Weird]:
        """Yield what is left; a capture that ends inside its header is cut."""
        try:
            yield from self._reader.close() if self._reader is not None else ()
        except Damaged as error:
            self._head = b"?"
            detail = str(error)
        else:
            detail = f"the file ends after {len(self._head)} bytes"
        if self._head:
            _, number, time_ns, _ = self.resume_point
            yield Weird("CAPTURE_CUT", "capture", number, time_ns, f"{self.name}: {detail}")


def _kind_of(data: bytes, name: str) -> str:
    for magic, (called, _) in COMPRESSIONS.items():
        if data.startswith(magic):
            return f"{called}, which cannot be followed"
    return kind_of(data, name)


class Followed:
    """A file that grows, and those after it (kshark.capture.series), as one capture: iterate once, for PacketBatches,
    numbered from 1 in order of time, Weirds, and None when nothing was written for a while.

    A file that does not exist yet is waited for; one that is replaced, or cut and begun again, is read from its
    beginning. `once`: end where the last file ends now. `note` gets sentences about the files. `stop` ends it, after
    what was written so far, or two seconds. Raises UnreadableInput for a file that is no capture.
    """

    def __init__(self, path: str | Path, *, once: bool = False, note: Callable[[str], None] = lambda _: None) -> None:
        self.name = printable(path)
        self.interfaces = (self.name,)
        #: As of LiveCapture: the file says itself, in weirds, what its capture lost.
        self.dropped = 0
        self.losses: tuple[Lost, ...] = ()
        self.down: tuple[str, ...] = ()
        #: An error that ended the reading after packets were judged.
        self.fault, self.has_failed = "", False
        self._once = once
        self._note = note
        self._series = Series(path)
        self._stop = Stop()
        self._file: RawIOBase | None = None
        self._path = Path(path)
        self._growing: Growing | None = None
        self._bytes_read = 0
        self._is_left_out = False
        #: Since when bytes of the file wait; None: all were read at the last look.
        self._waiting_since_ns: int | None = None
        if self._path.is_dir():
            raise UnreadableInput(f"{self.name}: a folder cannot be followed; name the file that is written there")
        if once and self._series.first() is None:
            raise UnreadableInput(f"{self.name}: no such file")

    def __iter__(self) -> Iterator[PacketBatch | Weird | None]:
        in_order = TimeOrder()
        try:
            for item in self._items():
                if item is not None:
                    yield from in_order.feed(item)
                    continue
                yield from in_order.flush() if not self._once else ()
                yield None
            yield from in_order.flush()
            yield from self._growing.close() if self._growing is not None else ()
        except OSError as error:
            fault = f"{self._path}: {(error.strerror or str(error)).lower()}"
            if self._growing is None or not self._growing.resume_point.packets:
                raise UnreadableInput(fault) from None
            self.fault, self.has_failed = fault, True
            yield from in_order.flush()
        finally:
            self.close()

    @property
    def waiting(self) -> int:
        """Return the bytes of the current file that wait to be read."""
        return max(0, self._written() - self._bytes_read)

    @property
    def delay_ns(self) -> int:
        """Return how long bytes have waited at most; 0 if none waits, and with `once`."""
        if self._once or not self.waiting:
            self._waiting_since_ns = None
            return 0
        now_ns = time.monotonic_ns()
        if self._waiting_since_ns is None:
            self._waiting_since_ns = now_ns
        return now_ns - self._waiting_since_ns

    def rest(self) -> int:
        """Return the number of packets that are left out at the end: unknown, since they are not read."""
        return 0

    def stop(self) -> None:
        """End the iteration; from any thread or signal handler."""
        self._stop.set()

    def close(self) -> None:
        """Close the file; iterating does this at its end."""
        if self._file is not None:
            self._file.close()

    def _items(self) -> Iterator[PacketBatch | Weird | None]:
        if not (yield from self._opened_first()):
            return
        polls = 0
        while True:
            yield from self._rest()
            if self._stop.is_set:
                return
            polls += 1
            is_due = self._once or polls % _POLLS == 0
            path = self._series.next(self._bytes_read) if is_due else None
            if path is not None:
                yield from self._rest()  # written before the next file was begun
                yield from self._continued(path)
            elif self._once:
                return
            else:
                if is_due:
                    yield None
                self._stop.wait(_POLL_S)

    def _opened_first(self) -> Generator[None, None, bool]:
        """Open the first file, and return True; wait for it. Return False if the capture was ended instead."""
        has_waited = False
        while (path := self._series.first()) is None and not self._stop.is_set:
            if not has_waited:
                self._note(f"{self.name} does not exist yet: kshark waits for it")
                has_waited = True
            yield None
            self._stop.wait(_POLL_S * _POLLS)
        if path is not None:
            self._open(path, Growing(printable(path)))
        return path is not None

    def _continued(self, path: Path) -> Iterator[PacketBatch | Weird]:
        """Continue with the next file: the one before it is whole."""
        assert self._growing is not None
        if path == self._path:
            self._note(f"{printable(path)} was replaced or cut: it is read from its beginning")
        if files := missed(self._path.name, path.name):
            self._note(f"{counted(files, 'file')} before {printable(path)} cannot be read: deleted too early")
        yield from self._growing.close()
        self.close()
        self._open(path, Growing(printable(path), self._growing.resume_point))

    def _open(self, path: Path, growing: Growing) -> None:
        self._file = open_file(path)
        self._path, self._growing, self._bytes_read, self._is_left_out = path, growing, 0, False

    def _rest(self) -> Iterator[PacketBatch | Weird]:
        """Read what was written of the file so far. A later file that is no capture is left out."""
        assert self._growing is not None
        assert self._file is not None
        written = self._written()
        while data := self._file.read(min(BATCH_BYTES, max(0, written - self._bytes_read))):
            self._bytes_read += len(data)
            try:
                yield from self._growing.feed(data) if not self._is_left_out else ()
            except NoCapture as error:
                if not self._growing.resume_point.packets:
                    raise
                self._note(f"{error}; it is left out")
                self._is_left_out = True
            if self._stop.is_over:
                return
            written = written if self._stop.is_set else self._written()
        self._waiting_since_ns = None

    def _written(self) -> int:
        """Return the size of the file."""
        return 0 if self._file is None or self._file.closed else os.fstat(self._file.fileno()).st_size
