"""Captures as a command reads them: pages of events from the files it was given, notes about them at the end, progress
meanwhile."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from kshark.capture.captures import Captures
from kshark.capture.files import is_pipe
from kshark.capture.merge import LeftOut
from kshark.capture.numbering import Locate, add_places
from kshark.capture.paths import printable
from kshark.capture.stop import Stop
from kshark.cli.apis import registry
from kshark.cli.interrupt import ended_by_signals
from kshark.cli.parser import ports
from kshark.cli.period import Period
from kshark.errors import UnreadableInput
from kshark.model import (
    Closed,
    Event,
    Exchange,
    Finding,
    Frames,
    Gap,
    HalfClosed,
    Late,
    Message,
    Opened,
    PacketBatch,
    Weird,
)
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.output.sink import Sink
from kshark.output.spans import DIM, PLAIN, folded
from kshark.output.units import number, safe
from kshark.pipeline import Back, Front, Options

if TYPE_CHECKING:
    from kshark.analysis import AnalysisResult

_REDRAW_S: Final = 0.2


def name_of(files: Sequence[str]) -> str:
    """Return the name of a capture."""
    return printable(files[0]) if len(files) == 1 else f"{len(files)} files"


class Source:
    """One capture, of one file or several: iterate over its pages once, then read `notes`."""

    def __init__(
        self,
        files: Sequence[str],
        args: Namespace,
        options: Options,
        *,
        number: int = 0,
        progress: bool = False,
        leaves_out: bool = False,
    ) -> None:
        """`number`: its place among the captures of the command, from 0. `progress`: how far reading has come may be
        shown. `leaves_out`: a file that cannot be read, or not to its end, is named and left out; else that is
        raised."""
        self.files = files
        self.number = number
        self.name = name_of(files)
        #: The same for people.
        self.title = safe(self.name)
        self.notes = Notes()
        #: Packets that were read, those behind the period not counted.
        self.packets = 0
        self.options = replace(options, kafka_ports=ports(args), tls_keys=args.tls_keys)
        #: File and frame of a packet, where there are several files.
        self.locate: Locate | None = None
        self._registry = registry(args)
        self._args = args
        self._left_out: LeftOut | None = partial(leave_out, args) if leaves_out else None
        self._period = Period(args.since, args.until)
        self._progress = Progress(progress)

    def place(self, findings: Iterable[Finding]) -> None:
        """Of several files: which of them each finding's witnesses are in."""
        if self.locate is not None:
            add_places(findings, self.locate)

    @property
    def is_pipe(self) -> bool:
        """Whether it comes as it is captured, perhaps, so that its end may be far."""
        return any(map(is_pipe, self.files))

    def shows(self, what: Event | AnalysisResult) -> bool:
        """Whether it happened behind `--since`; openings and closings of connections are always told."""
        return _is_shown(what, self.begin_ns)

    def tells(self, time_ns: int) -> bool:
        """Whether that moment lies behind `--since`."""
        return self._period.shows(time_ns)

    @property
    def begin_ns(self) -> int:
        """What happened before is not told; known when the first packet was read."""
        return self._period.begin_ns

    @cached_property
    def _back(self) -> Back:
        return Back(self.options, self._registry)

    @property
    def names(self) -> TopicNames | None:
        """Names of topic ids, as they come to be known; None where nobody asked for them."""
        return self._back.names

    def __iter__(self) -> Iterator[list[Event]]:
        return self.pages(self.framed())

    def pages(self, framed: Iterable[Iterable[Event]]) -> Iterator[list[Event]]:
        """The pages of what `framed` gave, for whoever looks at that himself."""
        return map(self._noted, self._back.pages(framed))

    def framed(self) -> Iterator[list[Event]]:
        """The time line before anything is decoded, batch by batch."""
        try:
            yield from Front(self.options, self._registry).batches(self._items())
        finally:
            self._progress.clear()

    def _items(self) -> Iterator[PacketBatch | Weird]:
        """What the files hold of the period; a pipe ends when the user says so."""
        with ended_by_signals(self.files) as stop:
            try:
                yield from self._parts(stop)
            except UnreadableInput as error:
                if self._left_out is None:
                    raise
                self._left_out(error)

    def _parts(self, stop: Stop | None) -> Iterator[PacketBatch | Weird]:
        captures = Captures(self.files, self._left_out, stop)
        self.locate = captures.numbering.locate if len(captures.names) > 1 else None
        for item in captures:
            part = self._period.clip(item) if isinstance(item, PacketBatch) else item
            if part is not None:
                self.packets += len(part.number) if isinstance(part, PacketBatch) else 0
                yield part
            self._progress.show(self.packets, self.notes.messages, captures.bytes_read, captures.bytes_total)
            if self._period.over:
                break
        missed = self._period.missed(self.packets)
        if missed is not None:
            raise UnreadableInput(f"{self.name}: {missed}; nothing was looked at")

    def _noted(self, page: list[Event]) -> list[Event]:
        """The page, counted; of several files its messages say which one they came from."""
        self.notes.add(page)
        locate = self.locate
        if locate is not None:
            for event in page:
                if type(event) is Message and (place := locate(event.packet)) is not None:
                    event.file, event.frame = place
        return page


def _is_shown(what: Event | AnalysisResult, begin_ns: int) -> bool:
    """Whether it happened from then on; openings and closings of connections are always told, sessions unless they had
    ended."""
    match what:
        case Message() | Weird() | Gap() | Finding():
            return what.time_ns >= begin_ns
        case Exchange():
            last = what.response or what.request
            return last is not None and last.time_ns >= begin_ns
        case Opened() | HalfClosed() | Closed() | Frames() | Late():
            return True
    from kshark.analysis import ListedStep  # 0.1 s: only for those who analyse

    if isinstance(what, ListedStep):
        return what.end_ns >= begin_ns
    return what.session.closed is None or what.session.closed.time_ns >= begin_ns


class Progress:
    """One line on a terminal's stderr while nothing else is printed there; nothing in a pipe."""

    def __init__(self, on: bool) -> None:
        self._on = on and sys.stderr.isatty()
        self._next = time.monotonic() + 2 * _REDRAW_S
        self._drawn = False

    def show(self, packets: int, messages: int, done: int, total: int | None) -> None:
        if self._on and time.monotonic() >= self._next:
            share = f"{min(99, 100 * done // total)} %  " if total else ""
            sys.stderr.write(f"\rkshark: {share}{number(packets)} packets, {number(messages)} messages\x1b[K")
            sys.stderr.flush()
            self._next, self._drawn = time.monotonic() + _REDRAW_S, True

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def leave_out(args: Namespace, error: UnreadableInput) -> None:
    """One of several files cannot be read: it is named, and the exit code says so, when nothing worse was found."""
    args.unread = True
    print(f"kshark: {safe(str(error))}; the rest is read", file=sys.stderr)


def print_notes(source: Source, *, heading: bool = False) -> None:
    """What was odd about a capture."""
    tell(source.notes, source.title if heading else "the capture")


def tell(notes: Notes, name: str) -> None:
    """Notes go to stderr, so that stdout stays data."""
    lines = list(notes.lines())
    if lines:
        sink = Sink(sys.stderr)
        sink.lines([[(f"kshark: notes on {name}", DIM)]])
        sink.lines(part for line in lines for part in folded([("  ", PLAIN), *line], sink.width, 4))
