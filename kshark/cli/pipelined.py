"""`--jobs` of check, stats --share and export: two processes, of which one reads and frames, the other decodes and does
all that follows.

More processes would not help. Sharing out connections, as read does, would not pay for check: decoding is a fifth of
its work, and sending bodies back takes as long."""

from __future__ import annotations

from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kshark.analysis import Analyzer, Told
from kshark.cli.apis import registry
from kshark.cli.resting import Resting
from kshark.cli.shown import display_filter
from kshark.cli.source import Source, is_shown, print_notes
from kshark.errors import UnreadableInput
from kshark.model import Event
from kshark.output.notes import Notes
from kshark.parallel import Forwarded, Forwarder, Receiver, WorkerPool, pipelined
from kshark.pipeline import Back, Options

if TYPE_CHECKING:
    from kshark.output.export import Export
    from kshark.output.manifest import Capture
    from kshark.output.parquet_part import Attempt, Part, PartWriter

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Checking(Protocol[T_co]):
    """A check of one capture: takes its pages; `close` returns what was found."""

    def page(self, page: list[Event]) -> object: ...

    def close(self) -> T_co: ...


class _Checking(Generic[T]):
    """The handler of the other process: decodes and checks batches; None ends the capture."""

    def __init__(self, checking: Callable[[Namespace], Checking[T]], args: Namespace, options: Options) -> None:
        self._receiver = Receiver()
        self._back = Back(options, registry(args))
        self._checking = checking(args)
        self._notes = Notes()

    def take(self, forwarded: Forwarded | None) -> tuple[T, Notes] | int:
        """The number of messages so far; at the end the check's result and the notes."""
        if forwarded is None:
            return self._checking.close(), self._notes
        for page in self._back.feed(self._receiver.events(forwarded)):
            self._notes.add(page)
            self._checking.page(page)
        return self._notes.messages


def checked(source: Source, args: Namespace, checking: Callable[[Namespace], Checking[T]]) -> T:
    """The result of the check that `checking` makes in the other process."""
    forwarder = Forwarder()

    def items() -> Iterator[Forwarded | None]:
        yield from map(forwarder.pack, source.framed())
        yield None

    with WorkerPool(1, partial(_Checking, checking, args, source.options)) as pool:
        for told in pipelined(pool, items()):
            if isinstance(told, tuple):
                found: T = told[0]
                source.notes = told[1]
                return found
            source.notes.messages = told
    raise AssertionError("the last item is answered")


class _Batch(NamedTuple):
    """A batch of a capture, and what the analysis told meanwhile; `forwarded` None: the capture ends."""

    capture: Capture
    forwarded: Forwarded | None
    told: list[Told]
    begin_ns: int


class _Unread(NamedTuple):
    """A capture that cannot be read, or not to its end."""

    name: str
    error: UnreadableInput


class _Ended(NamedTuple):
    """A capture has ended: its notes, and a part of the export that may be committed; without notes the last part."""

    notes: Notes | None
    part: Part | None


class _Exporting:
    """The handler of the other process: writes batches to tables, and what cannot be read; None ends the export."""

    def __init__(self, args: Namespace, attempt: Attempt, options: Options) -> None:
        from kshark.output.parquet import without_pandas

        without_pandas()
        self._args = args
        self._options = options
        self._attempt = attempt
        self._writer = self._part()
        self._capture: Capture | None = None
        self._notes = Notes()

    def take(self, batch: _Batch | _Unread | None) -> _Ended | int:
        """The number of messages so far; more at a capture's end, and at the very end."""
        if batch is None:
            return _Ended(None, self._writer.close())
        if isinstance(batch, _Unread):
            self._writer.fault(*batch)
            return self._end()
        if self._capture is None:
            self._begin(batch.capture)
        for page in [] if batch.forwarded is None else self._back.feed(self._receiver.events(batch.forwarded)):
            self._notes.add(page)
            self._resting.add(page)
            self._writer.page(event for event in page if is_shown(event, batch.begin_ns))
        self._writer.page(self._resting.shown(batch.told))
        return self._notes.messages if batch.forwarded is not None else self._end()

    def _begin(self, capture: Capture) -> None:
        self._capture = capture
        self._receiver = Receiver()
        self._back = Back(self._options, registry(self._args))
        self._resting = Resting(self._args)
        self._writer.begin(capture)

    def _end(self) -> _Ended:
        notes, self._notes, self._capture, part = self._notes, Notes(), None, None
        if self._args.mode != "replace" and self._writer.is_large:
            part, self._writer = self._writer.close(), self._part()
        return _Ended(notes, part)

    def _part(self) -> PartWriter:
        from kshark.output.parquet_part import PartWriter

        return PartWriter(self._attempt, display_filter(self._args))


def exported(export: Export, captures: Iterable[tuple[str, Source]], args: Namespace, *, alone: bool) -> None:
    """Writes the tables and prints each capture's notes. `alone`: as of one process.

    The first process analyses, and decodes for that; the other one decodes what analysis does not look at too, and
    writes."""
    named = [*captures]
    ended: deque[Source] = deque()
    with WorkerPool(1, partial(_Exporting, args, export.attempt, named[0][1].options)) as pool:
        for told in pipelined(pool, _batches(export, named, ended, args, alone=alone)):
            if not isinstance(told, _Ended):
                continue
            if told.notes is not None:
                source = ended.popleft()
                source.notes = told.notes
                print_notes(source, heading=args.each)
            if told.part is not None:
                export.commit([told.part])


def _batches(
    export: Export, captures: Iterable[tuple[str, Source]], begun: deque[Source], args: Namespace, *, alone: bool
) -> Iterator[_Batch | _Unread | None]:
    """The batches of the captures that are not there already, which come to stand in `begun`; None at the end."""
    for name, source in captures:
        try:
            begun.append(source)
            capture = export.attempt.capture(name, source.files)
            if capture is None:
                begun.pop()
                export.skipped += 1
            else:
                yield from _batches_of(capture, source, args)
        except UnreadableInput as error:
            if alone:
                raise
            yield _Unread(name, error)
    yield None


def _batches_of(capture: Capture, source: Source, args: Namespace) -> Iterator[_Batch]:
    forwarder, analyzer = Forwarder(), Analyzer(sessions=True, steps=True)
    back = Back(replace(source.options, payload=False, embedded=False), registry(args))
    for events in source.framed():
        forwarded = forwarder.pack(events)
        found = [finding for page in back.feed(events) for finding in analyzer.page(page)]
        yield _Batch(capture, forwarded, [*filter(source.shows, (*found, *analyzer.listed()))], source.begin_ns)
    yield _Batch(capture, None, [*filter(source.shows, (*analyzer.close(), *analyzer.listed()))], source.begin_ns)
