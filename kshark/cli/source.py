"""Captures for commands: read pages of events from files, collect notes, and show the progress."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from kshark.capture.captures import Captures
from kshark.capture.files import is_pipe
from kshark.capture.log_lines import LogLines
from kshark.capture.merge import LeftOut
from kshark.capture.numbering import Locate
from kshark.capture.paths import printable
from kshark.capture.stop import Stop
from kshark.cli.apis import registry
from kshark.cli.interrupt import ended_by_signals
from kshark.cli.parser import ports
from kshark.cli.period import Period
from kshark.cli.shown import begin_capture, print_unmatched
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
    Tick,
    Weird,
)
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.output.sink import Sink
from kshark.output.spans import DIM, PLAIN, folded
from kshark.pipeline import Back, Front, Options
from kshark.units import number, safe, size

if TYPE_CHECKING:
    from kshark.analysis import AnalysisResult

_REDRAW_S: Final = 0.2


def name_of(files: Sequence[str]) -> str:
    """Return the name of a capture: its file; of several files of one folder, the folder and their number."""
    if len(files) == 1:
        return printable(files[0])
    folders = {PurePath(file).parent for file in files}
    name = f"{len(files)} files"
    return f"{printable(str(folders.pop()))} ({name})" if len(folders) == 1 and folders != {PurePath()} else name


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
        stops: bool = False,
        of: int = 1,
    ) -> None:
        """Open a capture.

        `number`: index among the captures of the command, from 0. `progress`: the progress may be shown. `leaves_out`:
        report and leave out a file that cannot be read to its end; otherwise raise UnreadableInput. `stops`: Ctrl-C
        ends the reading of files. `of`: number of captures of the command.
        """
        self.files = files
        self.number = number
        self.name = name_of(files)
        #: The name with control characters escaped.
        self.title = safe(self.name)
        self.notes = Notes()
        #: Packets that were read, without those after the period.
        self.packets = 0
        #: True when the capture was read to its end.
        self.is_read = False
        #: True if its file cannot be read, and was left out.
        self.left_out = False
        #: True if a verdict on the capture says what was judged.
        self.has_verdict = False
        #: True if the notes are printed.
        self.has_notes = False
        self.options = replace(
            options,
            kafka_ports=ports(args),
            tls_keys=args.tls_keys,
            max_request_bytes=args.max_request_bytes,
        )
        self._captures: Captures | None = None
        self._registry = registry(args)
        self.args = args
        #: Why files were left out.
        self.faults: list[UnreadableInput] = []
        self._left_out: LeftOut | None = self._leave_out if leaves_out else None
        self._period = Period(args.since, args.until)
        self._stops = stops
        self._is_stopped = False
        several = f"file {number + 1} of {of}, " if of > 1 else f"{len(files)} files, " if len(files) > 1 else ""
        self._progress = Progress(progress, several)

    @property
    def locate(self) -> Locate | None:
        """Return file and frame of a packet, if there are several files, or if the file was sorted by time."""
        return None if self._captures is None else self._captures.locate

    @property
    def log_lines(self) -> LogLines | None:
        """Return the lines of the capture if it is a request log."""
        return None if self._captures is None else self._captures.log_lines

    @property
    def shown_packets(self) -> int | None:
        """Return the number of packets; None for a request log, which has none."""
        return self.packets if self.log_lines is None else None

    def place(self, findings: Iterable[Finding]) -> None:
        """Set the file and frame of each finding's witnesses, if the packet numbers do not show them."""
        if self._captures is not None:
            self._captures.place(findings)

    @property
    def is_pipe(self) -> bool:
        """True if a file is a pipe, so that the capture may still grow."""
        return any(map(is_pipe, self.files))

    def shows(self, event: Event | AnalysisResult) -> bool:
        """True if the event happened after `--since`; openings and closings of connections are always shown."""
        return _is_shown(event, self.begin_ns)

    def includes_time(self, time_ns: int) -> bool:
        """True if that time is after `--since`."""
        return self._period.shows(time_ns)

    @property
    def begin_ns(self) -> int:
        """The start of the period in ns, known after the first packet; earlier events are not shown."""
        return self._period.begin_ns

    @cached_property
    def _back(self) -> Back:
        back = Back(self.options, self._registry)
        begin_capture(self.args, back.names)
        return back

    @property
    def names(self) -> TopicNames | None:
        """Names of topic ids learned so far; None if the options do not ask for them."""
        return self._back.names

    def __iter__(self) -> Iterator[list[Event]]:
        return self.pages(self.framed())

    def pages(self, framed: Iterable[Iterable[Event]]) -> Iterator[list[Event]]:
        """Yield the pages decoded from batches of `framed`, for callers that also read these batches."""
        return map(self._noted, self._back.pages(framed))

    def framed(self) -> Iterator[list[Event]]:
        """Yield the batches of the time line before decoding."""
        try:
            yield from Front(self.options, self._registry).batches(self._items())
            self.is_read = not self._is_stopped
        finally:
            self._progress.clear()

    def _items(self) -> Iterator[PacketBatch | Weird]:
        """Yield the packets of the period; Ctrl-C ends the capture."""
        with ended_by_signals(self.files, stops=self._stops) as stop:
            try:
                yield from self._parts(stop)
            except UnreadableInput as error:
                if self._left_out is None:
                    raise
                self.left_out = True
                self._left_out(error)

    def _parts(self, stop: Stop | None) -> Iterator[PacketBatch | Weird]:
        captures = self._captures = Captures(self.files, self._left_out, stop if self.is_pipe else None)
        for item in captures:
            if stop is not None and stop.is_set and not self.is_pipe:
                self._stop(captures)
                return
            part = self._period.clip(item) if isinstance(item, PacketBatch) else item
            if part is not None:
                self.packets += len(part.number) if isinstance(part, PacketBatch) else 0
                yield part
            self._progress.show(self.packets, self.notes.messages, captures.bytes_read, captures.bytes_total)
            if self._period.over:
                break
        missed = self._period.missed(self.packets)
        if missed is not None:
            raise UnreadableInput(f"{self.name}: {missed}; nothing was read")

    def _leave_out(self, error: UnreadableInput) -> None:
        self.faults.append(error)
        leave_out(self.args, error)

    def _stop(self, captures: Captures) -> None:
        """Say how far the capture was read, and that the command was interrupted."""
        self._progress.clear()
        self._is_stopped = self.args.interrupted = True
        total = captures.bytes_total
        share = f" of {self.title}, after {100 * captures.bytes_read // total} % of its bytes" if total else ""
        at, noun = (f" at packet {number(self.packets)}", "packets") if self.log_lines is None else ("", "lines")
        print(f"kshark: stopped{at}{share}: what follows is about the {noun} up to there", file=sys.stderr)

    def _noted(self, page: list[Event]) -> list[Event]:
        """Add the page to the notes; with several files, set the file and frame of its messages."""
        self.notes.add(page)
        locate = self.locate
        if locate is not None:
            for event in page:
                if type(event) is Message and (location := locate(event.packet)) is not None:
                    event.file, event.frame = location
        return page


