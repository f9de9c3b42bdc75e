"""`--jobs` of check and export, a pipeline of two processes: the first reads and frames, the other decodes and does all that follows.

More processes would not help. Sharing out connections, as read does, would not pay for check: decoding is a fifth of its work, and
sending bodies back takes as long.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kshark.analysis import APIS, Analyzer, Told
from kshark.cli.apis import registry
from kshark.cli.resting import Resting
from kshark.cli.shown import display_filter
from kshark.cli.source import Source, is_shown, print_notes
from kshark.model import Event
from kshark.output.notes import Notes
from kshark.parallel import Forwarded, Forwarder, Receiver, WorkerPool, pipelined
from kshark.pipeline import Back, Options

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Checking(Protocol[T_co]):
    """A check of one capture: takes its pages; `close` returns what was found."""

    def page(self, page: list[Event]) -> None: ...

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
    """A batch of the capture with this index, and what the analysis told meanwhile; `forwarded` None: the capture ends."""

    capture: int
    forwarded: Forwarded | None
    told: list[Told]
    begin_ns: int


class _Exporting:
    """The handler of the other process: writes batches to tables; None ends the export."""

    def __init__(self, args: Namespace, files: list[list[str]], options: Options) -> None:
        from kshark.output.parquet import ParquetWriter, without_pandas

        without_pandas()
        self._args = args
        self._options = options
        self._writer = ParquetWriter(args.folder, files, records=args.with_records, wanted=display_filter(args))
        self._capture = -1

    def take(self, batch: _Batch | None) -> Any:
        """The number of messages so far; at a capture's end its notes; at the very end the number of rows of each table."""
        if batch is None:
            return self._writer.close()
        if batch.capture > self._capture:
            self._begin(batch.capture)
        for page in [] if batch.forwarded is None else self._back.feed(self._receiver.events(batch.forwarded)):
            self._notes.add(page)
            self._resting.add(page)
            self._writer.page(event for event in page if is_shown(event, batch.begin_ns))
        self._writer.page(self._resting.shown(batch.told))
        return self._notes if batch.forwarded is None else self._notes.messages

    def _begin(self, capture: int) -> None:
        self._capture = capture
        self._receiver = Receiver()
        self._back = Back(self._options, registry(self._args))
        self._notes = Notes()
        self._resting = Resting(self._args)
        self._writer.begin()


def exported(captures: list[Source], args: Namespace) -> dict[str, int]:
    """Writes the tables and prints each capture's notes; returns the number of rows of each table.

    The first process analyses, and decodes share sessions for that; the other one decodes everything and writes.
    """
    rows: dict[str, int] = {}
    files = [list(source.files) for source in captures]
    with WorkerPool(1, partial(_Exporting, args, files, captures[0].options)) as pool:
        ended = iter(captures)
        for told in pipelined(pool, _batches(captures, args)):
            if isinstance(told, dict):
                rows = told
            elif isinstance(told, Notes):
                source = next(ended)
                source.notes = told
                print_notes(source, heading=args.each)
    return rows


def _batches(captures: Iterable[Source], args: Namespace) -> Iterator[_Batch | None]:
    for index, source in enumerate(captures):
        forwarder, analyzer = Forwarder(), Analyzer(sessions=True, steps=True)
        back = Back(Options(records=False, bodies=APIS), registry(args))
        for events in source.framed():
            forwarded = forwarder.pack(events)
            found = [finding for page in back.feed(events) for finding in analyzer.page(page)]
            yield _Batch(index, forwarded, [*filter(source.shows, (*found, *analyzer.listed()))], source.begin_ns)
        yield _Batch(index, None, [*filter(source.shows, (*analyzer.close(), *analyzer.listed()))], source.begin_ns)
    yield None
