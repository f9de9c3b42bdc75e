"""A reader that stops reading costs lines, and never time: they are counted, and said in their place."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kshark.output.queued import LeftOut, QueuedSink
from kshark.output.sink import Sink
from tests.patience import PATIENCE_S

#: More than a pipe holds without a reader.
LARGE = 4 << 20


class Piped(NamedTuple):
    """A sink that writes to a pipe, and the pipe's other end."""

    sink: QueuedSink
    read: int

    def lines(self, until: str) -> list[str]:
        """Reads up to a line that begins so."""
        data, begin = bytearray(), until.encode()
        while not ((data.startswith(begin) or b"\n" + begin in data[-1_000:]) and data.endswith(b"\n")):
            data += os.read(self.read, 1 << 16)
        return data.decode().splitlines()

    def settled(self) -> None:
        """Waits until the reader has taken everything, and what was left out is said."""
        until = time.monotonic() + PATIENCE_S
        while self.sink.left_out:
            self.sink.settle()
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture
def piped() -> Iterator[Callable[..., Piped]]:
    ends: list[int] = []

    def make(**options: object) -> Piped:
        read, write = os.pipe()
        ends.append(read)
        return Piped(QueuedSink(os.fdopen(write, "w", encoding="utf-8"), **options), read)  # type: ignore[arg-type]

    yield make
    for end in ends:
        os.close(end)


def large(kind: str = "x") -> str:
    return f"{kind * (LARGE - 1)}\n"


def test_everything_comes_in_its_order(piped: Callable[..., Piped]) -> None:
    pipe = piped()
    pipe.sink.text("one\n")
    pipe.sink.json([{"two": 2}])
    pipe.sink.lines([[("thr", ""), ("ëe", "code")]])
    pipe.sink.text("end\n")
    assert pipe.lines("end") == ["one", '{"two":2}', "thrëe", "end"]
    assert pipe.sink.close(PATIENCE_S) == 0


def test_nobody_waits_for_a_reader_that_does_not_read(piped: Callable[..., Piped]) -> None:
    pipe = piped(most=1_000)
    pipe.sink.text(large())
    pipe.sink.kind = "message"
    pipe.sink.text("lost\n" * 3)
    pipe.sink.kind = "finding"
    pipe.sink.json([{"lost": 1}])
    assert pipe.sink.left_out == {"message": 3, "finding": 1}
    pipe.lines("xxx")
    pipe.settled()
    pipe.sink.text("after\n")
    assert pipe.lines("after") == [
        "… 4 lines left out here, because nobody read the output: 3 of messages, 1 of findings",
        "after",
    ]
    assert pipe.sink.left_out == {}


def test_the_note_stands_before_the_next_line_too(piped: Callable[..., Piped]) -> None:
    def note(sink: Sink, left_out: LeftOut) -> None:
        sink.json([{"status": {"lines_left_out": sum(left_out.values())}}])

    pipe = piped(most=1_000, note=note)
    pipe.sink.text(large())
    pipe.sink.text("lost\n")
    pipe.lines("xxx")
    while pipe.sink._writer is not None and pipe.sink._writer.waiting:
        time.sleep(0.001)
    pipe.sink.text("after\n")
    assert pipe.lines("after") == ['{"status":{"lines_left_out":1}}', "after"]


def test_memory_is_bounded(piped: Callable[..., Piped]) -> None:
    pipe = piped(most=100_000)
    for _ in range(4_000):
        pipe.sink.text("x" * 9_999 + "\n")
    assert pipe.sink._writer is not None
    assert pipe.sink._writer.waiting <= 100_000
    assert sum(pipe.sink.left_out.values()) > 500


def test_at_the_end_a_reader_that_takes_nothing_gets_no_more_time(piped: Callable[..., Piped]) -> None:
    pipe = piped(most=1_000)
    pipe.sink.text(large())
    pipe.sink.text("lost\n")
    pipe.sink.end()
    pipe.sink.text("verdict\n")
    began = time.monotonic()
    assert pipe.sink.close(0.05) == 3  # the long line, the note and the verdict
    assert time.monotonic() - began < PATIENCE_S


def test_a_slow_reader_gets_everything(piped: Callable[..., Piped]) -> None:
    """As long as it takes something."""
    pipe = piped(most=1_000)
    pipe.sink.text(large())
    pipe.sink.end()
    pipe.sink.text("verdict\n")
    assert pipe.lines("verdict")[-1] == "verdict"
    assert pipe.sink.close(PATIENCE_S) == 0


def test_a_reader_that_leaves_is_noticed_without_a_line(piped: Callable[..., Piped]) -> None:
    read, write = os.pipe()
    sink = QueuedSink(os.fdopen(write, "w"))
    sink.settle()
    os.close(read)
    with pytest.raises(BrokenPipeError):
        sink.settle()


def test_a_reader_that_leaves_while_it_is_waited_for() -> None:
    read, write = os.pipe()
    sink = QueuedSink(os.fdopen(write, "w"), most=1_000)
    sink.text(large())
    os.close(read)
    with pytest.raises(BrokenPipeError):
        sink.close(PATIENCE_S)


def test_a_pipe_that_another_process_made_non_blocking(piped: Callable[..., Piped]) -> None:
    pipe = piped(most=2 * LARGE)
    os.set_blocking(pipe.sink._stream.fileno(), False)
    pipe.sink.text(large())
    pipe.sink.text("end\n")
    assert pipe.lines("end") == [large().rstrip("\n"), "end"]


def test_a_stream_in_memory_is_written_at_once() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    sink = QueuedSink(stream)
    sink.text("one\n")
    sink.settle()
    assert sink.close(0) == 0
    assert isinstance(stream.buffer, io.BytesIO)
    assert stream.buffer.getvalue() == b"one\n"
