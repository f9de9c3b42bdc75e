"""Open a capture: a file, a pipe or bytes, compressed or not, pcap or pcapng, recognised by its first bytes."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from kshark.capture.compressed import COMPRESSIONS, Decompressed, Input
from kshark.capture.destroyed import destroyed
from kshark.capture.files import open_file, unreadable
from kshark.capture.formats import FORMATS, MAGIC, begins_request_log
from kshark.capture.in_order import TimeOrder
from kshark.capture.origins import Origins
from kshark.capture.paths import STANDARD_INPUT
from kshark.capture.pcap import PcapReader
from kshark.capture.pcapng import PcapngReader
from kshark.capture.resume_point import START, ResumePoint
from kshark.capture.snoop import SNOOP, Snoop
from kshark.capture.stop import Stop
from kshark.capture.text import text_line
from kshark.errors import Destroyed, Empty, NoCapture, NoPackets, UnreadableInput
from kshark.limits import BATCH_BYTES, BATCH_PACKETS, SORTED_NS
from kshark.model import PacketBatch, Weird

if TYPE_CHECKING:
    from kshark.capture.request_log import RequestLogReader

Reader: TypeAlias = "PcapReader | PcapngReader | RequestLogReader"
#: Bytes needed to recognise a format.
HEAD: Final = 4
#: Bytes of the first read: few, since some captures are opened only for their first time.
HEAD_READ: Final = 1 << 16


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
    number of the file's bytes that belong to the capture; `stop` ends a pipe; `origins`: batches have the origins of
    packets.
    """

    def __init__(
        self,
        file: BinaryIO | io.RawIOBase,
        name: str = STANDARD_INPUT,
        most: int | None = None,
        stop: Stop | None = None,
        origins: Origins | None = None,
    ) -> None:
        self.name = name
        self._origins = origins
        self.read_bytes = BATCH_BYTES
        plain = Plain(file, most, stop)
        self.regular = plain.regular
        self._input: Input = plain
        #: Bytes before the capture that are no part of it.
        self._before = b""
        #: How the capture was destroyed, so that nothing in it can be trusted; None if it was not.
        self._how_destroyed: str | None = None
        try:
            self._head, self._reader = self._open()
        except BaseException:
            self._input.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Bytes of the file read so far, for progress."""
        return self._input.bytes_read

    @property
    def is_log(self) -> bool:
        """True if it is a request log."""
        return not isinstance(self._reader, (PcapReader, PcapngReader))

    @property
    def head(self) -> bytes:
        """The first bytes of the capture, decompressed."""
        return self._head

    def __iter__(self) -> Iterator[PacketBatch | Weird]:
        number, time_ns, data, size = 0, 0, self._head, HEAD_READ
        in_order = TimeOrder()
        seen, unread = data, 0
        try:
            while data:
                before = number
                unread += len(data) if self._how_destroyed is not None else 0
                for item in self._feed(data) if self._how_destroyed is None else ():
                    if isinstance(item, PacketBatch):
                        number, time_ns = int(item.number[-1]), int(item.time_ns[-1])
                    yield from in_order.feed(item)
                size = min(2 * size, self.read_bytes)  # small reads first, so that the first line comes early
                size = min(size, max(HEAD_READ, len(data) * BATCH_PACKETS // max(1, number - before)))
                if in_order.holds and self._input.is_idle(SORTED_NS // 1_000_000):
                    yield from in_order.flush()
                data = self._input.read(size)
                if data and len(seen) < HEAD_READ:  # a pipe shows only later that a terminal destroyed the capture
                    seen += data
                    self._how_destroyed = destroyed(seen)
            yield from in_order.flush()
            if self._input.fault is not None:
                code, detail = self._input.fault
                yield Weird(code, "capture", number, time_ns, detail)
            if self._how_destroyed is None:
                yield from self._reader.close()
            else:
                yield Weird("CAPTURE_DESTROYED", "capture", number, time_ns, self._how_destroyed, size=unread)
        except (OSError, UnreadableInput) as error:
            raise unreadable(self.name, error) from None
        finally:
            self.close()

    def close(self) -> None:
        self._input.close()

    def _feed(self, data: bytes) -> Iterator[PacketBatch | Weird]:
        """Read more bytes. Where another capture begins (cat a.pcap b.pcap), the next reader continues."""
        if self._before:
            detail = f"the capture begins after {text_line(self._before)}"
            yield Weird("FOREIGN_BYTES", "capture", 0, 0, detail, size=len(self._before))
            self._before = b""
        yield from self._reader.feed(data)
        while self._reader.rest:
            rest, begin = self._reader.rest, self._reader.resume_point
            yield from self._reader.close()
            reader = reader_for(rest, begin._replace(facts=None), self._origins)
            assert reader is not None
            self._reader = reader
            yield from reader.feed(rest)

    def _open(self) -> tuple[bytes, Reader]:
        try:
            head, packed = _head(self._input), ""
            for magic, (called, make) in COMPRESSIONS.items():
                if head.startswith(magic):
                    self._input = Decompressed(self._input, head, make)
                    head, packed = _head(self._input), f"{called} of "
                    break
            if head.startswith(SNOOP):
                self._input = Snoop(self._input, head)
                head = _head(self._input)
        except (OSError, UnreadableInput) as error:
            raise unreadable(self.name, error) from None
        self._how_destroyed = destroyed(head)
        try:
            reader = reader_for(head, origins=self._origins)
        except NoPackets as error:
            raise NoPackets(f"{self.name}: {error}") from None
        if reader is not None:
            return head, reader
        if self._how_destroyed is not None:
            raise Destroyed(f"{self.name}: {packed}{self._how_destroyed}")
        from kshark.capture.kinds import archive_of, capture_inside, kind_of  # only needed for what is no capture

        archive = archive_of(head)
        at = capture_inside(head) if archive is None else None
        reader = None if at is None else reader_for(head[at:], origins=self._origins)
        if reader is not None:
            self._before, head = head[:at], head[at:]
            return head, reader
        if self._input.fault is not None and not head:
            raise NoCapture(f"{self.name}: nothing can be decompressed: {self._input.fault[1]}")
        fault = NoCapture if head else Empty
        raise fault(f"{self.name}: no capture (pcap or pcapng), but {packed}{archive or kind_of(head, self.name)}")


def open_capture(
    path: str | Path, most: int | None = None, stop: Stop | None = None, origins: Origins | None = None
) -> Capture:
    """Open a capture by its path; `-` is standard input. `most`: only the first bytes of a growing file. `origins`:
    batches have the origins of packets. Raises UnreadableInput.
    """
    return Capture(
        open(0, "rb", buffering=0, closefd=False) if str(path) == STANDARD_INPUT else open_file(path),
        str(path),
        most,
        stop,
        origins,
    )


def read_bytes(data: bytes, name: str = STANDARD_INPUT) -> Capture:
    """Open a capture that is already in memory."""
    return Capture(io.BytesIO(data), name)


def packet_reader_for(
    head: bytes, begin: ResumePoint[Any] = START, origins: Origins | None = None
) -> PcapReader | PcapngReader | None:
    """Return the reader of a capture of packets with these first bytes; None if they are not those of one."""
    if head[:HEAD] in FORMATS:
        return PcapReader(begin, origins)
    return PcapngReader(begin, origins) if head[:HEAD] == MAGIC else None


def reader_for(head: bytes, begin: ResumePoint[Any] = START, origins: Origins | None = None) -> Reader | None:
    """Return the reader of a capture with these first bytes; None if they are not a capture's.

    Raises NoPackets if it is a request log and the packets are to be copied (`origins`).
    """
    reader = packet_reader_for(head, begin, origins)
    if reader is not None or not begins_request_log(head):
        return reader
    if origins is not None:
        raise NoPackets("a request log has no packets to copy; capture the traffic to get them")
    from kshark.capture.request_log import RequestLogReader  # 6 ms, with kshark.requests

    return RequestLogReader(begin)


def _head(source: Input) -> bytes:
    """Return the first bytes: as many as show that they are a capture's, which a pipe may deliver slowly."""
    head = source.read(HEAD_READ)
    while (len(head) < HEAD or not _is_known(head)) and len(head) < HEAD_READ and (more := source.read(HEAD_READ)):
        head += more
    return head


def _is_known(head: bytes) -> bool:
    return reader_for(head) is not None or head.startswith((SNOOP, *COMPRESSIONS))


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
