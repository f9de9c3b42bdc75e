"""Output to a reader that may stop reading: a thread writes, and its caller never waits."""

from __future__ import annotations

import io
import os
import select
from collections import Counter, deque
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from typing import Final, TextIO

from kshark.output.sink import Sink
from kshark.output.spans import WARN, Line
from kshark.units import counted

#: Bytes that wait for the reader.
QUEUE_BYTES: Final = 8 << 20
#: Bytes of one write: as many as Linux holds for a pipe.
_PIECE: Final = 1 << 16
#: A pipe that cannot be written without waiting is tried again after this time at the latest.
_RETRY_MS: Final = 100

#: Lines that were left out, by kind.
LeftOut = Mapping[str, int]
#: `bytes` in a class that has a method of this name.
_Bytes = bytes


class QueuedSink(Sink):
    """A Sink whose caller never waits for the reader: a thread writes what is in a queue of at most `most` bytes.

    What finds no room is left out, and its lines are counted by `kind`. As soon as half of the queue is free, `note`
    writes in their place how many these were. Raises BrokenPipeError if the reader has gone. The thread begins with
    the first write. `waits`: without a thread, since waiting costs nothing; so is a stream without a file descriptor.
    """

    def __init__(
        self,
        stream: TextIO,
        note: Callable[[Sink, LeftOut], None] | None = None,
        most: int = QUEUE_BYTES,
        *,
        waits: bool = False,
    ) -> None:
        super().__init__(stream)
        #: The kind of the lines that are written next.
        self.kind = "line"
        self.left_out: Counter[str] = Counter()
        self._note = note_left_out if note is None else note
        self._most = most
        self._is_bounded = True
        descriptor = None if waits else _descriptor(stream)
        self._writer = None if descriptor is None else _Writer(stream, descriptor)

    def bytes(self, data: memoryview) -> None:
        if self._writer is None:
            super().bytes(data)
        else:
            self._put(self._writer, bytes(data))

    def text(self, text: str) -> None:
        if self._writer is None:
            super().text(text)
        elif text:
            encoding, errors = self._stream.encoding or "utf-8", self._stream.errors or "strict"
            self._put(self._writer, text.encode(encoding, errors))

    def settle(self) -> None:
        """Write what waits to be said about lines that were left out, if there is room. Raises BrokenPipeError if the
        reader has gone, also if nothing is written.
        """
        writer = self._writer
        if writer is None:
            return
        writer.need_reader()
        if self.left_out and (not self._is_bounded or writer.waiting <= self._most // 2):
            left_out, self.left_out = self.left_out, Counter()
            kind, self.kind = self.kind, "line"
            self._note(self, left_out)
            self.kind = kind

    def end(self) -> None:
        """Take everything from now on, whether there is room or not: the last lines are short."""
        self._is_bounded = False
        self.settle()

    def close(self, seconds: float) -> int:
        """Wait until everything is written, but no longer than `seconds` for a reader that takes nothing. Return the
        number of lines that were not written.
        """
        self.end()
        return 0 if self._writer is None else self._writer.close(seconds)

    def _put(self, writer: _Writer, data: _Bytes) -> None:
        if self.left_out:
            self.settle()
        waiting = writer.waiting
        if self._is_bounded and waiting and (self.left_out or waiting + len(data) > self._most):
            writer.need_reader()
            self.left_out[self.kind] += data.count(b"\n")
        else:
            writer.put(data)


def note_left_out(sink: Sink, left_out: LeftOut) -> None:
    """Write a line about lines that were left out."""
    sink.lines([left_out_line(left_out)])


def left_out_line(left_out: LeftOut) -> Line:
    """Return `… 1,204 lines are missing here, since nobody read them: 1,190 of messages, 14 of findings`."""
    kinds = ", ".join(f"{count:,} of {kind}s" for kind, count in left_out.items() if kind != "line")
    text = f"… {counted(sum(left_out.values()), 'line')} left out here, because nobody read the output"
    return [(f"{text}: {kinds}" if kinds else text, WARN)]


class _Writer:
    """A thread that writes to a descriptor in the order of `put`. `waiting`: the bytes that are not written."""

    def __init__(self, stream: TextIO, descriptor: int) -> None:
        self.waiting = 0
        self._stream = stream  # as long as the thread writes, nothing else gets the number of its descriptor
        self._descriptor = descriptor
        self._queue: deque[bytes] = deque()
        self._changed = Condition()
        self._error: OSError | None = None
        self._thread: Thread | None = None
        #: The number of writes: it shows whether the reader takes something.
        self._writes = 0
        self._is_ending = False

    def put(self, data: bytes) -> None:
        with self._changed:
            self._need_no_error()
            self._queue.append(data)
            self.waiting += len(data)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="output", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def need_reader(self) -> None:
        """Raise the error of the last write, or BrokenPipeError if the reader of a pipe has gone."""
        with self._changed:
            self._need_no_error()
        asked = select.poll()
        asked.register(self._descriptor, 0)
        if any(event & select.POLLERR for _, event in asked.poll(0)):
            raise BrokenPipeError

    def close(self, seconds: float) -> int:
        """Wait until all is written, or until nothing was written for that time; return the lines that are left."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            while self._queue and self._error is None:
                writes = self._writes
                if not self._changed.wait(seconds) and writes == self._writes:
                    break
            self._need_no_error()
            return sum(data.count(b"\n") for data in self._queue)

    def _need_no_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (data := self._next()) is not None:
            try:
                self._write(data)
            except OSError as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _next(self) -> bytes | None:
        """Wait for the next data; None at the end."""
        with self._changed:
            while not self._queue and not self._is_ending:
                self._changed.wait()
            return self._queue[0] if self._queue else None

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = os.write(self._descriptor, rest[:_PIECE])
            except BlockingIOError:  # another process has made the terminal or pipe non-blocking
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll(_RETRY_MS)
                continue
            rest = rest[written:]
            with self._changed:
                if not rest:
                    self._queue.popleft()
                self.waiting -= written
                self._writes += 1
                self._changed.notify_all()


def _descriptor(stream: TextIO) -> int | None:
    """Return the file descriptor of a stream, with nothing left in its buffers; None if it has none."""
    try:
        stream.flush()
        return stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return None
