"""Output of `kshark live`: lines while it runs, then the verdict."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from kshark.analysis import Change
from kshark.cli.check import (
    Checking,
    asks_for_coverage,
    exit_code,
    fail_on,
    outcomes_of,
    verdict,
)
from kshark.cli.printed_findings import Printed, rule_codes
from kshark.cli.read import printing
from kshark.cli.shown import display_filter, print_unmatched
from kshark.errors import UnreadableInput
from kshark.headlines import Headlines
from kshark.live import Status
from kshark.live.lines import Lines, Style
from kshark.live.reporting import end_line, summary_of
from kshark.live.running import Totals
from kshark.model import Event, Finding, PacketBatch
from kshark.names import TopicNames
from kshark.output.findings import FindingCounts
from kshark.output.jsonlines import shown
from kshark.output.notes import Notes
from kshark.output.queued import LeftOut, QueuedSink, note_left_out
from kshark.output.sink import Sink
from kshark.output.spans import PLAIN
from kshark.units import counted, safe

#: At the end, a reader that takes nothing for this time does not get the rest; the notes have less time.
_PATIENCE_S: Final = 3.0
_NOTES_PATIENCE_S: Final = 1.0
#: Notes that are held until the end: the last ones.
_HELD: Final = 1_000


class Output:
    """A consumer that counts what makes the verdict of a running capture, and prints it in the end. `run` judges.

    `lines` is the consumer that prints while it runs. stdout and stderr have threads, so that a reader that does not
    read delays nothing; they begin with the first line or note.
    """

    def __init__(
        self,
        args: Namespace,
        names: TopicNames | None,
        *,
        stream: TextIO | None = None,
        holds_notes: bool = False,
        listing: bool = False,
        changed: Sequence[Callable[[Change], object]] = (),
    ) -> None:
        """`names`: those that messages show. `stream`: instead of stdout. `holds_notes`: print notes at the end.

        `listing`, and all functions in `changed`, are for `run`.
        """
        self._args = args
        self._held: deque[str] | None = deque(maxlen=_HELD) if holds_notes else None
        note = _note_left_out_in_json if args.format == "json" else note_left_out
        self._sink = QueuedSink(stream or sys.stdout, note, waits=bool(args.once and args.files))
        self._stderr = QueuedSink(sys.stderr)
        self._failing = fail_on(args)
        self.run = Checking(
            args,
            named=args.format != "json",
            keeps=False,
            coverage=asks_for_coverage(args),
            listing=listing,
            on_change=_all_of(changed),
        )
        self._notes = Notes()
        self._printed = Printed(FindingCounts(), Headlines(rule_codes(args.select)))
        self._status = Status((), 0, 0)
        write, wanted = printing(args, self._sink)(names), display_filter(args)
        style = Style(
            is_json=args.format == "json",
            is_verbose=args.verbose,
            messages=None if args.quiet else lambda messages: write([*map(shown, messages)]),
            passes=(lambda _: True) if wanted is None else wanted.passes,
            most=args.count,
            names=lambda: self.run.names,
        )
        self.lines = Lines(self._sink, self._stderr, style)

    def note(self, text: str) -> None:
        """Print a note on stderr."""
        line = f"kshark: {safe(text)}\n"
        if self._held is None:
            self._stderr.text(line)
        else:
            self._held.append(line)

    def packets(self, batch: PacketBatch) -> None:
        pass

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        self._notes.add(page)
        self.close(findings)

    def status(self, status: Status) -> None:
        self._status = status

    def close(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self._printed.add(finding)

    def end(self, totals: Totals, *, has_failed: bool = False) -> int:
        """Print the verdict, after the last findings, and return the exit code. If nobody reads standard output, the
        verdict goes to stderr. `has_failed`: the capture ended with an error. Raises BrokenPipeError if the reader has
        gone.
        """
        if self.lines.reader_left:
            raise BrokenPipeError
        held, self._held = self._held, None
        self._stderr.text("".join(held or ()))
        self._sink.kind = "verdict"
        self._sink.end()
        self._verdict(self._sink)
        left = self._sink.close(_PATIENCE_S)
        if left:
            self.note(f"nobody reads standard output: {counted(left, 'line')} could not be written; the verdict:")
            self._verdict(self._stderr)
        self.note(self._read(totals))
        self._stderr.lines([("  ", PLAIN), *line] for line in self._notes.lines())
        if self._status.fault:
            self.note(self._status.fault)
        self._stderr.close(_NOTES_PATIENCE_S)
        print_unmatched(self._args)
        outcomes = outcomes_of(self._printed.counts, self.run.observed, self._args)
        code = exit_code([outcomes], self._failing)
        return UnreadableInput.exit_code if has_failed and code != 1 else code

    def _read(self, totals: Totals) -> str:
        """Return how many packets were read, and how many were not judged."""
        packets = counted(totals.packets + totals.not_judged, "packet")
        dropped = f"captured, {self._status.dropped:,} dropped by the kernel"
        text = f"{packets} {'read' if self._args.files else dropped}"
        counts = (totals.not_judged, "packet"), (totals.messages_not_judged, "message")
        left = [counted(count, what) for count, what in counts if count]
        return f"{text}; not judged, since the capture had to end: {' and '.join(left)}" if left else text

    def _verdict(self, sink: Sink) -> None:
        """Print the verdict, with headlines also without messages."""
        args = Namespace(**{**vars(self._args), "quiet": False})
        summary = summary_of(self._status)
        verdict(self._printed, self.run.observed, args, sink, outcomes=self.run.outcomes, capture=summary)
        line = end_line(self._status)
        if line and args.format != "json":
            sink.lines([line])


def _all_of(changed: Sequence[Callable[[Change], object]]) -> Callable[[Change], object] | None:
    """Return a function that calls all of them; None without one."""
    if len(changed) < 2:
        return next(iter(changed), None)
    return lambda change: [called(change) for called in changed]


def _note_left_out_in_json(sink: Sink, left_out: LeftOut) -> None:
    sink.json([{"status": {"lines_left_out": sum(left_out.values()), "kinds": dict(left_out)}}])
