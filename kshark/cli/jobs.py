"""`--jobs`: messages decoded and printed by several processes, in the order and to the byte as by one."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Generator, Iterator
from functools import partial
from itertools import islice
from typing import TextIO

from kshark.cli.apis import registry
from kshark.cli.source import Source
from kshark.model import Event, Message
from kshark.names import TopicNames
from kshark.output.jsonlines import json_lines
from kshark.output.lines import MessageLines
from kshark.output.sink import Sink
from kshark.parallel import Bytes, Crew, Crossed, Learner, Parallel, Printed, Worker, telling_names
from kshark.pipeline import Back, Options


class Captured(io.TextIOWrapper):
    """What another stream would be sent, kept: what is written to it looks the same."""

    def __init__(self, encoding: str | None, errors: str | None, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors=errors, write_through=True, newline="")
        self._terminal = terminal

    @classmethod
    def like(cls, stream: TextIO) -> partial[Captured]:
        """How one like that stream is made, in another process too."""
        return partial(cls, stream.encoding, stream.errors, stream.isatty())

    def isatty(self) -> bool:
        return self._terminal

    def _kept(self) -> io.BytesIO:
        self.flush()
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept

    def size(self) -> int:
        """Bytes written since the last take."""
        return self._kept().tell()

    def take(self) -> bytes:
        """What was written since the last time."""
        kept = self._kept()
        data = kept.getvalue()
        kept.seek(0)
        kept.truncate()
        return data


class Pieces:
    """Prints messages to memory: one text, and where each message ends in it."""

    def __init__(self, args: Namespace, stream: Captured, names: TopicNames | None, file: str | None) -> None:
        from kshark.cli.read import printing

        self._stream = stream
        sink = Sink(stream)
        self._lines = text_lines(args, sink, names)
        self._write = printing(args, sink, self._lines)(names)
        #: Of a page printed at once every line is a message; else these are the messages' ends.
        self._ends: list[int] | None = [] if args.format == "text" else None
        #: JSON needs no stream: its lines are bytes, and many.
        self._json = args.format == "json"
        self._lines_of_json: list[bytes] = []
        self._quiet = args.quiet
        self._file = file

    def page(self, page: list[Event], since_ns: int) -> None:
        if self._quiet:
            return
        messages = [event for event in page if isinstance(event, Message) and event.time_ns >= since_ns]
        if self._file is not None:
            for message in messages:
                message.file = self._file
        if self._json:
            self._lines_of_json.append(json_lines(messages))
        elif self._ends is None:
            self._write(messages)
        else:
            for message in messages:
                self._write([message])
                self._ends.append(self._stream.size())

    def widths(self, widths: tuple[int, ...]) -> None:
        if self._lines is not None:
            self._lines.widths = widths

    def made(self) -> Printed:
        if self._json:
            chunks, self._lines_of_json = self._lines_of_json, []
            return Printed.lines(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        data = self._stream.take()
        if self._ends is None:
            return Printed.lines(data)
        ends, self._ends = self._ends, []
        return Printed.ending(data, ends)


def text_lines(args: Namespace, sink: Sink, names: TopicNames | None = None) -> MessageLines | None:
    """The lines of `-T text`, None where another form is asked for."""
    return MessageLines(registry(args), sink.width, names) if args.format == "text" and not args.verbose else None


def printed(source: Source, args: Namespace, sink: Sink) -> Generator[list[Bytes], None, None]:
    """Batch by batch the messages of a capture as they are to be printed; counts the source's notes.

    Text shows topics by name, whoever named them: that is learned ahead. Elsewhere it is enough to watch, where it can be done again.
    """
    options = source.options
    learns = options.embedded and (args.format == "text" or not source.can_be_read_again)
    done = 0
    try:
        for batch in _run(source, args, sink, learns=learns):
            done += 1
            yield batch
    except Crossed:
        source.rewind()
        yield from islice(_run(source, args, sink, learns=True), done, None)


def _run(source: Source, args: Namespace, sink: Sink, *, learns: bool) -> Iterator[list[Bytes]]:
    options = source.options
    lines = text_lines(args, sink)
    measure = lines.measure if lines is not None and not args.quiet else None
    learner = Learner(options, registry(args), measure) if learns else None
    telling = telling_names(registry(args)) if options.embedded and not learns else frozenset[str]()
    hire = partial(_hire, args, options, telling, Captured.like(sys.stdout), source.name if args.each else None)
    with Crew(args.jobs, hire) as crew:
        for batch in Parallel(crew, learner, source.notes).run(source.framed(), lambda: source.begin_ns, lambda: source.locate):
            yield [] if args.quiet else batch.in_order()


def _hire(args: Namespace, options: Options, telling: frozenset[str], stream: partial[Captured], file: str | None) -> Worker:
    back = Back(options, registry(args))
    names = None if back.embedding is None else back.embedding.names
    return Worker(back, Pieces(args, stream(), names, file), telling)
