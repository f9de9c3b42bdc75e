"""Records in flight: the states that they may be in, who has them acquired, what acknowledgements and coordinators say
of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from kshark.analysis.facts.calls import Batch, Step
from kshark.analysis.facts.releases import Release, agreed
from kshark.analysis.facts.state_steps import StateBatch
from kshark.analysis.states.partition.missing_offsets import Lacks
from kshark.analysis.states.tables.in_flight import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    STORED,
    TERMINAL,
    Stage,
)
from kshark.offset_ranges import OffsetRanges, Ranged

#: A timer that is due may come so much later.
TIMER_NS: Final = 100_000_000
#: So many acquisitions of records are remembered before the last one: a group may be told to try as often.
_BEFORE: Final = 25


class Hold(Struct, eq=False):
    """Records that a ShareFetch acquired: their lock runs out between two times.

    `renewal` is the last request that renewed it; `before` is the acquisition of the same records before this one, and
    so on. `lacks`: which of the range that was handed out have no record, None where that is not known. `left`: how
    many of them may still be locked, at most."""

    step: Step
    early_ns: int
    late_ns: int
    renewal: Step | None = None
    before: Hold | None = None
    lacks: Lacks | None = None
    left: int = 1

    @property
    def since(self) -> Step:
        """The request that began the lock: the acquisition, or the last renewal."""
        return self.renewal or self.step

    @property
    def lock_ns(self) -> int:
        """How long the lock is, at least."""
        return self.early_ns - self.since.time_ns

    def renewed(self, step: Step, size: int) -> Hold:
        """It, of so many of its records, with the lock that a renewal begins anew; where the answer does not say how
        long that lasts, as long as before."""
        answer = step.answer
        lock_ns = (
            answer.lock_ns if answer is not None and answer.lock_ns is not None else self.early_ns - self.step.time_ns
        )
        return Hold(
            self.step, step.time_ns + lock_ns, step.end_ns + lock_ns + TIMER_NS, step, self.before, self.lacks, size
        )

    def is_of(self, step: Step) -> bool:
        """Whether the member of that request has, or had, the records, since before it was the broker's turn to take
        it."""
        return self.step.member_id == step.member_id and (self.step.end < step.packet or self.is_ahead_of(step))

    def is_ahead_of(self, step: Step) -> bool:
        """Whether the request was sent on the same connection while this acquisition waited for its answer: it was
        taken behind it."""
        return self.step.connection is step.connection and self.step.packet < step.packet <= self.step.end


class Locked(NamedTuple):
    """An acquisition, and how long its locks last."""

    step: Step
    lock_ns: int


class Record(Struct, eq=False):
    """A state that records may be in. `count`: how often they were delivered, None where that is not known.

    `hold` is the last acquisition, `by` the exchange that brought them here and `how` the word for it; a lock that ran
    out has no exchange."""

    stage: Stage
    count: int | None
    hold: Hold | None = None
    by: Step | None = None
    how: str = ""

    def may_run_out(self, by_ns: int) -> bool:
        """Whether somebody has them acquired with a lock that may be out by that time."""
        return self.stage is ACQUIRED and self.hold is not None and by_ns >= self.hold.early_ns

    def given_back(self, how: str, by: Step | None, most: int, *, uncounted: bool | None = False) -> list[Record]:
        """What a record becomes that was released, or whose lock ran out: available again, or archived after as many
        deliveries as `most`.

        `uncounted`: the delivery counts as none, and the record is never archived; None: it may.
        """
        count, hold = self.count, self.hold
        back: list[Record] = []
        if uncounted is not False:
            back.append(Record(AVAILABLE, None if count is None else count - 1, hold, by, how))
        if not uncounted:
            back.append(Record(AVAILABLE, count, hold, by, how))
            if count is None or count >= most:
                back.append(Record(ARCHIVED, count, hold, by, how))
        return back

    def is_held_by(self, member_id: str | None) -> bool:
        """Whether that member has them acquired."""
        return self.stage is ACQUIRED and self.hold is not None and self.hold.step.member_id == member_id


#: States of which records are in one.
May = tuple[Record, ...]
Piece = Ranged[May]


def between_times(piece: Piece, since_ns: int, until_ns: int, most: int) -> Piece:
    """Records between two times: their locks may have run out by then. `most`: the highest delivery count seen of their
    partition."""
    may = piece.value
    if len(may) == 1 and not may[0].may_run_out(until_ns):
        return piece
    if len(may) > 1:
        may = tuple([one for one in may if one.stage is not ARCHIVED or not _lives_on(one, most)]) or may
    told: list[Record] = []
    for one in may:
        if not one.may_run_out(until_ns):
            told.append(one)
            continue
        if one.hold is None or since_ns <= one.hold.late_ns:
            told.append(one)
        told += one.given_back("lock_timeout", None, most)
    return Ranged(piece.first, piece.last, tuple(told))


def _lives_on(record: Record, most: int) -> bool:
    """Whether a record that may have been archived was not, as others were delivered more often."""
    return record.how not in ("rejected", "gap", "read", "stored") and record.count is not None and record.count < most


def came_later(may: May, step: Step, count: int) -> bool:
    """Whether records had been handed out again when the answer to that request was seen, whose delivery has a lower
    `count`."""
    hold = may[0].hold
    if hold is None or hold.step.end < step.packet:
        return False
    return all(one.hold is hold and one.count is not None and one.count > count for one in may)


def behind(may: May, before: Hold) -> May:
    """The same records, which came later: they were handed out with that before."""
    if (hold := may[0].hold) is not None:
        hold.before = Hold(before.step, before.early_ns, before.late_ns, before=hold.before)
    return may


class AcquiredRange(NamedTuple):
    """A range that an answer hands out, and what was known of these records before; `number` is that of the delivery.

    `lacks`: which of its offsets have no record in the answer, None where that is not known. `later`: records that were
    handed out once more before the answer was seen; `pieces` are the others."""

    first: int
    last: int
    number: int
    pieces: Sequence[Piece]
    lacks: Lacks | None = None
    later: Sequence[Piece] = ()


def is_done(may: May) -> bool:
    """Whether records are done with, whatever of these they are in."""
    return TERMINAL.issuperset([one.stage for one in may])


class Run(NamedTuple):
    """Offsets acknowledged in one way."""

    first: int
    last: int
    type: int


class Stored(NamedTuple):
    """Records as a share coordinator stores them."""

    first: int
    last: int
    stage: Stage
    deliveries: int


def runs_of(batches: Iterable[Batch]) -> list[Run]:
    """Acknowledgement batches by type; of one that contradicts itself nothing, as brokers refuse the partition then."""
    runs: list[Run] = []
    for batch in batches:
        types, size = batch.types, batch.last - batch.first + 1
        if len(types) == 1 and size > 0:
            runs.append(_run((batch.first, batch.last, types[0])))
        elif len(types) == size:
            at = batch.first
            for kind, same in groupby(types):
                count = len(list(same))
                runs.append(_run((at, at + count - 1, kind)))
                at += count
    return runs


def stored_of(batches: Iterable[StateBatch]) -> list[Stored]:
    """Batches of a share coordinator, as far as they make sense."""
    return [
        _stored((first, last, STORED[state], count))
        for first, last, state, count in batches
        if state in STORED and first <= last
    ]


def held_before(pieces: Sequence[Piece]) -> Hold | None:
    """The acquisition before, where it was one and the same for all of these records, and its member did not give them
    back."""
    hold = pieces[0].value[0].hold
    for piece in pieces:
        for one in piece.value:
            if one.hold is not hold or one.how == "released":
                return None
    if hold is None:
        return None
    oldest = hold
    for _ in range(_BEFORE):
        if (before := oldest.before) is None:
            break
        oldest = before
    oldest.before = None
    return Hold(hold.step, hold.early_ns, hold.late_ns, hold.renewal, hold.before)


#: NamedTuples made in C; see offset_ranges.
_run: Final[Callable[[tuple[int, int, int]], Run]] = partial(tuple.__new__, Run)
_stored: Final[Callable[[tuple[int, int, Stage, int]], Stored]] = partial(tuple.__new__, Stored)


#: The word for records that are stored in a state which the capture does not explain.
UNEXPLAINED: Final = "stored"
#: The word for records that have left for a dead-letter queue (KIP-1191).
_ARCHIVED: Final = "archived"


def settled(
    may: May, stored: Stored, sent_ns: int, time_ns: int, releases: frozenset[Release], *, is_late: bool
) -> tuple[May, str | None, Step | None]:
    """What is left of what records may be in; the word for what that shows to have happened to them, and the request
    that held them.

    The write was sent and answered at two times; `releases` may be its leader's. `is_late`: it may be of what was
    handed out before its leader began anew."""
    agreeing = tuple(
        [one for one in may if one.stage is stored.stage and (one.count is None or one.count == stored.deliveries)]
    )
    if len(agreeing) == len(may) or (not agreeing and is_done(may)):
        return may, None, None  # a broker that read the state anew may still write what it knew before
    if agreeing:
        told = agreeing[0].by is None or agreeing[0].how == "session_released"
        return agreeing, agreeing[0].how if told else None, may[0].by
    is_old = stored.stage is AVAILABLE and all(_is_later(one, stored) for one in may)
    if is_old and agreed(releases, "release_uncounts") is False:
        return may, None, None  # no session that ended has taken its delivery back: an earlier one was stored late
    held = may[0]
    if (
        held.stage is ARCHIVING
        and len(may) == 1
        and stored.stage is ARCHIVED
        and held.count in (None, stored.deliveries)
    ):
        return (Record(ARCHIVED, stored.deliveries, held.hold, held.by, held.how),), _ARCHIVED, None
    how = UNEXPLAINED  # somebody else acquired them, and the capture lacks that
    if held.stage is ACQUIRED and held.hold is not None and stored.deliveries <= (held.count or 0):
        how = "lock_timeout" if time_ns >= held.hold.early_ns else "session_released"
    now = Record(stored.stage, stored.deliveries, held.hold, None, how)
    if is_late or is_old or any(one.by is not None and one.by.end_ns > sent_ns - TIMER_NS for one in may):
        return (*may, now), None, None  # what is stored may be older than what is known
    return (now,), None if how == UNEXPLAINED else how, None if held.hold is None else held.hold.step


def keep_stored(records: OffsetRanges[May], step: Step, stored: Iterable[Stored]) -> None:
    """Records that a request has just given back or was done with are in what their leader had stored before it
    answered.

    One that was released for the last time, or rejected, may be on its way to a dead-letter queue.
    """
    for one in stored:
        for first, last, may in records.over(one.first, one.last) if one.stage is not ACKNOWLEDGED else ():
            held = may[0]
            is_known = len(may) == 1 and held.stage in (one.stage, ACQUIRED, ACKNOWLEDGED)
            if not is_known and all(record.by is step and record.count in (None, one.deliveries) for record in may):
                records.put(first, last, (Record(one.stage, one.deliveries, held.hold, step, held.how),))


def _is_later(record: Record, stored: Stored) -> bool:
    """Whether it was delivered once more behind the delivery whose end was stored."""
    return record.count is not None and record.count > stored.deliveries
