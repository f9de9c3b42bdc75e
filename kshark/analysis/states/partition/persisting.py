"""State that the leader of a share partition stores for acknowledgements: before it answers them, or a little later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange, Piece, StoredRange
from kshark.analysis.states.tables.in_flight import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    TERMINAL,
    Stage,
)
from kshark.offset_ranges import OffsetRanges

#: States in which a record may be stored after an acknowledgement. A release after the last delivery archives it.
STORED_AS: Final[dict[int, frozenset[Stage]]] = {
    GAP: TERMINAL | {ARCHIVING},
    ACCEPT: frozenset({ACKNOWLEDGED}),
    RELEASE: frozenset({AVAILABLE, ARCHIVING, ARCHIVED}),
    REJECT: frozenset({ARCHIVING, ARCHIVED}),
}
#: After this number of acknowledgements in a row that were stored before their answer, the next one should be, too.
ORDERLY: Final = 3
#: Acknowledgements that take longer are slow, if storing takes more than half of the time.
SLOW_NS: Final = 100_000_000
HALF: Final = 0.5
#: Highest number of Writes that are kept while acknowledgements wait for their answer, and of acknowledgements that
#: should have been stored.
_WRITES: Final = 32
_UNSTORED: Final = 16


class Persistence:
    """State that the leader of a share partition stores.

    `write` adds accepted Writes, `answered` adds acknowledgements.
    `writes`: the Writes since an acknowledgement waits for its answer. `rest` removes them when none waits, because
    later acknowledgements cannot belong to earlier Writes.
    """

    __slots__ = ("_orderly", "_unstored", "writes")

    def __init__(self) -> None:
        self.writes: deque[tuple[StateStep, Sequence[StoredRange]]] = deque(maxlen=_WRITES)
        self._unstored: deque[Persisting] = deque(maxlen=_UNSTORED)
        #: Number of acknowledgements in a row that were fully stored before their answer.
        self._orderly = 0

    def write(self, write: StateStep, stored: Sequence[StoredRange], *, is_awaited: bool) -> None:
        """Add an accepted Write; `is_awaited`: acknowledgements wait for their answer."""
        if is_awaited:
            self.writes.append((write, stored))
        if self._unstored:
            for persisting in self._unstored:
                persisting.meets(write, stored)
            self._unstored = deque((persisting for persisting in self._unstored if len(persisting.left) > 0), _UNSTORED)

    def rest(self) -> None:
        self.writes.clear()

    def since(self, step: ShareStep) -> Iterator[StoredRange]:
        """Yield the batches that were written after the request, while acknowledgements waited for their answer."""
        return (batch for write, stored in self.writes if write.packet >= step.packet for batch in stored)

    def is_as_acknowledged(self, step: ShareStep, runs: Sequence[AcknowledgedRange]) -> bool:
        """True if one Write after the request stores all its acknowledgements, and no Write took long.

        No rule needs it then.
        """
        is_stored = False
        for write, stored in self.writes:
            if write.packet < step.packet:
                continue
            if write.call.end_ns - write.call.time_ns >= HALF * SLOW_NS:
                return False
            is_stored = is_stored or _stores(stored, runs)
        self._orderly += is_stored
        return is_stored

    def answered(
        self, step: ShareStep, runs: Sequence[AcknowledgedRange], before: StateStep, *, accepted: bool
    ) -> Persisting:
        """Compare answered acknowledgements with the Writes before the answer. `accepted`: all must be stored."""
        some_forgotten = len(self.writes) == _WRITES and self.writes[0][0].packet > step.packet
        persisting = Persisting(step, runs, before, is_due=self._orderly >= ORDERLY and not some_forgotten)
        for write, stored in self.writes:
            persisting.meets(write, stored)
        if accepted and persisting.changes:
            if len(persisting.left) > 0 and persisting.is_due:
                self._unstored.append(persisting)
            self._orderly = 0 if len(persisting.left) > 0 else self._orderly + 1
        return persisting


class Persisting:
    """The stored part of one request's answered acknowledgements; `meets` adds later Writes.

    `before`: the last exchange before the request that read or stored the partition's state.
    `writes`: the batches with records of the request, each with its Write.
    `left`: offsets that no Write has stored.
    `later`: the first Write that was sent after the answer.
    `is_due`: the leader stored earlier acknowledgements before their answer.
    """

    __slots__ = ("before", "is_due", "later", "left", "runs", "step", "writes")

    def __init__(self, step: ShareStep, runs: Sequence[AcknowledgedRange], before: StateStep, *, is_due: bool) -> None:
        self.step = step
        self.runs = runs
        self.before = before
        self.is_due = is_due
        self.writes: list[tuple[StateStep, StoredRange]] = []
        self.left: OffsetRanges[bool] = OffsetRanges()
        self.later: StateStep | None = None
        for run in runs:
            if run.type != RENEW:
                self.left.put(run.first, run.last, True)

    @property
    def changes(self) -> bool:
        """True if there is something to store."""
        return any(run.type != RENEW for run in self.runs)

    def meets(self, write: StateStep, stored: Sequence[StoredRange]) -> None:
        """Add an accepted Write. It also stores everything below its start offset."""
        answer = self.step.answer
        if write.packet < self.step.packet:
            return
        if answer is not None and write.packet > answer.packet:
            self.later = self.later or write
        if self.later is None:
            self.writes += [
                (write, batch)
                for batch, is_concerned in zip(stored, concern(stored, self.runs), strict=True)
                if is_concerned
            ]
        for batch in stored:
            self.left.drop(batch.first, batch.last)
        if write.start_offset is not None:
            self.left.drop(0, write.start_offset - 1)


def concern(ranges: Iterable[StoredRange | Piece], runs: Iterable[AcknowledgedRange]) -> list[bool]:
    """Return for each range whether some of its offsets are acknowledged.

    Ranges are mostly in order, so one pass is enough.
    """
    asked = sorted(runs)
    concerned: list[bool] = []
    at, count, reach, before = 0, len(asked), -1, -1
    for first, last, *_ in ranges:
        if last < before:
            at, reach = 0, -1
        before = last
        while at < count and asked[at].first <= last:
            if asked[at].last > reach:
                reach = asked[at].last
            at += 1
        concerned.append(reach >= first)
    return concerned


def _stores(stored: Iterable[StoredRange], runs: Sequence[AcknowledgedRange]) -> bool:
    """True if batches store the acknowledgements; both are in the order of their offsets."""
    if not runs:
        return False
    at, count, (due, end, kind) = 1, len(runs), runs[0]
    for first, last, stage, _ in stored:
        while first <= due <= last and stage in STORED_AS.get(kind, ()):
            if last < end:
                due = last + 1
                break
            if at == count:
                return True
            due, end, kind = runs[at]
            at += 1
    return False
