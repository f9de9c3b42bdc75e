"""Open a capture: a file, a pipe or bytes, compressed or not, pcap or pcapng, recognised by its first bytes."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from kshark.capture.compressed import COMPRESSIONS, Decompressed, Input
from kshark.capture.files import open_file, unreadable
from kshark.capture.in_order import TimeOrder
from kshark.capture.paths import STANDARD_INPUT
from kshark.capture.pcap import FORMATS, PcapReader
from kshark.capture.pcapng import MAGIC, PcapngReader
from kshark.capture.resume_point import START, ResumePoint
from kshark.capture.stop import Stop
from kshark.errors import NoCapture, UnreadableInput
from kshark.limits import BATCH_BYTES, BATCH_PACKETS, SORTED_NS
from kshark.model import PacketBatch, Weird

#: Bytes needed to recognise a format.
HEAD: Final = 4
#: Bytes of the first read: few, since some captures are opened only for their first time.
HEAD_READ: Final = 1 << 16

#: First bytes of files that are not captures, and their kind.
FOREIGN: Final = {
    b"BZh": "a bzip2 file; decompress it first",
    b"\xfd7zX": "an xz file; decompress it first",
    b"\x04\x22\x4d\x18": "an lz4 file; decompress it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"snoop\0": "a snoop capture; convert it first (editcap -F pcapng)",
    b"GMBU": "a Network Monitor capture; convert it first (editcap -F pcapng)",
    b"PAR1": "a Parquet file",
    b"\x7fELF": "a program",
}


class Plain:
    """The bytes of a file object, at most `most` of them (None: all).

    `regular`: not a pipe or device, so reading never waits and the file can be opened again. `stop` ends a pipe.
    """

    def __init__(self, file: BinaryIO | io.RawIOBase, most: int | None = None, stop: Stop | None = None) -> None:
        self.fault: tuple[str, str] | None = None
        self.bytes_read = 0
        self._most = sys.maxsize if most is None else most
        self._file = file
        self._read = getattr(file, "read1", file.read)
        self._pipe = _pipe(file)
        self.regular = self._pipe is None
        self._stop = None if self.regular else stop

    def read(self, size: int) -> bytes:
        if self._stop is not None and self._stop.is_earlier(self._file):
            return b""
        size = min(size, self._most - self.bytes_read)
        data: bytes | None = self._read(size)
        while data is None and self._pipe is not None:  # the pipe is non-blocking
            self._pipe.poll()
            data = self._read(size)
        if data and self._pipe is not None:
            data = self._all_there_is(self._pipe, data, size)
        self.bytes_read += len(data or b"")
        return data or b""

    def is_idle(self, wait_ms: int) -> bool:
        """True if it is a pipe that gets no bytes for that time."""
        return self._pipe is not None and not self._pipe.poll(wait_ms)

    def close(self) -> None:
        self._file.close()

    def _all_there_is(self, pipe: select.poll, data: bytes, size: int) -> bytes:
        """Read the further bytes that a pipe has without waiting; it gives 64 KiB at a time."""
        pieces, left = [data], size - len(data)
        while left > 0 and pipe.poll(0):
            piece = self._read(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces) if len(pieces) > 1 else data


class Capture:
    """One opened capture, read once: iterating yields PacketBatches in order of time, numbered from 1, and Weirds.

    Raises UnreadableInput if it is not a capture. `read_bytes` is the size of a read, and so of a batch; `most`: the
    number of the file's bytes that belong to the capture; `stop` ends a pipe.
    """

    def __init__(
        self,
        file: BinaryIO | io.RawIOBase,
        name: str = STANDARD_INPUT,
        most: int | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.name = name
        self.read_bytes = BATCH_BYTES
        plain = Plain(file, most, stop)
        self.regular = plain.regular
        self._input: Input = plain
        try:
            self._head, self._reader = self._open()
        except BaseException:
            self._input.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Bytes of the file read so far, for progress."""
        return self._input.bytes_read

    def __iter__(self) -> Iterator[PacketBatch | Weird]:
        number, time_ns, data, size = 0, 0, self._head, HEAD_READ
        in_order = TimeOrder()
        try:
            while data:
                before = number
                for item in self._reader.feed(data):
                    if isinstance(item, PacketBatch):
                        number, time_ns = int(item.number[-1]), int(item.time_ns[-1])
                    yield from in_order.feed(item)
                size = min(2 * size, self.read_bytes)  # small reads first, so that the first line comes early
                size = min(size, max(HEAD_READ, len(data) * BATCH_PACKETS // max(1, number - before)))
                if in_order.holds and self._input.is_idle(SORTED_NS // 1_000_000):
                    yield from in_order.flush()
                data = self._input.read(size)
            yield from in_order.flush()
            if self._input.fault is not None:
                code, detail = self._input.fault
                yield Weird(code, "capture", number, time_ns, detail)
            yield from self._reader.close()
        except (OSError, UnreadableInput) as error:
            raise unreadable(self.name, error) from None
        finally:
            self.close()

    def close(self) -> None:
        self._input.close()

    def _open(self) -> tuple[bytes, PcapReader | PcapngReader]:
        try:
            head = _head(self._input)
            packed = ""
            for magic, (called, make) in COMPRESSIONS.items():
                if head.startswith(magic):
                    self._input = Decompressed(self._input, head, make)
                    head = _head(self._input)
                    packed = f"{called} of "
                    break
        except (OSError, UnreadableInput) as error:
            raise unreadable(self.name, error) from None
        reader = reader_for(head)
        if reader is not None:
            return head, reader
        if self._input.fault is not None and not head:
            raise NoCapture(f"{self.name}: nothing can be decompressed: {self._input.fault[1]}")
        raise NoCapture(f"{self.name}: no capture (pcap or pcapng), but {packed}{_looks_like(head)}")


def open_capture(path: str | Path, most: int | None = None, stop: Stop | None = None) -> Capture:
    """Open a capture by its path; `-` is standard input. `most`: only the first bytes of a growing file. Raises
    UnreadableInput.
    """
    return Capture(
        open(0, "rb", buffering=0, closefd=False) if str(path) == STANDARD_INPUT else open_file(path),
        str(path),
        most,
        stop,
    )


def read_bytes(data: bytes, name: str = STANDARD_INPUT) -> Capture:
    """Open a capture that is already in memory."""
    return Capture(io.BytesIO(data), name)


def reader_for(head: bytes, begin: ResumePoint[Any] = START) -> PcapReader | PcapngReader | None:
    """Return the reader of a capture with these first bytes; None if they are not a capture's."""
    if head[:HEAD] in FORMATS:
        return PcapReader(begin)
    return PcapngReader(begin) if head[:HEAD] == MAGIC else None


def _head(source: Input) -> bytes:
    head = source.read(HEAD_READ)
    while len(head) < HEAD and (more := source.read(HEAD_READ)):
        head += more
    return head


def _pipe(file: BinaryIO | io.RawIOBase) -> select.poll | None:
    """Return a selector that shows if a pipe has bytes; None for an input that never waits."""
    try:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
    except (OSError, AttributeError):  # no file of the system: BytesIO
        return None
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return waiting


def _looks_like(head: bytes) -> str:
    if not head:
        return "an empty file"
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            return what
    try:
        text = head[:512].decode("utf-8", errors="strict" if len(head) <= 512 else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if all(letter.isprintable() or letter.isspace() for letter in text):
        return "text"
    return f"bytes that begin with {head[:HEAD].hex(' ')}"