def _is_shown(event: Event | AnalysisResult, begin_ns: int) -> bool:
    """True if the event happened at or after `begin_ns`.

    Openings and closings of connections are always shown, sessions unless they ended before.
    """
    match event:
        case Message() | Weird() | Gap() | Finding():
            return event.time_ns >= begin_ns
        case Exchange():
            last = event.response or event.request
            return last is not None and last.time_ns >= begin_ns
        case Opened() | HalfClosed() | Closed() | Frames() | Late() | Tick():
            return True
    from kshark.analysis import ListedStep  # 0.1 s: only imported for results of the analysis

    if isinstance(event, ListedStep):
        return event.end_ns >= begin_ns
    return event.session.closed is None or event.session.closed.time_ns >= begin_ns


class Progress:
    """One line on stderr that shows the progress, if stderr is a terminal."""

    def __init__(self, on: bool, several: str = "") -> None:
        """`several`: which of several files, or how many."""
        self._several = several
        self._on = on and sys.stderr.isatty()
        self._next = time.monotonic() + 2 * _REDRAW_S
        self._drawn = False

    def show(self, packets: int, messages: int, done: int, total: int | None) -> None:
        if self._on and time.monotonic() >= self._next:
            left = f"{min(99, 100 * done // total)} %, {size(max(0, total - done))} left  " if total else ""
            sys.stderr.write(
                f"\rkshark: {self._several}{left}{number(packets)} packets, {number(messages)} messages\x1b[K"
            )
            sys.stderr.flush()
            self._next, self._drawn = time.monotonic() + _REDRAW_S, True

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def leave_out(args: Namespace, error: UnreadableInput, who: str = "kshark") -> None:
    """Report a file that cannot be read, among several. The exit code is 2 unless there is a violation."""
    args.unread = True
    args.faults = [*getattr(args, "faults", ()), error]
    print(f"{who}: {safe(str(error))}; the other files are read", file=sys.stderr)


def print_notes(source: Source, *, heading: bool = False) -> None:
    """Print the notes on a capture once, and first why no message of it was read, unless a verdict says so."""
    if source.has_notes:
        return
    source.has_notes = True
    if not source.has_verdict and not source.left_out and not source.notes.messages and source.is_read:
        why = source.notes.unread.why(has_keys=bool(source.args.tls_keys))
        print(f"kshark: no message could be read: {safe(why)}", file=sys.stderr)
    name = "the request log" if source.log_lines is not None else "the capture"
    print_notes_on(source.notes, source.title if heading else name, source.log_lines)
    if source.is_read:
        print_unmatched(source.args)


def print_notes_on(notes: Notes, name: str, log_lines: LogLines | None = None) -> None:
    """Print notes to stderr, so that stdout contains only data."""
    lines = list(notes.lines())
    if lines:
        sink = Sink(sys.stderr, lambda: log_lines)
        sink.lines([[(f"kshark: notes on {name}", DIM)]])
        sink.lines(part for line in lines for part in folded([("  ", PLAIN), *line], sink.width, 4))
