"""Captures as a command reads them: pages of events from the files it was given, notes about them at the end, progress meanwhile."""

from __future__ import annotations

import gc
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kshark.capture import open_captures
from kshark.cli.parser import ports
from kshark.cli.period import Period
from kshark.errors import UsageError
from kshark.model import Event, PacketBatch
from kshark.output.notes import Notes
from kshark.output.sink import Sink
from kshark.output.units import number
from kshark.pipeline import Engine, Options

#: Objects that may be made before the garbage collector looks at the young ones: messages form no cycles.
_YOUNG: Final = 200_000
_REDRAW_S: Final = 0.2


class Source:
    """One capture, of one file or several: iterate over its pages once, then read `notes`."""

    def __init__(self, files: Sequence[str], args: Namespace, options: Options, progress: Progress) -> None:
        self.name = files[0] if len(files) == 1 else f"{len(files)} files"
        self.notes = Notes()
        #: Packets that were read, those outside the period not counted.
        self.packets = 0
        self._files = files
        self._options = replace(options, kafka_ports=ports(args))
        self._period = Period(args.since, args.until)
        self._progress = progress

    def __iter__(self) -> Iterator[list[Event]]:
        gc.freeze()
        gc.set_threshold(_YOUNG, 50, 100)
        engine = Engine(self._options)
        notes, period = self.notes, self._period
        try:
            for item in open_captures(list(self._files)):
                part = period.clip(item) if isinstance(item, PacketBatch) else item
                if part is not None:
                    if isinstance(part, PacketBatch):
                        self.packets += len(part.number)
                    for page in engine.feed(part):
                        notes.add(page)
                        yield page
                self._progress.show(self.packets, notes.messages)
                if period.over:
                    break
            for page in engine.close():
                notes.add(page)
                yield page
        finally:
            self._progress.clear()


class Progress:
    """One line on a terminal's stderr while nothing else is printed there; nothing in a pipe."""

    def __init__(self, *, while_printing: bool) -> None:
        self._on = sys.stderr.isatty() and not (while_printing and sys.stdout.isatty())
        self._next = time.monotonic() + 2 * _REDRAW_S
        self._drawn = False

    def show(self, packets: int, messages: int) -> None:
        if self._on and time.monotonic() >= self._next:
            sys.stderr.write(f"\rkshark: {number(packets)} packets, {number(messages)} messages\x1b[K")
            sys.stderr.flush()
            self._next, self._drawn = time.monotonic() + _REDRAW_S, True

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def sources(args: Namespace, options: Options, *, printing: bool = False) -> Iterator[Source]:
    """The captures that a command is to read: all files as one, or with `--each` one after the other."""
    files = [*args.files, *args.more_files]
    if not files:
        raise UsageError("no capture given; name a pcap or pcapng file, a folder, or - for standard input")
    groups = [[file] for file in _each(files)] if args.each else [files]
    for group in groups:
        yield Source(group, args, options, Progress(while_printing=printing and not args.quiet))


def _each(files: Sequence[str]) -> Iterator[str]:
    """Files as given; those of a folder by name."""
    for file in files:
        if file != "-" and os.path.isdir(file):
            yield from sorted(entry.path for entry in os.scandir(file) if entry.is_file())
        else:
            yield file


def print_notes(source: Source, *, heading: bool = False) -> None:
    """What was odd, on stderr, so that stdout stays data."""
    lines = list(source.notes.lines())
    if lines:
        sys.stdout.flush()
        name = [(f"kshark: notes on {source.name}", "dim")] if heading else [("kshark: notes on the capture", "dim")]
        Sink(sys.stderr).lines([name, *([("  ", ""), *line] for line in lines)], crop=False)
