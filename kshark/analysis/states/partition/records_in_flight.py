"""Records in flight: their possible states, their holds, and their acknowledged and stored states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from kshark.analysis.facts.calls import AcknowledgementBatch, ShareStep
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

#: A timer may run this much later than it is due.
TIMER_NS: Final = 100_000_000
#: Earlier acquisitions of a record that are kept: a group may be configured to allow as many attempts.
_BEFORE: Final = 25


class Hold(Struct, eq=False):
    """Records that a ShareFetch acquired. Their lock expires between two times.

    `renewal`: the last request that renewed the lock.
    `before`: the previous acquisition of the same records, which has its own `before`.
    `lacks`: offsets of the acquired range without a record; None if they are unknown.
    `left`: the highest possible number of records that are still locked.
    """

    step: ShareStep
    early_ns: int
    late_ns: int
    renewal: ShareStep | None = None
    before: Hold | None = None
    lacks: Lacks | None = None
    left: int = 1

    @property
    def since(self) -> ShareStep:
        """The request that began the lock: the acquisition, or the last renewal."""
        return self.renewal or self.step

    @property
    def lock_ns(self) -> int:
        """The minimum lock duration."""
        return self.early_ns - self.since.time_ns

    def renewed(self, step: ShareStep, size: int) -> Hold:
        """Return the hold of `size` records after a renewal.

        Without a duration in the answer, the lock lasts as before.
        """
        answer = step.answer
        lock_ns = (
            answer.lock_ns if answer is not None and answer.lock_ns is not None else self.early_ns - self.step.time_ns
        )
        return Hold(
            self.step, step.time_ns + lock_ns, step.end_ns + lock_ns + TIMER_NS, step, self.before, self.lacks, size
        )

    def is_of(self, step: ShareStep) -> bool:
        """True if the member of that request acquired the records before the broker processed the request."""
        return self.step.member_id == step.member_id and (self.step.end < step.packet or self.is_ahead_of(step))

    def is_ahead_of(self, step: ShareStep) -> bool:
        """True if the request was sent on the same connection before this acquisition was answered.

        The broker processed it after the acquisition.
        """
        return self.step.connection is step.connection and self.step.packet < step.packet <= self.step.end


class Locked(NamedTuple):
    """An acquisition and the duration of its locks."""

    step: ShareStep
    lock_ns: int


class RecordState(Struct, eq=False):
    """A possible state of records. `count`: the delivery count; None if it is unknown.

    `hold`: the last acquisition.
    `by`: the request that caused the state; None for an expired lock.
    `how`: the word for the cause.
    """

    stage: Stage
    count: int | None
    hold: Hold | None = None
    by: ShareStep | None = None
    how: str = ""

    def may_run_out(self, by_ns: int) -> bool:
        """True if a member holds the records with a lock that may expire by that time."""
        return self.stage is ACQUIRED and self.hold is not None and by_ns >= self.hold.early_ns

    def given_back(
        self, how: str, by: ShareStep | None, most: int, *, uncounted: bool | None = False
    ) -> list[RecordState]:
        """Return the possible states after a release or an expired lock.

        The record is available again, or archived if it was delivered `most` times.
        `uncounted`: the broker takes the delivery off the count, so the record is never archived; None: it may do so.
        """
        count, hold = self.count, self.hold
        back: list[RecordState] = []
        if uncounted is not False:
            back.append(RecordState(AVAILABLE, None if count is None else count - 1, hold, by, how))
        if not uncounted:
            back.append(RecordState(AVAILABLE, count, hold, by, how))
            if count is None or count >= most:
                back.append(RecordState(ARCHIVED, count, hold, by, how))
        return back

    def is_held_by(self, member_id: str | None) -> bool:
        """True if that member has acquired the records."""
        return self.stage is ACQUIRED and self.hold is not None and self.hold.step.member_id == member_id


#: The possible states of records; one of them is true.
May = tuple[RecordState, ...]
Piece = Ranged[May]


def between_times(piece: Piece, since_ns: int, until_ns: int, most: int) -> Piece:
    """Return the possible states of records between two times: locks may have expired by then.

    `most`: the highest delivery count seen in the partition.
    """
    may = piece.value
    if len(may) == 1 and not may[0].may_run_out(until_ns):
        return piece
    if len(may) > 1:
        may = (
            tuple([record for record in may if record.stage is not ARCHIVED or not _is_not_archived(record, most)])
            or may
        )
    states: list[RecordState] = []
    for record in may:
        if not record.may_run_out(until_ns):
            states.append(record)
            continue
        if record.hold is None or since_ns <= record.hold.late_ns:
            states.append(record)
        states += record.given_back("lock_timeout", None, most)
    return Ranged(piece.first, piece.last, tuple(states))


def _is_not_archived(record: RecordState, most: int) -> bool:
    """True if the record was not archived, because other records were delivered more often."""
    return record.how not in ("rejected", "gap", "read", "stored") and record.count is not None and record.count < most


def came_later(may: May, step: ShareStep, count: int) -> bool:
    """True if the records were delivered again before the answer to that request was seen.

    The delivery in that answer has the lower `count`.
    """
    hold = may[0].hold
    if hold is None or hold.step.end < step.packet:
        return False
    return all(record.hold is hold and record.count is not None and record.count > count for record in may)


def insert_before(may: May, before: Hold) -> May:
    """Insert an acquisition before the last one of the records, because its answer was seen later."""
    if (hold := may[0].hold) is not None:
        hold.before = Hold(before.step, before.early_ns, before.late_ns, before=hold.before)
    return may


class AcquiredRange(NamedTuple):
    """A range that an answer delivers, and the possible states of its records before; `number`: the delivery count.

    `lacks`: its offsets without a record in the answer; None if they are unknown.
    `later`: records that were delivered again before the answer was seen. `pieces`: the other records.
    """

    first: int
    last: int
    number: int
    pieces: Sequence[Piece]
    lacks: Lacks | None = None
    later: Sequence[Piece] = ()


def is_done(may: May) -> bool:
    """True if all possible states of the records are terminal."""
    return TERMINAL.issuperset([record.stage for record in may])


class AcknowledgedRange(NamedTuple):
    """Offsets that are acknowledged with one type."""

    first: int
    last: int
    type: int


class OpenRequest(Struct, eq=False):
    """A request whose acknowledgements of the partition wait for their answer.

    `expired`: acknowledged records whose lock has ended meanwhile, each with its acquisition. If the broker applied the
    acknowledgement before, the lock did not expire; the answer shows it.
    """

    step: ShareStep
    runs: Sequence[AcknowledgedRange]
    expired: OffsetRanges[Hold] | None = None

    def expires(self, first: int, last: int, hold: Hold) -> None:
        """Note that the lock of these records has ended."""
        if self.expired is None:
            self.expired = OffsetRanges()
        self.expired.put(first, last, hold)


class StoredRange(NamedTuple):
    """Records in a state of the share coordinator."""

    first: int
    last: int
    stage: Stage
    deliveries: int


def runs_of(batches: Iterable[AcknowledgementBatch]) -> list[AcknowledgedRange]:
    """Split acknowledgement batches by type.

    A batch with a wrong number of types is left out: brokers refuse its partition.
    """
    runs: list[AcknowledgedRange] = []
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


def stored_of(batches: Iterable[StateBatch]) -> list[StoredRange]:
    """Read the valid batches of a share coordinator."""
    return [
        _stored((first, last, STORED[state], count))
        for first, last, state, count in batches
        if state in STORED and first <= last
    ]


def held_before(pieces: Sequence[Piece]) -> Hold | None:
    """Return the previous acquisition if it is the same for all records and its member did not release them."""
    hold = pieces[0].value[0].hold
    for piece in pieces:
        for record in piece.value:
            if record.hold is not hold or record.how == "released":
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


#: Create the NamedTuples in C; see offset_ranges.
_run: Final[Callable[[tuple[int, int, int]], AcknowledgedRange]] = partial(tuple.__new__, AcknowledgedRange)
_stored: Final[Callable[[tuple[int, int, Stage, int]], StoredRange]] = partial(tuple.__new__, StoredRange)


#: The word for records in a stored state that the capture does not explain.
UNEXPLAINED: Final = "stored"
#: The word for records that were moved to a dead-letter queue (KIP-1191).
_ARCHIVED: Final = "archived"


def settled(
    may: May, stored: StoredRange, sent_ns: int, time_ns: int, releases: frozenset[Release], *, is_late: bool
) -> tuple[May, str | None, ShareStep | None]:
    """Reduce the possible states of records to those that agree with the stored state.

    Return also the word for the cause that the stored state shows, and the request that held the records. The Write was
    sent and answered at `sent_ns` and `time_ns`. `releases`: the possible releases of the leader. `is_late`: the Write
    may concern acquisitions from before the leader read its state again.
    """
    agreeing = tuple(
        [
            state
            for state in may
            if state.stage is stored.stage and (state.count is None or state.count == stored.deliveries)
        ]
    )
    if len(agreeing) == len(may) or (not agreeing and is_done(may)):
        return may, None, None  # a broker that read the state again may still write its earlier state
    if agreeing:
        is_news = agreeing[0].by is None or agreeing[0].how == "session_released"
        return agreeing, agreeing[0].how if is_news else None, may[0].by
    is_old = stored.stage is AVAILABLE and all(_is_later(state, stored) for state in may)
    if is_old and agreed(releases, "release_uncounts") is False:
        return may, None, None  # no ended session took its delivery off the count: an earlier one was stored late
    held = may[0]
    if (
        held.stage is ARCHIVING
        and len(may) == 1
        and stored.stage is ARCHIVED
        and held.count in (None, stored.deliveries)
    ):
        return (RecordState(ARCHIVED, stored.deliveries, held.hold, held.by, held.how),), _ARCHIVED, None
    how = UNEXPLAINED  # another member acquired them, and the capture lacks that
    if held.stage is ACQUIRED and held.hold is not None and stored.deliveries <= (held.count or 0):
        how = "lock_timeout" if time_ns >= held.hold.early_ns else "session_released"
    record = RecordState(stored.stage, stored.deliveries, held.hold, None, how)
    if is_late or is_old or any(state.by is not None and state.by.end_ns > sent_ns - TIMER_NS for state in may):
        return (*may, record), None, None  # the stored state may be older than the possible states
    return (record,), None if how == UNEXPLAINED else how, None if held.hold is None else held.hold.step


def keep_stored(records: OffsetRanges[May], step: ShareStep, stored: Iterable[StoredRange]) -> None:
    """Set records that a request has just given back or ended to the state that their leader stored before the answer.

    A record that was released after its last delivery, or rejected, may be on its way to a dead-letter queue.
    """
    for batch in stored:
        for first, last, may in records.over(batch.first, batch.last) if batch.stage is not ACKNOWLEDGED else ():
            held = may[0]
            is_known = len(may) == 1 and held.stage in (batch.stage, ACQUIRED, ACKNOWLEDGED)
            if not is_known and all(record.by is step and record.count in (None, batch.deliveries) for record in may):
                records.put(first, last, (RecordState(batch.stage, batch.deliveries, held.hold, step, held.how),))


def _is_later(record: RecordState, stored: StoredRange) -> bool:
    """True if the record was delivered again after the stored delivery."""
    return record.count is not None and record.count > stored.deliveries
