"""`read --jobs`: messages decoded and printed by several processes, with exactly the output of one."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Callable, Generator
from functools import partial
from pickle import PickleBuffer
from typing import TextIO

from kshark.cli.apis import registry
from kshark.cli.shown import display_filter
from kshark.cli.source import Source
from kshark.model import Event, Message
from kshark.names import TopicNames
from kshark.output.jsonlines import json_lines
from kshark.output.lines import MessageLines
from kshark.output.sink import Sink
from kshark.parallel import Lookahead, Measure, Scheduler, Worker, WorkerPool
from kshark.pipeline import Back, Options

#: From arguments, stream and text lines to a function that, given the topics' names, returns what prints messages.
Printing = Callable[
    [Namespace, Sink, MessageLines | None], Callable[[TopicNames | None], Callable[[list[Message]], None]]
]


class Captured(io.TextIOWrapper):
    """A stream in memory that behaves like another one, so that what is written to it looks the same."""

    def __init__(self, encoding: str | None, errors: str | None, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors=errors, write_through=True, newline="")
        self._terminal = terminal

    @classmethod
    def like(cls, stream: TextIO) -> partial[Captured]:
        """Makes one like that stream, in another process too."""
        return partial(cls, stream.encoding, stream.errors, stream.isatty())

    def isatty(self) -> bool:
        return self._terminal

    def take(self) -> bytes:
        """What was written since the last call."""
        self.flush()
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        data = kept.getvalue()
        kept.seek(0)
        kept.truncate()
        return data


class Pieces:
    """Prints messages to memory."""

    def __init__(
        self, args: Namespace, printing: Printing, stream: Captured, names: TopicNames | None, file: str | None
    ) -> None:
        self._stream = stream
        sink = Sink(stream)
        self._lines = text_lines(args, sink, names)
        self._write = printing(args, sink, self._lines)(names)
        #: JSON lines are bytes already and need no stream.
        self._json = args.format == "json"
        self._lines_of_json: list[bytes] = []
        self._quiet = args.quiet
        self._wanted = display_filter(args)
        self._file = file

    def page(self, page: list[Event], since_ns: int) -> None:
        if self._quiet:
            return
        messages = [event for event in page if isinstance(event, Message) and event.time_ns >= since_ns]
        if self._wanted is not None:
            messages = self._wanted.passing(messages)
        if self._file is not None:
            for message in messages:
                message.file = self._file
        if self._json:
            self._lines_of_json.append(json_lines(messages))
        else:
            self._write(messages)

    def widths(self, widths: tuple[int, ...]) -> None:
        if self._lines is not None:
            self._lines.widths = widths

    def rendered(self) -> PickleBuffer:
        if self._json:
            pages, self._lines_of_json = self._lines_of_json, []
            return PickleBuffer(pages[0] if len(pages) == 1 else b"".join(pages))
        return PickleBuffer(self._stream.take())


def text_lines(args: Namespace, sink: Sink, names: TopicNames | None = None) -> MessageLines | None:
    """The lines of `-T text`, None if another format is asked for."""
    return MessageLines(registry(args), sink.width, names) if args.format == "text" and not args.verbose else None


def printed(source: Source, args: Namespace, sink: Sink, printing: Printing) -> Generator[memoryview, None, None]:
    """The messages of a capture as `printing` prints them, batch by batch; counts the source's notes."""
    lines = text_lines(args, sink)
    lookahead = Lookahead(source.options, registry(args), _measure(lines, args))
    make_worker = partial(
        _worker, args, printing, source.options, Captured.like(sys.stdout), source.name if args.each else None
    )
    with WorkerPool(args.jobs - 1, make_worker) as pool:
        scheduler = Scheduler(pool, make_worker(), lookahead, source.notes)
        for shown in scheduler.run(source.framed(), lambda: source.begin_ns, lambda: source.locate):
            yield memoryview(shown)


def _measure(lines: MessageLines | None, args: Namespace) -> Measure | None:
    """How columns come to be as wide as they are; None where there are none. The filter is one that looks into no
    body."""
    wanted = display_filter(args)
    if lines is None or args.quiet:
        return None
    if wanted is None:
        return lines.measure
    return lambda message: lines.measure(message) if wanted.passes(message) else lines.widths


def _worker(
    args: Namespace, printing: Printing, options: Options, stream: partial[Captured], file: str | None
) -> Worker:
    back = Back(options, registry(args))
    return Worker(back, Pieces(args, printing, stream(), back.names, file))
