"""A capture checked by one task: by two processes where a core has nothing else to do, as `kshark check --jobs 2` does
it.

The first reads and frames, the other decodes and judges. More would not help: one group is judged by one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from dissectors.topics import NAMING_APIS
from kshark.analysis import Audit
from kshark.capture import open_captures
from kshark.capture.numbering import place
from kshark.model import Event, Finding, Message
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.parallel import Forwarded, Forwarder, Receiver, WorkerPool, pipelined
from kshark.pipeline import Back, Front, Options
from kshark.registry import Registry
from spark_analysis.check import Checked


def whole(files: Sequence[str], options: Options, *, coverage: bool = False, by_two: bool = False) -> Checked:
    """What was found in a capture; `coverage`: whether that is counted. Raises UnreadableInput where it cannot be
    read."""
    captures = open_captures(files)
    time_line = Front(options, Registry(options.dissectors)).batches(captures)
    checking = partial(_Checking, options, coverage)
    checked = _in_the_other(time_line, checking) if by_two else checking().all(time_line)
    if len(files) > 1:
        place(checked.findings, captures.numbering.locate)
    return checked


class _Checking:
    """Batches of a capture's time line to what was found. As a process of its own it takes them packed; None ends the
    capture."""

    def __init__(self, options: Options, coverage: bool) -> None:
        registry = Registry(options.dissectors)
        self._back, self._audit, self._names = (
            Back(options, registry),
            Audit(registry, coverage=coverage),
            TopicNames(registry),
        )
        self._notes, self._receiver = Notes(), Receiver()
        self._found: list[Finding] = []

    def take(self, forwarded: Forwarded | None) -> Checked | None:
        if forwarded is None:
            return self._close()
        self._feed(self._receiver.events(forwarded))
        return None

    def all(self, batches: Iterable[list[Event]]) -> Checked:
        for events in batches:
            self._feed(events)
        return self._close()

    def _feed(self, events: list[Event]) -> None:
        for page in self._back.feed(events):
            self._notes.add(page)
            self._found += self._audit.page(page)
            for event in page:
                if type(event) is Message and event.api_key in NAMING_APIS:
                    self._names.learn(event)

    def _close(self) -> Checked:
        self._found += self._audit.close()
        return Checked.of(self._found, self._names.known, self._notes, self._audit.observed)


def _in_the_other(batches: Iterable[list[Event]], make: partial[_Checking]) -> Checked:
    forwarder = Forwarder()

    def items() -> Iterator[Forwarded | None]:
        yield from map(forwarder.pack, batches)
        yield None

    with WorkerPool(1, make) as pool:
        return next(told for told in pipelined(pool, items()) if isinstance(told, Checked))
