"""What the leader of a share partition stores of acknowledgements: before it answers them, and a little later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kshark.analysis.facts.calls import Step
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.partition.records_in_flight import Piece, Run, Stored
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

#: What a record may be stored as behind an acknowledgement; one that is released at its last delivery is archived.
STORED_AS: Final[dict[int, frozenset[Stage]]] = {
    GAP: TERMINAL | {ARCHIVING},
    ACCEPT: frozenset({ACKNOWLEDGED}),
    RELEASE: frozenset({AVAILABLE, ARCHIVING, ARCHIVED}),
    REJECT: frozenset({ARCHIVING, ARCHIVED}),
}
#: So many acknowledgements one behind the other were stored before they were answered: from there on that is to be
#: expected.
ORDERLY: Final = 3
#: Acknowledgements that take longer are slow, where more than half of the time goes into storing them.
SLOW_NS: Final = 100_000_000
HALF: Final = 0.5
#: Writes that are remembered while acknowledgements wait for their answer, and acknowledgements that should have been
#: stored.
_WRITES: Final = 32
_UNSTORED: Final = 16


class Persistence:
    """What the leader of one share partition stores: `write` takes accepted Writes, `is_as_acknowledged` and `answered`
    acknowledgements.

    `writes` came while acknowledgements wait for their answer; `rest` says that none does: of what was written before,
    none that come later will be about."""

    __slots__ = ("_orderly", "_unstored", "writes")

    def __init__(self) -> None:
        self.writes: deque[tuple[StateStep, Sequence[Stored]]] = deque(maxlen=_WRITES)
        self._unstored: deque[Persisting] = deque(maxlen=_UNSTORED)
        #: How many acknowledgements, one behind the other, were wholly stored before they were answered.
        self._orderly = 0

    def write(self, write: StateStep, stored: Sequence[Stored], *, is_awaited: bool) -> None:
        """A Write was accepted; `is_awaited`: acknowledgements have no answer yet."""
        if is_awaited:
            self.writes.append((write, stored))
        if self._unstored:
            for one in self._unstored:
                one.meets(write, stored)
            self._unstored = deque((one for one in self._unstored if len(one.left) > 0), _UNSTORED)

    def rest(self) -> None:
        self.writes.clear()

    def since(self, step: Step) -> Iterator[Stored]:
        """What was written behind the request, while acknowledgements waited for their answer."""
        return (one for write, stored in self.writes if write.packet >= step.packet for one in stored)

    def is_as_acknowledged(self, step: Step, runs: Sequence[Run]) -> bool:
        """Whether one Write behind the request stores all that it says, and none took long: no rule has anything to say
        of that."""
        found = False
        for write, stored in self.writes:
            if write.packet < step.packet:
                continue
            if write.call.end_ns - write.call.time_ns >= HALF * SLOW_NS:
                return False
            found = found or _says(stored, runs)
        self._orderly += found
        return found

    def answered(self, step: Step, runs: Sequence[Run], before: StateStep, *, taken: bool) -> Persisting:
        """Acknowledgements were answered: what was stored of them by then, which is all where they were `taken`."""
        some_forgotten = len(self.writes) == _WRITES and self.writes[0][0].packet > step.packet
        found = Persisting(step, runs, before, is_due=self._orderly >= ORDERLY and not some_forgotten)
        for write, stored in self.writes:
            found.meets(write, stored)
        if taken and found.changes:
            if len(found.left) > 0 and found.is_due:
                self._unstored.append(found)
            self._orderly = 0 if len(found.left) > 0 else self._orderly + 1
        return found


class Persisting:
    """What was stored of one request's acknowledgements, once they were answered; `meets` takes what is stored later.

    `before` is the last exchange by which their leader had read or stored its state when the request came, `writes` are
    the batches with records of the request, each with the Write that stored them. `left` are offsets that none has
    stored, `later` is the first Write that was sent behind the answer; `is_due`: the leader was seen to store those
    before."""

    __slots__ = ("before", "is_due", "later", "left", "runs", "step", "writes")

    def __init__(self, step: Step, runs: Sequence[Run], before: StateStep, *, is_due: bool) -> None:
        self.step = step
        self.runs = runs
        self.before = before
        self.is_due = is_due
        self.writes: list[tuple[StateStep, Stored]] = []
        self.left: OffsetRanges[bool] = OffsetRanges()
        self.later: StateStep | None = None
        for run in runs:
            if run.type != RENEW:
                self.left.put(run.first, run.last, True)

    @property
    def changes(self) -> bool:
        """Whether there is anything to store."""
        return any(run.type != RENEW for run in self.runs)

    def meets(self, write: StateStep, stored: Sequence[Stored]) -> None:
        """A Write was accepted; what is below its start offset is done with, and stored by that."""
        answer = self.step.answer
        if write.packet < self.step.packet:
            return
        if answer is not None and write.packet > answer.packet:
            self.later = self.later or write
        if self.later is None:
            self.writes += [
                (write, one)
                for one, is_concerned in zip(stored, concern(stored, self.runs), strict=True)
                if is_concerned
            ]
        for one in stored:
            self.left.drop(one.first, one.last)
        if write.start_offset is not None:
            self.left.drop(0, write.start_offset - 1)


def concern(ranges: Iterable[Stored | Piece], runs: Iterable[Run]) -> list[bool]:
    """Of each of these ranges whether any of its offsets are acknowledged; they mostly stand in their order, and are
    gone through once."""
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


def _says(stored: Iterable[Stored], runs: Sequence[Run]) -> bool:
    """Whether batches store what is acknowledged, both in the order of their offsets."""
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
