"""Lines of a running capture: its messages, findings and status, for a pipe, a file or a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from kshark.live.consumer import Status
from kshark.live.grouping import Grouping, short_line
from kshark.live.reporting import Reporting, status_object
from kshark.model import Event, Finding, Message, PacketBatch
from kshark.output.findings import finding_lines
from kshark.output.json_findings import json_findings
from kshark.output.queued import QueuedSink
from kshark.output.sink import Sink
from kshark.output.spans import Line, folded

_INDENT: Final = 14


class Style(Struct, frozen=True):
    """Selection of the lines. `is_json`: objects, not text. `is_verbose`: every finding, not the first of its kind.

    `messages` prints messages, None: none. `passes`: those that are printed. `most`: the capture ends after as many.
    `names`: topic names by id.
    """

    is_json: bool
    is_verbose: bool
    messages: Callable[[Sequence[Message]], None] | None
    passes: Callable[[Message], bool]
    most: int | None
    names: Callable[[], Mapping[str, str]]


class Lines:
    """A consumer that prints messages, and after each message the findings that rest on it.

    Text has the first finding of each cause and member, and then their number now and then; JSON has every finding.
    Reports of the status go to `notes`, in JSON to `sink`. After `reader_left` nothing is printed, and the capture
    shall end, as after `is_complete`.
    """

    def __init__(self, sink: QueuedSink, notes: Sink, style: Style) -> None:
        #: True when the last message of `most` was printed, or the reader of the lines has gone.
        self.is_complete = False
        self.reader_left = False
        self._sink = sink
        self._notes = notes
        self._style = style
        self._left = style.most
        self._groups_findings = not (style.is_json or style.is_verbose)
        self._grouping = Grouping()
        self._reporting = Reporting()
        self._needs_space = False

    def packets(self, batch: PacketBatch) -> None:
        pass

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        messages = [event for event in page if isinstance(event, Message) and self._style.passes(event)]
        if self._left is not None:
            messages = messages[: self._left]
            self._left -= len(messages)
        for finding in findings:
            before = [message for message in messages if message.packet <= finding.packet]
            messages = [message for message in messages if message.packet > finding.packet]
            self._print_messages(before)
            self._print_findings([finding])
        self._print_messages(messages)
        self.is_complete = self.is_complete or self._left == 0

    def status(self, status: Status) -> None:
        with self._printing("finding"):
            self._sink.settle()
            self._print_lines(self._grouping.due(status.now_ns))
        reasons = self._reporting.add(status)
        if not reasons:
            return
        if self._style.is_json:
            with self._printing("status"):
                self._sink.json([status_object(status, reasons)])
        else:
            self._notes.lines(self._reporting.lines(status, reasons))
        self._reporting.reported(status, reasons)

    def close(self, findings: Sequence[Finding]) -> None:
        """Print the last findings, and the numbers that were not printed."""
        if not self.reader_left:
            self._print_findings(findings)
            with self._printing("finding"):
                self._print_lines(self._grouping.rest())
                self._print_space()

    def _print_messages(self, messages: list[Message]) -> None:
        if messages and self._style.messages is not None:
            self._needs_space = False
            with self._printing("message"):
                self._style.messages(messages)

    def _print_findings(self, findings: Sequence[Finding]) -> None:
        with self._printing("finding"):
            if self._style.is_json:
                self._sink.json(json_findings(findings))
                return
            for finding in findings:
                form = self._grouping.add(finding) if self._groups_findings else "block"
                if form == "block":
                    self._print_space()
                    self._sink.lines(finding_lines(finding, self._sink.width, self._style.names()))
                elif form == "line":
                    self._print_lines([short_line(finding)])

    def _print_lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._needs_space = True
            self._sink.lines(folded(line, self._sink.width, _INDENT))

    def _print_space(self) -> None:
        """Print an empty line between single lines and a block."""
        if self._needs_space:
            self._needs_space = False
            self._sink.lines([[]])

    @contextmanager
    def _printing(self, kind: str) -> Iterator[None]:
        """Print lines of a kind, unless the reader has gone; if it goes, the capture shall end."""
        self._sink.kind = kind
        try:
            yield
        except BrokenPipeError:
            self.is_complete = self.reader_left = True
